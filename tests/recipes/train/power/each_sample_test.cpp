// Each sample once: over kills at seeded moments and changes of layout, the places in the text that
// a run's steps have learned from are those of the run that nobody disturbed, each as often.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include "framework/base/error.h"
#include "framework/data/samples.h"
#include "recipes/train/save_session.h"
#include "tests/parity/train_layout.h"
#include "tests/support/fault_count.h"
#include "tests/support/faulty_files.h"
#include "tests/support/simulated_files.h"

namespace trireme {
namespace {

using namespace parity;
using testing::SimulatedFiles;

constexpr std::int64_t kSteps = 5, kGlobal = 12;

const Layout kLayouts[] = {
    {.micro = 12},
    {.mesh = {.data = 2}, .micro = 4, .zero_stage = 2},
    {.mesh = {.data = 3}, .micro = 4, .zero_stage = 3},
    {.mesh = {.data = 2, .tensor = 2}, .micro = 3},
    {.mesh = {.pipeline = 2, .tensor = 2}, .micro = 5},
    {.mesh = {.data = 4}, .schedule = ScheduleKind::kGPipe, .micro = 2, .zero_stage = 1},
    {.mesh = {.data = 2, .pipeline = 2}, .micro = 3},
    {.mesh = {.data = 6}, .micro = 2}};

class Killed : public Error {
 public:
  Killed() : Error("killed") {}
};

// Places of first tokens, by step (from 0).
using Consumed = std::map<std::int64_t, std::multiset<std::int64_t>>;

struct Told {
  Consumed consumed;  // of the steps that stand
  std::map<std::int64_t, double> losses;
};

class EachSample : public ::testing::Test {
 protected:
  EachSample() {
    TokenWriter writer(files_, "t.h5", "bytes", 13);
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 500; ++i) ids.push_back(i * i % 13);
    writer.add(ids);
    writer.finish(std::string(32, '0'));
    set_ = std::make_unique<TokenDataset>(
        TokenFile::open(files_, "t.h5"),
        SampleOptions{.sequence = task_.model.sequence, .seed = 3, .vocabulary = 13});
  }

  // A start: from the newest checkpoint on, under a layout, until step `dies` is killed in call
  // `at` of one of its ranks (or to the end).
  void start(Files& disk, const Layout& layout, int save_every, std::int64_t dies, int at,
             Told& run) {
    SaveSession session(disk, "run", 0, layout.mesh.ranks());
    std::vector<std::string> refused;
    const std::int64_t from = session.folder().newest_good(refused).value_or(0);
    run.consumed.erase(run.consumed.lower_bound(from), run.consumed.end());
    std::mutex mutex;
    std::atomic<int> calls{0};
    const auto body = [&](Rank& rank) {
      const MeshCoord me = rank.mesh.coord();
      const SaveRank place{&session, rank.engine, rank.mesh, rank.backend, rank.backend};
      if (from > 0) load(place, from);
      for (std::int64_t step = from; step < kSteps; ++step) {
        const SampleSource source = [&](std::int64_t first, std::int64_t count,
                                        std::vector<std::int32_t>& ids,
                                        std::vector<std::int32_t>& labels) {
          if (step == dies && calls++ == at) throw Killed();
          if (from > 0) first -= planted_;
          set_->train().fill(first, count, ids, labels);
          if (me.pipeline != 0 || me.tensor != 0) return;  // they read what others read, too
          const std::scoped_lock lock(mutex);
          for (std::int64_t i = first; i < first + count; ++i)
            run.consumed[step].insert(set_->train().first_token(i));
        };
        const double loss = rank.engine.train(step, source).loss;
        if (rank.first()) run.losses[step] = loss;
        if ((step + 1) % save_every == 0)
          save(place, {.run = "x", .step = step + 1, .recipe = "[train]\n"});
      }
    };
    try {
      run_layout(task_, layout, body);
    } catch (const Error& error) {
      ASSERT_NE(std::string(error.what()).find("killed"), std::string::npos) << error.what();
    }
  }

  Told quiet() {
    Told run;
    SimulatedFiles disk;
    start(disk, kLayouts[0], kSteps, kSteps, 0, run);
    return run;
  }

  Task task_{.model = {.layers = 1,
                       .hidden = 4,
                       .heads = 2,
                       .kv_heads = 2,
                       .head_dim = 2,
                       .ffn = 4,
                       .vocab = 13,
                       .sequence = 4},
             .global_batch = kGlobal};
  SimulatedFiles files_;
  std::unique_ptr<TokenDataset> set_;
  std::int64_t planted_ = 0;  // samples that a resumed run begins too early
};

TEST_F(EachSample, OnceOverKillsAndOtherLayouts) {
  const Told expected = quiet();
  ASSERT_EQ(expected.consumed.size(), static_cast<std::size_t>(kSteps));
  for (const auto& [step, places] : expected.consumed)
    ASSERT_EQ(std::ssize(places), kGlobal) << "step " << step;
  test::FaultCount count{.row = "1.2", .what = "sequences of kills and other layouts"};
  std::mt19937_64 random(2);
  std::int64_t moved = 0;
  for (int sequence = 0; sequence < 200; ++sequence) {
    SCOPED_TRACE(join("sequence ", sequence));
    SimulatedFiles disk;
    Told run;
    const int kills = 1 + static_cast<int>(random() % 4);
    for (int kill = 0; kill <= kills; ++kill) {
      const Layout& layout = kLayouts[random() % std::size(kLayouts)];
      const int every = 1 + static_cast<int>(random() % 3);
      const std::int64_t dies =
          kill == kills ? kSteps : static_cast<std::int64_t>(random() % kSteps);
      const auto before = run.losses.size();
      start(disk, layout, every, dies, static_cast<int>(random() % 4), run);
      count.injected += kill == kills ? 0 : 1;
      moved += run.losses.size() > before ? 1 : 0;
    }
    ++count.runs;
    bool right = run.consumed == expected.consumed && run.losses.size() == expected.losses.size();
    for (const auto& [step, loss] : expected.losses)
      right = right && std::abs(run.losses[step] - loss) <= 1e-12 * std::abs(loss);
    EXPECT_TRUE(right);
    count.lost += right ? 0 : 1;
  }
  EXPECT_GT(moved, 200);
  test::tell(count);
}

// Planted: a run that goes on one sample too early learns twice from that one.
TEST_F(EachSample, ASampleTwiceIsSeen) {
  const Told expected = quiet();
  planted_ = 1;
  SimulatedFiles disk;
  Told run;
  start(disk, kLayouts[1], 1, 3, 0, run);
  start(disk, kLayouts[2], 1, kSteps, 0, run);
  EXPECT_EQ(run.consumed.size(), expected.consumed.size());
  EXPECT_NE(run.consumed, expected.consumed);
}

}  // namespace
}  // namespace trireme
