// A first signal ends the run after the step at hand, with a report; a second one at once.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/program/harness/trained_run.h"

namespace trireme::testing {
namespace {

void expect_ends_after_a_step(int signal) {
  const TinyRun run;
  StartedProgram program(run.train({"--train.steps=1000000", "--parallel.data=2",
                                    "--parallel.pipeline=2", "--train.log_every=100000"}));
  ASSERT_TRUE(program.wait_until([&] { return column(run.folder(), "loss").size() >= 2; }));
  program.signal(signal);
  const ProgramEnd end = program.end();
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.err.find("ending after what is under way; once more ends at once"),
            std::string::npos)
      << end.err;
  const std::size_t steps = column(run.folder(), "loss").size();
  EXPECT_NE(end.out.find("Stopped by a signal after step " + std::to_string(steps) + "."),
            std::string::npos)
      << end.out;
  const auto report = nlohmann::json::parse(text_of_file(run.folder() + "/report.json"));
  EXPECT_EQ(report["summary"]["steps"], steps);
  EXPECT_EQ(report["ranks"].size(), 4u);
}

TEST(Signals, TermEndsAfterTheStep) { expect_ends_after_a_step(SIGTERM); }
TEST(Signals, InterruptEndsAfterTheStep) { expect_ends_after_a_step(SIGINT); }

// Ctrl-Z, and on again later than ranks wait for each other: nobody was late.
TEST(Signals, AStopLongerThanTheTimeoutIsNoFailure) {
  const TinyRun run;
  StartedProgram program(
      run.train({"--train.steps=1000000", "--parallel.data=4", "--parallel.pipeline=2",
                 "--parallel.timeout=4", "--train.log_every=100000"}));
  const auto steps = [&] { return column(run.folder(), "loss").size(); };
  ASSERT_TRUE(program.wait_until([&] { return steps() >= 2; }));
  program.signal(SIGSTOP);
  StartedProgram({"sleep", "5"}).end();
  const std::size_t before = steps();
  program.signal(SIGCONT);
  ASSERT_TRUE(program.wait_until([&] { return steps() >= before + 3; })) << program.err_so_far();
  program.signal(SIGTERM);
  const ProgramEnd end = program.end();
  EXPECT_EQ(end.code, 0) << end.err;
}

class BenchSignals : public TrainedRun {};

TEST_F(BenchSignals, OneEndsItAfterThePass) {
  for (const int signal : {SIGTERM, SIGINT}) {
    StartedProgram bench(endless_bench());
    ASSERT_TRUE(bench.wait_until([&] { return bench.out_so_far().ends_with("\n"); }))
        << bench.err_so_far();
    bench.signal(signal);
    expect_rows_that_were_done(bench.end());
  }
}

TEST(Signals, SecondOneEndsAtOnce) {
  const TinyRun run;  // one step takes minutes
  StartedProgram program(run.train({"--model.hidden=256", "--model.ffn=2048", "--batch.global=4096",
                                    "--batch.sequence=64", "--train.folder=" + run.folder()}));
  ASSERT_TRUE(program.wait_until(
      [&] { return text_of_file(run.folder() + "/log.txt").find("data:") != std::string::npos; }));
  program.signal(SIGTERM);
  program.signal(SIGINT);
  const ProgramEnd end = program.end();
  EXPECT_TRUE(end.code == 128 + SIGINT || end.code == 128 + SIGTERM) << end.code << end.err;
  EXPECT_EQ(column(run.folder(), "loss").size(), 0u);
  EXPECT_FALSE(std::filesystem::exists(run.folder() + "/report.json"));
}

}  // namespace
}  // namespace trireme::testing
