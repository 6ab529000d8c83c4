// R4: rank 3 never returns: from its forward, from send, from receive, from its file queue. The
// others say what they waited for, for how long, and where rank 3 was; the same words on threads
// that the system schedules and on those of a baton; no thread is left.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "offload/io_pool.h"
#include "tests/faults/comm/small_program.h"
#include "tests/support/fault_count.h"

namespace trireme::test {
namespace {

enum class Where { kForward, kSend, kReceive, kFileQueue };

constexpr int kHung = 3, kPeers = 3;
constexpr double kTimeout = 600;

// How ranks hang and wait, of one kind of world.
class Stage {
 public:
  virtual ~Stage() = default;
  virtual CommunicatorOptions options() = 0;
  virtual void hang() = 0;          // of the rank's own thread
  virtual void hang_away() = 0;     // of another one that it waits for
  virtual void last_call() = 0;     // the peer's next call is one that cannot end
  virtual void told(int rank) = 0;  // the peer's call has ended; returns when all peers' have
};

class SimulatedStage final : public Stage {
 public:
  explicit SimulatedStage(std::uint64_t seed) : baton_(kRanks, StormPlan{.seed = seed}) {}
  CommunicatorOptions options() override { return baton_.options(kTimeout); }
  void hang() override { baton_.hang(kHung); }
  void hang_away() override { baton_.hang_away(kHung); }
  void last_call() override {}
  void told(int rank) override {
    ++told_;
    baton_.park(rank, [this] { return told_ == kPeers; });
  }

 private:
  Baton baton_;
  int told_ = 0;
};

// Real threads. The clock stands still until all peers wait in calls that cannot end.
class ThreadStage final : public Stage {
 public:
  CommunicatorOptions options() override {
    return {.timeout_seconds = kTimeout, .clock = [this] { return look(); }};
  }
  void hang() override {
    wait_for_all();
    fail("released");
  }
  void hang_away() override { wait_for_all(); }
  void last_call() override {
    const std::scoped_lock lock(mutex_);
    last_.insert(std::this_thread::get_id());
  }
  void told(int) override {
    {
      const std::scoped_lock lock(mutex_);
      ++told_;
    }
    changed_.notify_all();
    wait_for_all();
  }

 private:
  double look() {
    const std::scoped_lock lock(mutex_);
    if (last_.contains(std::this_thread::get_id())) waiting_.insert(std::this_thread::get_id());
    if (std::ssize(waiting_) == kPeers) seconds_ += kTimeout / 4;
    return seconds_;
  }
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return told_ == kPeers; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::thread::id> last_, waiting_;
  double seconds_ = 0;
  int told_ = 0;
};

void hang_at(Where where, Communicator& world, Backend& backend, Stage& stage) {
  const Tensor x = backend.zeros({4}, DType::kF64, MemoryKind::kActivations);
  Pending call;
  if (where == Where::kFileQueue) {
    IoPool files(1);
    files.start([&] { stage.hang_away(); }).wait();
    fail("released");
  }
  if (where == Where::kSend) call = world.send(x, 0);
  if (where == Where::kReceive) call = world.recv(x, 2);
  stage.hang();
}

void peer(Where where, Communicator& world, Backend& backend, Stage& stage, std::string& told) {
  const Tensor x = backend.zeros({16}, DType::kF32, MemoryKind::kActivations);
  const Tensor y = backend.zeros({4}, DType::kF64, MemoryKind::kActivations);
  try {
    if (where == Where::kSend && world.rank() == 0) world.recv(y, kHung).wait();
    stage.last_call();
    if (where == Where::kReceive && world.rank() == 2) world.send(y, kHung).wait();
    world.all_reduce(x).wait();
  } catch (const Error& error) {
    told = error.what();
  }
  stage.told(world.rank());
}

std::vector<std::string> run(Where where, Stage& stage) {
  std::vector<std::string> told(kPeers);
  EXPECT_THROW(run_thread_ranks(kRanks, stage.options(),
                                [&](Communicator& world) {
                                  const auto backend =
                                      make_reference_backend(std::make_shared<MemoryLedger>());
                                  world.attach(*backend);
                                  world.set_place(join("step 7, forward of rank ", world.rank()));
                                  world.barrier();
                                  if (world.rank() == kHung)
                                    hang_at(where, world, *backend, stage);
                                  else
                                    peer(where, world, *backend, stage,
                                         told[static_cast<std::size_t>(world.rank())]);
                                }),
               Error);
  return told;
}

std::string expected_call(Where where) {
  if (where == Where::kSend) return "send of 4 f64 (32 bytes) to rank 0, message 1 of world";
  if (where == Where::kReceive) return "recv of 4 f64 (32 bytes) from rank 2, message 1 of world";
  return "barrier, call 1 of world";
}

TEST(Hang, PeersNameTheRankThatNeverReturnsAndItsLastCall) {
  FaultCount told{.row = "R4", .what = "a rank never returns: threads and simulated"};
  const std::int64_t threads = threads_now();
  for (const Where where : {Where::kForward, Where::kSend, Where::kReceive, Where::kFileQueue}) {
    ThreadStage real;
    const std::vector<std::string> on_threads = run(where, real);
    EXPECT_EQ(threads_now(), threads);
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      SimulatedStage simulated(seed);
      const std::vector<std::string> in_storm = run(where, simulated);
      EXPECT_EQ(in_storm, on_threads) << "seed " << seed;
      EXPECT_EQ(threads_now(), threads);
      told.lost += in_storm == on_threads ? 0 : 1;
    }
    told.runs += 11;
    told.injected += 11;
    for (int rank = 0; rank < kPeers; ++rank) {
      const std::string& text = on_threads[static_cast<std::size_t>(rank)];
      const bool sends = where == Where::kReceive && rank == 2;
      const std::string own = sends ? "send of 4 f64 (32 bytes) to rank 3, message 1 of world"
                                    : "all_reduce of 16 f32 (64 bytes), call 2 of world";
      EXPECT_EQ(
          text.find(join(own, " at step 7, forward of rank ", rank, " did not complete in 600 s")),
          0u)
          << text;
      EXPECT_NE(text.find(join(sends ? "rank 3 has arrived" : "rank 3 has not arrived")),
                std::string::npos)
          << text;
      EXPECT_NE(text.find(join("its last call was ", expected_call(where),
                               " at step 7, forward of rank 3")),
                std::string::npos)
          << text;
    }
  }
  tell(told);
}

}  // namespace
}  // namespace trireme::test
