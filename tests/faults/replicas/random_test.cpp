// Row R19: single flipped bits anywhere in what has copies, over random layouts: all are found, and
// flips of what has no copies and of padding are not spoken of. The same flips under a check that
// knows the data axis only, as if somebody had forgotten tensor ranks and tied ends: it must miss
// some, or this suite could not find that bug.
#include "framework/base/random.h"

#include <gtest/gtest.h>

#include <array>

#include "framework/backend/fingerprint.h"
#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "tests/faults/replicas/flips.h"
#include "tests/support/fault_count.h"

namespace trireme::test {
namespace {

using parity::Layout;
using parity::Rank;
using parity::Task;

constexpr int kLayouts = 20, kFlips = 10;

// Numbers of one seed: the same on all ranks.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : key_(key_from_seed(seed)) {}
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_word(key_, next_++) % static_cast<std::uint64_t>(n));
  }

 private:
  RngKey key_;
  std::uint64_t next_ = 0;
};

struct Drawn {
  Task task;
  Layout layout;
};

Drawn drawn(Draw& draw) {
  const std::vector<MeshShape> meshes = {{2, 1, 1}, {3, 1, 1}, {1, 1, 2}, {1, 2, 1}, {2, 1, 2},
                                         {2, 2, 1}, {1, 2, 2}, {4, 1, 1}, {2, 2, 2}, {1, 1, 4},
                                         {6, 1, 1}, {2, 3, 1}, {1, 2, 4}};
  const std::vector<ModelOptions> models = {parity::tiny_gpt2(), parity::tiny_llama(1),
                                            parity::tiny_llama(2)};
  const std::vector<DType> types = {DType::kF32, DType::kBF16, DType::kF16, DType::kF64};
  Drawn d{.task = {.model = models[static_cast<std::size_t>(draw.below(3))],
                   .steps = 1,
                   .compute = types[static_cast<std::size_t>(draw.below(4))]},
          .layout = {.mesh = meshes[static_cast<std::size_t>(draw.below(std::ssize(meshes)))],
                     .zero_stage = static_cast<int>(draw.below(4))}};
  d.task.model.tie_embeddings = draw.below(2) == 0;
  if (d.layout.zero_stage > 0 && d.layout.mesh.data % 2 == 0 && draw.below(2) == 0)
    d.layout.shard_ranks = d.layout.mesh.data / 2;
  return d;
}

// Does the sum over `group` say that copies differ?
bool speaks(const ReplicaCheck& check, Communicator& group, Backend& backend) {
  bool spoken = false;
  for (std::int64_t step = 0; step < check.turns(); ++step) {
    const Tensor sum = backend.zeros({2}, DType::kF64, MemoryKind::kWorkspace);
    check.add(step, sum);
    group.all_reduce(sum).wait();
    const std::vector<double> words = download_doubles(backend, sum);
    spoken = joined_fingerprint(words[0], words[1]) != 0 || spoken;
  }
  return spoken;
}

bool anywhere(Communicator& world, Backend& backend, bool here) {
  const Tensor sum = backend.zeros({1}, DType::kF64, MemoryKind::kWorkspace);
  const double mine[1] = {here ? 1.0 : 0.0};
  upload_doubles(backend, mine, sum);
  world.all_reduce(sum).wait();
  return download_doubles(backend, sum)[0] > 0;
}

struct Outcome {
  int flips = 0, found = 0, alone = 0, false_alarms = 0;
  int missed_by_data_axis = 0;  // the planted bug
  int padding = 0, padding_alarms = 0;
  std::int64_t turns = 0;
};

class Suite {
 public:
  explicit Suite(std::uint64_t seed) : seed_(seed) {}

