// trireme report, on runs that the program made.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/program/harness/program_run.h"

namespace trireme::testing {
namespace {

using Words = std::vector<std::string>;

ProgramEnd report(Words words) {
  words.insert(words.begin(), {program(), "report"});
  return run_to_end(words);
}

TEST(Report, ComparesLayouts) {
  const TinyRun run;
  const std::string one = run.folder() + "/one", two = run.folder() + "/two";
  ASSERT_EQ(run_to_end(run.train({"--train.folder=" + one})).code, 0);
  ASSERT_EQ(
      run_to_end(run.train({"--train.folder=" + two, "--parallel.data=2", "--zero.stage=2"})).code,
      0);
  const ProgramEnd end = report({one, two + "/"});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(end.err, "");
  const Words lines = lines_of(end.out);
  ASSERT_GE(lines.size(), 4U) << end.out;
  for (const char* word : {"run", "layout", "zero", "loss", "device peak", "sent a step"})
    EXPECT_TRUE(contains(lines[0], word)) << word << "\n" << end.out;
  EXPECT_TRUE(contains(lines[1], one + "  d1 p1 t1")) << end.out;
  EXPECT_TRUE(contains(lines[2], two + "  d2 p1 t1")) << end.out;
  EXPECT_TRUE(contains(lines[3], "losses agree over the first 3 common steps")) << end.out;

  const ProgramEnd told = report({one, two, "--json"});
  EXPECT_EQ(told.code, 0) << told.err;
  const auto json = nlohmann::json::parse(told.out);
  EXPECT_EQ(json["losses"]["agree"], true);
  EXPECT_LE(json["losses"]["all"]["difference"], 1e-12);
  const auto &first = json["runs"][0], &second = json["runs"][1];
  EXPECT_EQ(first["sent_bytes_per_step"], 0);
  EXPECT_GT(second["sent_bytes_per_step"], 0);
  EXPECT_EQ(second["layout"]["zero_stage"], 2);
  // Shards of gradients and states: less than the whole model's between steps.
  EXPECT_LT(second["memory"]["device"]["resident"], first["memory"]["device"]["resident"]);
  EXPECT_GE(first["memory"]["device"]["peak"], first["memory"]["device"]["resident"]);
  EXPECT_EQ(first["loss"].get<double>(), std::stod(column(one, "loss").back()));
}

TEST(Report, ShowsARunThatWasKilled) {
  const TinyRun run;
  ASSERT_EQ(run_to_end(run.train()).code, 0);
  ASSERT_EQ(std::remove((run.folder() + "/report.json").c_str()), 0);
  const ProgramEnd end = report({run.folder()});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(contains(end.out, "has no report.json: it still runs or was killed")) << end.out;
}

TEST(Report, RefusesWhatIsNoRun) {
  EXPECT_EQ(report({}).code, 2);
  EXPECT_TRUE(contains(report({}).err, "trireme report FOLDER..."));
  const ProgramEnd missing = report({"/nowhere/at/all"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_EQ(missing.err, "trireme: /nowhere/at/all: there is no such folder\n");
  EXPECT_EQ(report({"/"}).code, 1);
  EXPECT_EQ(report({"/", "--model.layers=3"}).code, 2);

  const TinyRun run;
  ASSERT_EQ(run_to_end(run.train()).code, 0);
  write_file(run.folder() + "/report.json", "{\"memory\": ");
  const ProgramEnd damaged = report({run.folder()});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_TRUE(contains(damaged.err, run.folder() + "/report.json is damaged: ")) << damaged.err;
  EXPECT_EQ(damaged.out, "");
}

}  // namespace
}  // namespace trireme::testing
