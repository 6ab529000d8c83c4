// `trireme memory` from outside.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/program/harness/program_run.h"

namespace trireme::testing {
namespace {

class Memory : public ::testing::Test {
 protected:
  ProgramEnd memory(std::vector<std::string> words) {
    words.insert(words.begin(), {program(), "memory"});
    return run_to_end(words);
  }
  TinyRun run_;
};

TEST_F(Memory, FirstLineAndExitCodeSayWhetherItFits) {
  const ProgramEnd fits = memory({run_.recipe(), "--device.memory=1GiB"});
  EXPECT_EQ(fits.code, 0) << fits.err;
  EXPECT_EQ(lines_of(fits.out)[0].rfind("FITS: ", 0), 0u) << fits.out;
  EXPECT_EQ(fits.err, "");
  const ProgramEnd not_so = memory({run_.recipe(), "--device.memory=100KiB"});
  EXPECT_EQ(not_so.code, 1);
  EXPECT_EQ(lines_of(not_so.out)[0].rfind("DOES NOT FIT: ", 0), 0u) << not_so.out;
  EXPECT_TRUE(contains(not_so.out, "more than 100 KiB (device.memory = 100 KiB)")) << not_so.out;
  for (const char* part : {"device parameters", "zero.stage, offload, recompute", "batch.micro",
                           "batch.sequence", "model.layers"})
    EXPECT_TRUE(contains(not_so.out, part)) << part;
}

TEST_F(Memory, WithoutAKeyTheMachineIsTheLimit) {
  const ProgramEnd end = memory({run_.recipe()});
  EXPECT_EQ(end.code, 0) << end.err;
  const std::string first = lines_of(end.out)[0];
  EXPECT_TRUE(contains(first, "(RAM ") || contains(first, "(cgroup limit ")) << first;
}

TEST_F(Memory, ExplainShowsFormulas) {
  const ProgramEnd end = memory({run_.recipe(), "--explain", "--zero.stage=1"});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(contains(end.out, "model states on the device: 16 Psi + 16 Psi / N")) << end.out;
}

// A run told before, and measured after: the same numbers.
TEST_F(Memory, AFolderShowsWhatWasMeasured) {
  const ProgramEnd trained =
      run_to_end(run_.train({"--parallel.data=2", "--zero.stage=2", "--train.steps=2",
                             "--train.evaluate_every=0", "--train.sample_every=0"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(contains(trained.err, "FITS: ")) << trained.err;
  EXPECT_TRUE(contains(trained.out, "measured")) << trained.out;
  const ProgramEnd text = memory({run_.folder()});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(contains(text.out, "measured")) << text.out;
  const ProgramEnd end = memory({run_.folder(), "--json"});
  const nlohmann::json json = nlohmann::json::parse(end.out);
  EXPECT_EQ(json["fits"], true);
  int exact = 0;
  for (const auto& kind : json["stages"][0]["device"]["kinds"]) {
    EXPECT_EQ(kind["resident"] == kind["measured_resident"] || !kind["exact"], true) << kind;
    exact += kind["exact"] == true && kind["peak"] == kind["measured_peak"];
  }
  EXPECT_EQ(exact, 5) << end.out;
  EXPECT_EQ(json["table"].size(), 32u);
  EXPECT_EQ(json["stages"][0]["device"]["formula"], "8 Psi + 24 Psi / N");
}

TEST_F(Memory, RefusesWhatIsNoRecipe) {
  EXPECT_EQ(memory({"none.cfg"}).code, 2);
  EXPECT_EQ(memory({run_.recipe(), "b.cfg"}).code, 2);
  EXPECT_EQ(memory({run_.recipe(), "--model.layers=many"}).code, 2);
  EXPECT_EQ(run_to_end({program(), "train", run_.recipe(), "--explain"}).code, 2);
}

// Layouts of other machines are planned here, without their ranks.
TEST_F(Memory, PlansRanksThatAreNotHere) {
  const ProgramEnd end = memory({run_.recipe(), "--parallel.data=64", "--batch.global=64",
                                 "--parallel.launch=mpi", "--device.memory=1GiB"});
  EXPECT_EQ(end.code, 0) << end.err;
}

TEST_F(Memory, TrainingIsRefusedBelowTheSmallestPossible) {
  const ProgramEnd end = run_to_end(run_.train({"--device.memory=20KiB"}));
  EXPECT_EQ(end.code, 2);
  for (const char* part : {"device.memory = 20KiB", "not less than", "Try "})
    EXPECT_TRUE(contains(end.err, part)) << end.err;
}

// Bytes of a process that no file stands behind; 0 once it has ended.
std::int64_t anonymous_bytes(pid_t pid) {
  for (const std::string& line : lines_of(text_of_file("/proc/" + std::to_string(pid) + "/status")))
    if (line.rfind("RssAnon:", 0) == 0) return std::stoll(line.substr(8)) * 1024;
  return 0;
}

// What the ledgers do not see is bounded: an eighth and 32 MiB a rank that its pool keeps at the
// most, and code made at run time, threads, the data and the allocator's own.
TEST_F(Memory, TheProcessTakesWhatTheLedgersCount) {
  constexpr std::int64_t kMiB = 1 << 20, kPool = 32 * kMiB, kRest = 64 * kMiB;
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"--zero.stage=0"},
        {"--zero.stage=3", "--offload.optimizer=host", "--recompute.mode=full"}}) {
    std::vector<std::string> flags{"--device.kind=cpu",        "--precision.compute=f32",
                                   "--model.hidden=512",       "--model.ffn=2048",
                                   "--model.heads=8",          "--model.kv_heads=8",
                                   "--parallel.data=2",        "--train.steps=3",
                                   "--train.evaluate_every=0", "--train.sample_every=0"};
    flags.insert(flags.end(), layout.begin(), layout.end());
    StartedProgram run(run_.train(flags));
    std::int64_t process = 0;
    run.wait_until([&] {
      process = std::max(process, anonymous_bytes(run.pid()));
      return false;
    });
    const ProgramEnd end = run.end();
    ASSERT_EQ(end.code, 0) << end.err;
    const nlohmann::json report =
        nlohmann::json::parse(text_of_file(run_.folder() + "/report.json"));
    std::int64_t peak = 0, resident = 0;
    for (const auto& rank : report["memory_total"])
      for (const char* tier : {"device", "host"}) {
        peak += rank[tier]["peak"].get<std::int64_t>();
        resident += rank[tier]["resident"].get<std::int64_t>();
      }
    std::filesystem::remove_all(run_.folder());
    EXPECT_GT(resident, 100 * kMiB) << "enough to see a part that is not counted";
    EXPECT_GT(process, resident) << layout.front();
    EXPECT_LT(process, peak + peak / 8 + 2 * kPool + kRest)
        << layout.front() << ", counted " << peak / kMiB;
  }
}

}  // namespace
}  // namespace trireme::testing
