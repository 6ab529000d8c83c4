// trireme serve as ranks of mpirun: the words of one rank under other layouts, and what clients see
// of a rank that is killed.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>

#include "tests/program/harness/trained_run.h"
#include "tests/recipes/http/client.h"

namespace trireme::testing {
namespace {

using Words = std::vector<std::string>;
using test::ask;

class MpiServe : public TrainedRun {
 protected:
  static Words command(int ranks, const Words& flags) {
    Words words = under_mpirun(ranks, {program(), "serve", run_->folder()});
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }
};

// The port that the program says, once it serves.
int port_of(const std::string& err) {
  const std::size_t at = err.find("http://127.0.0.1:");
  const bool whole = at != std::string::npos && err.find("\nready in ") < err.rfind('\n');
  return whole ? std::atoi(err.c_str() + at + 17) : 0;
}

constexpr const char* kAsked =
    R"({"prompt": "ab", "max_tokens": 6, "temperature": 0, "ignore_eos": true})";

// The rank that the launcher gave a process.
std::string rank_of(pid_t pid) {
  const std::string all = text_of_file("/proc/" + std::to_string(pid) + "/environ");
  const std::string name = std::string(1, '\0') + "OMPI_COMM_WORLD_RANK=";
  const std::size_t at = all.find(name);
  return at == std::string::npos ? "" : all.c_str() + at + name.size();
}

pid_t process_of_rank(const std::vector<pid_t>& processes, const std::string& rank) {
  for (const pid_t pid : processes)
    if (rank_of(pid) == rank) return pid;
  ADD_FAILURE() << "no process has rank " << rank;
  return 0;
}

// The status of an answer; 0 if nobody answers.
int health_of(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<std::uint16_t>(port));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int status = 0;
  const std::string request = test::get("/health");
  char answer[64] = {};
  if (::connect(socket, reinterpret_cast<sockaddr*>(&place), sizeof place) == 0 &&
      ::send(socket, request.data(), request.size(), MSG_NOSIGNAL) > 0 &&
      ::recv(socket, answer, sizeof answer - 1, 0) > 9)
    status = std::atoi(answer + 9);
  ::close(socket);
  return status;
}

// A text without its time of making and number.
std::string words_of(const std::string& body) {
  const std::size_t at = body.find("\"choices\"");
  return at == std::string::npos ? body : body.substr(at, body.find("\"usage\"") - at);
}

TEST_F(MpiServe, TheSameWordsAsOneRank) {
  const Words layouts[] = {{},
                           {"--parallel.tensor=2"},
                           {"--parallel.pipeline=2"},
                           {"--parallel.data=2"},
                           {"--parallel.data=2", "--zero.stage=3"}};
  std::string expected;
  for (const Words& layout : layouts) {
    const int ranks = layout.empty() ? 1 : 2;
    Words flags = {"--port=0", "--precision.compute=f32"};
    flags.insert(flags.end(), layout.begin(), layout.end());
    StartedProgram server(command(ranks, flags));
    int port = 0;
    ASSERT_TRUE(server.wait_until([&] { return (port = port_of(server.err_so_far())) > 0; }))
        << server.end().err;
    for (int i = 0; i < 2; ++i) {
      const test::Answer answer = ask(port, test::post("/v1/completions", kAsked));
      EXPECT_EQ(answer.status, 200) << answer.body;
      if (expected.empty()) expected = words_of(answer.body);
      EXPECT_EQ(words_of(answer.body), expected);
    }
    // The first rank alone: mpirun would kill the others a second after it told them.
    for (const pid_t pid : ranks_with(run_->folder())) kill(pid, SIGTERM);
    const ProgramEnd end = server.end();
    EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_NE(end.err.find(" by mpi, "), std::string::npos) << end.err;
    EXPECT_EQ(end.err.find("wait passively") != std::string::npos, ranks > 1) << end.err;
  }
}

TEST_F(MpiServe, RanksMustMatchTheMesh) {
  const ProgramEnd end = run_to_end(command(2, {"--port=0", "--parallel.tensor=1"}));
  EXPECT_EQ(end.code, 2);
  EXPECT_NE(end.err.find("= 1 ranks, but the launcher started 2"), std::string::npos) << end.err;
}

// A rank is killed while an answer of it streams: the client hears of it soon, the server says that
// it is not healthy as long as it says anything, and all ends with a code that is not 0.
TEST_F(MpiServe, AKilledRankEndsAnswersAndServer) {
  for (const Words& layout :
       {Words{"--parallel.tensor=2"}, Words{"--parallel.pipeline=2"}, Words{"--parallel.data=2"}}) {
    Words flags = {"--port=0", "--batch.sequence=8192"};
    flags.insert(flags.end(), layout.begin(), layout.end());
    StartedProgram server(command(2, flags));
    int port = 0;
    ASSERT_TRUE(server.wait_until([&] { return (port = port_of(server.err_so_far())) > 0; }))
        << server.end().err;
    const pid_t victim = process_of_rank(ranks_with(run_->folder()), "1");
    ASSERT_GT(victim, 0);
    // Two, so that each of two replicas has one.
    test::Client first(port), second(port);
    for (test::Client* client : {&first, &second}) {
      client->send(test::post("/v1/completions",
                              R"({"prompt": "ab", "max_tokens": 8000, "ignore_eos": true,)"
                              R"( "stream": true})"));
      ASSERT_TRUE(client->until("data: {\"id\"")) << client->got();
    }
    kill(victim, SIGKILL);
    const auto begun = std::chrono::steady_clock::now();
    for (test::Client* client : {&first, &second}) {
      const std::string all = client->rest();
      EXPECT_NE(all.find("\"error\""), std::string::npos) << all.substr(0, 300);
      EXPECT_NE(all.find("rank 1 is gone"), std::string::npos);
      EXPECT_EQ(all.find("[DONE]"), std::string::npos);
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
    const int health = health_of(port);
    EXPECT_TRUE(health == 503 || health == 0) << health;
    const ProgramEnd end = server.end();
    EXPECT_NE(end.code, 0);
    EXPECT_NE(end.code, -1) << "it hung";
    EXPECT_NE(end.err.find("rank 1 is gone"), std::string::npos) << end.err;
    StartedProgram clock({"sleep", "10"});
    EXPECT_TRUE(clock.wait_until([&] { return ranks_with(run_->folder()).empty(); }));
  }
}

}  // namespace
}  // namespace trireme::testing
