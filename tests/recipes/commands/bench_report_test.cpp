// What a bench measured, in the columns and names of llama-bench.
#include "recipes/commands/bench_report.h"

#include <gtest/gtest.h>

#include "framework/base/json/json.h"

namespace trireme::test {
namespace {

const BenchedModel kModel{.name = "tiny, \"so\"",
                          .family = "llama",
                          .compute = "bf16",
                          .kv = "bf16",
                          .cpu = "A CPU",
                          .parameters = 1'500'000,
                          .bytes = 3'000'000,
                          .threads = 2,
                          .ranks = 1,
                          .read = 1e9};
const std::vector<BenchResult> kResults{
    {{.prompt = 100}, {0.5, 1}, "2026-01-02T03:04:05Z"},
    {{.generate = 10, .batch = 4, .depth = 7}, {2}, "2026-01-02T03:04:06Z"}};

std::string bench_report(const std::string& format, const BenchedModel& model,
                         const std::vector<BenchResult>& results) {
  BenchReport report(format, model);
  std::string text;
  for (const BenchResult& result : results) text += report.row(result);
  return text + report.end();
}

TEST(BenchReport, JsonHasTheNamesOfLlamaBench) {
  const Json all = parse_json(bench_report("json", kModel, kResults), "json");
  ASSERT_EQ(all.array("json").size(), 2u);
  const Json& one = all.array("json")[0];
  std::vector<std::string> names;
  for (const auto& [name, value] : one.object("json")) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "build_commit",   "build_number", "cpu_info",   "gpu_info",        "backends",
                "model_filename", "model_type",   "model_size", "model_n_params",  "n_batch",
                "n_ubatch",       "n_threads",    "type_k",     "type_v",          "n_gpu_layers",
                "n_prompt",       "n_gen",        "n_depth",    "test_time",       "avg_ns",
                "stddev_ns",      "avg_ts",       "stddev_ts",  "samples_ns",      "samples_ts",
                "n_ranks",        "n_parallel",   "ttft_ms",    "read_bytes_per_s"}));
  EXPECT_EQ(one.at("model_filename", "j").text("j"), kModel.name);
  EXPECT_EQ(one.at("avg_ns", "j").integer("j"), 750'000'000);
  EXPECT_EQ(one.at("stddev_ns", "j").integer("j"), 353'553'391);  // 0.25 * sqrt(2) s
  EXPECT_EQ(one.at("avg_ts", "j").number("j"), 150);              // of 200 and 100
  EXPECT_EQ(one.at("ttft_ms", "j").number("j"), 750);
  const Json& other = all.array("json")[1];
  EXPECT_EQ(other.at("avg_ts", "j").number("j"), 20);  // 4 texts of 10 in 2 s
  EXPECT_EQ(other.at("stddev_ts", "j").number("j"), 0);
  EXPECT_EQ(other.at("n_parallel", "j").integer("j"), 4);
  EXPECT_EQ(other.at("n_depth", "j").integer("j"), 7);
  EXPECT_TRUE(other.at("ttft_ms", "j").is_null());
}

TEST(BenchReport, LinesCommasAndATable) {
  const std::string lines = bench_report("jsonl", kModel, kResults);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
  EXPECT_NO_THROW(parse_json(lines.substr(0, lines.find('\n')), "line"));
  const std::string csv = bench_report("csv", kModel, kResults);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 3);
  EXPECT_NE(csv.find(",\"tiny, \"\"so\"\"\",\"llama bf16\",\"3000000\","), std::string::npos)
      << csv;
  EXPECT_EQ(csv.find("samples"), std::string::npos);
  const std::string table = bench_report("md", kModel, kResults);
  EXPECT_NE(table.find("| model | size | params | backend | threads | test | t/s |\n"),
            std::string::npos);
  EXPECT_NE(table.find("| pp100 | 150.00 ± 70.71 |\n"), std::string::npos) << table;
  EXPECT_NE(table.find("| tg10 x 4 @ d7 | 20.00 ± 0.00 |\n"), std::string::npos) << table;
  EXPECT_NE(table.find("first token of pp100 after 750.0 ms"), std::string::npos) << table;
  // Texts in passes of their own have the weights read for each of them.
  BenchedModel stages = kModel;
  stages.parts = 3;
  const std::vector<BenchResult> four{{{.generate = 10, .batch = 4}, {1}, ""}};
  EXPECT_NE(bench_report("md", kModel, four).find("weights in tg10 x 4: 3% of that"),
            std::string::npos);
  EXPECT_NE(bench_report("md", stages, four).find("weights in tg10 x 4: 9% of that"),
            std::string::npos)
      << bench_report("md", stages, four);
}

// As when a signal comes before the first test is done.
TEST(BenchReport, WithoutRowsJsonIsWholeAndTheOthersSayNothing) {
  EXPECT_EQ(parse_json(bench_report("json", kModel, {}), "json").array("json").size(), 0u);
  for (const char* format : {"md", "csv", "jsonl"})
    EXPECT_EQ(bench_report(format, kModel, {}), "") << format;
}

}  // namespace
}  // namespace trireme::test