  void run() {
    Draw draw(seed_);
    const Drawn d = drawn(draw);
    SCOPED_TRACE(text_of(d.layout));
    const SampleSource source = parity::random_samples(d.task.model, d.task.seed);
    parity::run_layout(d.task, d.layout, [&](Rank& rank) {
      rank.engine.train(0, source);
      const std::vector<ReplicatedArray> arrays = rank.engine.optimizer().arrays();
      // Every other layout in turns, as large models are.
      constexpr std::int64_t kAtOnce = std::int64_t{1} << 24, kInTurns = 7;
      const ReplicaCheck check(rank.mesh, rank.backend, arrays,
                               seed_ % 2 == 0 ? kAtOnce : kInTurns);
      if (rank.mesh.world().rank() == 0) outcome_.turns = check.turns();
      Mesh data_axis(rank.mesh.data(), {.data = rank.mesh.shape().data});
      const ReplicaCheck planted(data_axis, rank.backend, arrays);
      Communicator& world = rank.mesh.world();
      EXPECT_FALSE(speaks(check, world, rank.backend));
      EXPECT_FALSE(speaks(planted, rank.mesh.data(), rank.backend));
      const std::vector<Held> mine = held(rank);
      for (int i = 0; i < kFlips; ++i) {
        Draw own(seed_ * 1000 + static_cast<std::uint64_t>(i));
        const int victim = static_cast<int>(own.below(world.size()));
        const bool me = victim == world.rank();
        const Held& what = mine[static_cast<std::size_t>(own.below(std::ssize(mine)))];
        const Place place{what.tensor, what.array, own.below(what.elements)};
        const int bit = static_cast<int>(own.below(what.bits));
        const bool copies = has_copies(rank, place, victim);
        if (me && !change(rank, place, Change::kBit, bit)) ADD_FAILURE() << "nothing to change";
        const bool found = speaks(check, world, rank.backend);
        const bool by_data =
            anywhere(world, rank.backend, speaks(planted, rank.mesh.data(), rank.backend));
        if (me) change(rank, place, Change::kBit, bit);
        if (world.rank() == 0) count(copies, found, by_data);
        if (found != copies && me)
          ADD_FAILURE() << place.tensor << " (" << place.array << ") element " << place.element
                        << " bit " << bit << " of rank " << world.rank() << ": copies " << copies
                        << ", found " << found;
      }
      const bool padded = anywhere(world, rank.backend, flip_padding(rank));
      const bool alarm = speaks(check, world, rank.backend);
      if (world.rank() == 0) outcome_.padding += padded, outcome_.padding_alarms += alarm;
    });
  }
  const Outcome& outcome() const { return outcome_; }

 private:
  // Has another rank the same element of the same logical tensor? The victim tells which one it is,
  // everybody looks whether it is there: nothing of what the check knows.
  static bool has_copies(Rank& rank, const Place& place, int victim) {
    Communicator& world = rank.mesh.world();
    std::array<char, 256> text{};
    if (world.rank() == victim) {
      const std::string told = join(place.tensor, " ", place.array, "/", index_of(rank, place));
      std::copy(told.begin(), told.end(), text.begin());
    }
    const Tensor shared =
        rank.backend.allocate({std::ssize(text)}, DType::kU8, MemoryKind::kWorkspace);
    rank.backend.upload(text.data(), shared);
    world.broadcast(shared, victim).wait();
    rank.backend.download(shared, text.data());
    const std::string told = text.data();
    const std::size_t space = told.find(' '), slash = told.find('/');
    const bool here = world.rank() != victim &&
                      holds(rank, told.substr(0, space), told.substr(space + 1, slash - space - 1),
                            std::stoll(told.substr(slash + 1)));
    return anywhere(world, rank.backend, here);
  }

  void count(bool copies, bool found, bool by_data) {
    if (!copies) {
      ++outcome_.alone;
      outcome_.false_alarms += found;
      return;
    }
    ++outcome_.flips;
    outcome_.found += found;
    outcome_.missed_by_data_axis += !by_data;
  }

  std::uint64_t seed_;
  Outcome outcome_;
};

TEST(Replicas, EverySingleFlippedBitOfACopyIsFound) {
  FaultCount count{.row = "R19", .what = "flipped bits in copies"};
  Outcome all;
  for (int seed = 0; seed < kLayouts || all.flips < 200; ++seed) {
    Suite suite(static_cast<std::uint64_t>(seed));
    suite.run();
    const Outcome& one = suite.outcome();
    ++count.runs;
    all.turns = std::max(all.turns, one.turns);
    all.flips += one.flips, all.found += one.found, all.alone += one.alone;
    all.false_alarms += one.false_alarms, all.missed_by_data_axis += one.missed_by_data_axis;
    all.padding += one.padding, all.padding_alarms += one.padding_alarms;
  }
  EXPECT_EQ(all.turns, 8);
  EXPECT_GE(all.flips, 200);
  EXPECT_EQ(all.found, all.flips);
  EXPECT_GT(all.alone, 0);
  EXPECT_EQ(all.false_alarms, 0);
  EXPECT_GT(all.padding, kLayouts / 2);
  EXPECT_EQ(all.padding_alarms, 0);
  EXPECT_GT(all.missed_by_data_axis, 10);  // the planted bug
  count.injected = all.flips;
  count.lost = all.flips - all.found + all.false_alarms + all.padding_alarms;
  tell(count);
}

}  // namespace
}  // namespace trireme::test
