// A process of this machine that ends is noticed, whether somebody has waited for it or not.
#include "framework/comm/local_peers.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trireme {
namespace {

TEST(LocalPeers, NoticeAProcessThatWasKilled) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0)
    for (;;) pause();
  LocalProcess other = local_process(3);
  other.process = child;
  const LocalPeers peers({local_process(0), other}, 0);
  EXPECT_EQ(peers.lost(), "");
  LocalProcess elsewhere = other;
  ++elsewhere.space;
  const LocalPeers foreign({local_process(0), elsewhere}, 0);
  kill(child, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  const std::string text =
      "rank 3 is gone: its process " + std::to_string(child) + " has ended without a word";
  EXPECT_EQ(peers.lost(), text);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(peers.lost(), text);
  EXPECT_EQ(foreign.lost(), "") << "a process of another namespace has that number";
}

}  // namespace
}  // namespace trireme
