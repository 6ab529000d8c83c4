// Faults while a checkpoint is written in the background: the power goes at every call, a call
// fails. A newest checkpoint that is whole, n or n - 1; all ranks end with one sentence, and the
// run goes on from there with the bits of a quiet one.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "framework/checkpoint/inspect.h"
#include "tests/recipes/train/background/flight.h"
#include "tests/support/fault_count.h"
#include "tests/support/faulty_files.h"
#include "tests/support/simulated_files.h"

namespace trireme::testing {
namespace {

using namespace parity;

constexpr std::int64_t kSteps = 7, kEvery = 2;

const Layout kLayouts[] = {{.mesh = {.data = 2}, .zero_stage = 1},
                           {.mesh = {.data = 1, .pipeline = 2, .tensor = 1}},
                           {.mesh = {.data = 1, .pipeline = 1, .tensor = 2}}};

Flight flight_of(const Layout& layout, std::int64_t from = 0, std::int64_t steps = kSteps) {
  return {.task = {.model = tiny_mlp()},
          .layout = layout,
          .from = from,
          .steps = steps,
          .every = kEvery};
}

// What is wrong with the checkpoints here: with any that is committed. And the newest.
std::string wrong_with(Files& files, const std::string& folder, std::int64_t& newest) {
  CheckpointFolder found(files, folder);
  std::vector<std::string> problems;
  newest = found.newest_good(problems).value_or(0);
  return problems.empty() ? "" : problems[0];
}

// The newest step whose commit had returned, as far as the calls show: its rename, then a sync of
// the folder, then anything else.
std::int64_t promised_by(const std::vector<std::string>& calls) {
  std::int64_t step = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string made = " -> run/step-";
    const std::size_t at = calls[i].find(made);
    if (at == std::string::npos || !calls[i].starts_with("rename run/step-")) continue;
    const auto sync = std::find(calls.begin() + static_cast<std::ptrdiff_t>(i), calls.end(),
                                "sync directory run");
    if (sync != calls.end() && sync + 1 != calls.end())
      step = std::stoll(calls[i].substr(at + made.size()));
  }
  return step;
}

// Goes on from the newest one to the end: the losses must be the quiet run's.
bool goes_on(Files& files, const std::string& folder, const Layout& layout, std::int64_t newest,
             const std::vector<double>& quiet) {
  Sessions sessions(files, folder, layout.mesh.ranks());
  const Landing rest = fly(flight_of(layout, newest), sessions);
  return rest.none_failed() &&
         rest.losses == std::vector<double>(quiet.begin() + newest, quiet.end());
}

std::vector<double> quiet_losses(const Layout& layout) {
  SimulatedFiles files;
  Sessions sessions(files, "run", layout.mesh.ranks());
  return fly(flight_of(layout), sessions).losses;
}

// One sentence for all ranks, but for who it happened to.
bool all_say_the_same(const Landing& landing) {
  std::set<std::string> said;
  for (const std::string& sentence : landing.sentences) {
    const bool told = sentence.starts_with("rank ");
    said.insert(told ? sentence.substr(sentence.find(": ") + 2) : sentence);
  }
  return said.size() == 1 && !said.begin()->empty();
}

// The k-th call fails, on one process or on one of two.
TEST(BackgroundFaults, AFailedWriteEndsAllRanksAtALaterStepAndTheRunGoesOn) {
  test::FaultCount count{.row = "R9", .what = "a file call of a save in the background fails"};
  std::int64_t stopped = 0;
  const auto disk = real_files();
  for (const Layout& layout : kLayouts) {
    const std::vector<double> quiet = quiet_losses(layout);
    for (const bool processes : {false, true})
      for (const auto& [fault, sticky] :
           {std::pair(Fault::kIoError, false), {Fault::kDiskFull, true}})
        for (std::int64_t call = 1 + count.runs % 83;; call += 179) {
          SCOPED_TRACE(join(text_of(layout), processes ? ", processes" : "", ", call ", call));
          const TemporaryFolder folder;
          const std::string run = folder / "run";
          Sessions first(*disk, run, 2);
          ASSERT_TRUE(fly(flight_of(layout, 0, 2), first).none_failed());
          const auto good = contents_of(*disk, run + "/step-000002");
          FaultyFiles faulty({fault, call, sticky});  // of one process only
          Sessions sessions =
              processes ? Sessions({disk.get(), &faulty}, run) : Sessions(faulty, run, 2);
          const Landing landing = fly(flight_of(layout, 2), sessions);
          if (faulty.fired() == 0) break;
          ++count.runs;
          count.injected += faulty.fired();
          std::int64_t newest = 0;
          bool whole = wrong_with(*disk, run, newest).empty() && newest >= 2 &&
                       contents_of(*disk, run + "/step-000002") == good;
          if (!landing.none_failed()) {
            ++stopped;
            whole = whole && all_say_the_same(landing);
          }
          whole = whole && (newest == kSteps || goes_on(*disk, run, layout, newest, quiet));
          EXPECT_TRUE(whole) << landing.sentences[0] << " / " << landing.sentences[1];
          count.lost += whole ? 0 : 1;
        }
  }
  EXPECT_GT(stopped, count.runs / 2);
  test::tell(count);
}

struct Cuts {
  std::int64_t crashes = 0, restarts = 0, lost = 0;
  std::string first;
};

// A run of two saves in the background and a last one; each `kStride`-th call is its last. Not
// `all`: until something was lost.
Cuts power_cuts(const Layout& layout, bool all,
                const std::function<bool(const std::string&)>& ignores_sync = {}) {
  constexpr std::int64_t kStride = 29;
  Cuts cuts;
  const auto choices = every_persistence();
  bool done = false;
  for (std::int64_t k = 1; !done && (all || cuts.lost == 0); k += kStride) {
    SimulatedFiles disk({.plan = {.fault = Fault::kCrash, .at = k}, .ignores_sync = ignores_sync});
    Sessions sessions(disk, "run", layout.mesh.ranks());
    try {
      fly(flight_of(layout, 0, 5), sessions);
    } catch (const std::exception&) {
      // The power went.
    }
    done = !disk.crashed();
    const std::int64_t least = promised_by(disk.trace());
    const std::int64_t most = least == 4 ? 5 : least + kEvery;
    for (std::size_t i = static_cast<std::size_t>(k) % 6; i < choices.size(); i += 6) {
      const auto after = disk.restart(choices[i], static_cast<std::uint64_t>(k));
      std::int64_t newest = 0;
      const std::string wrong = wrong_with(*after, "run", newest);
      ++cuts.restarts;
      if (wrong.empty() && (newest == least || newest == most)) continue;
      if (cuts.lost++ == 0)
        cuts.first = join("call ", k, ", ", text_of(choices[i]), ": step ", newest, " instead of ",
                          least, " or ", most, "; ", wrong);
    }
    cuts.crashes += done ? 0 : 1;
  }
  return cuts;
}

TEST(BackgroundFaults, PowerCutsLeaveTheOneBeforeOrThisOneWhole) {
  test::FaultCount count{.row = "R6", .what = "power cuts while a save is in the background"};
  for (const Layout& layout : kLayouts) {
    const Cuts cuts = power_cuts(layout, true);
    EXPECT_EQ(cuts.lost, 0) << text_of(layout) << ": " << cuts.first;
    count.runs += cuts.restarts;
    count.injected += cuts.crashes;
    count.lost += cuts.lost;
  }
  test::tell(count);
}

// Planted: the thread in the background forgets to sync its file.
TEST(BackgroundFaults, AForgottenSyncIsFound) {
  const Cuts cuts = power_cuts(
      kLayouts[0], 5, [](const std::string& path) { return path.ends_with("ranks-0.h5"); });
  EXPECT_GT(cuts.lost, 0);
}

}  // namespace
}  // namespace trireme::testing
