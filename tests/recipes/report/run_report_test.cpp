#include "recipes/report/run_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

RunReport example() {
  RunReport report;
  for (int rank = 0; rank < 2; ++rank) {
    RankReport one;
    one.name = "rank " + std::to_string(rank);
    one.memory["device"]["parameters"] = {1 << 20, 1 << 20, 1 << 20, 1 << 20};
    one.memory["device"]["activations"] = {0, 2048 + rank * 1024, 0, 2048};
    one.memory["host"]["optimizer"] = {0, 0, {}, {}};
    one.memory_total["device"] = {1 << 20, (1 << 20) + 2048};
    one.traffic["data/reduce_scatter"] = {1000, 10, 1000};
    one.traffic["world/all_reduce"] = {24, 3, {}};
    one.traffic["data/all_gather"] = {0, 7, 0};  // moves nothing: not in the table
    report.ranks.push_back(one);
  }
  report.time = {{"forward", 10}, {"backward", 20}, {"optimizer", 10}};
  report.bubble_measured = 0.11;
  report.bubble_predicted = 0.1;
  report.steps = 2000;
  report.tokens = 1234567;
  report.seconds = 40;
  report.loss = 1.5;
  return report;
}

TEST(RunReport, JsonIsTheContracts) {
  auto json = nlohmann::json::parse(report_json(example()));
  ASSERT_EQ(json.at("memory").size(), 2u);
  const auto& cell = json["memory"][1]["device"]["activations"];
  EXPECT_EQ(cell.at("resident"), 0);
  EXPECT_EQ(cell.at("peak"), 3072);
  EXPECT_EQ(cell.at("formula_resident"), 0);
  EXPECT_EQ(cell.at("formula_peak"), 2048);
  EXPECT_TRUE(json["memory"][0]["host"]["optimizer"]["formula_peak"].is_null());
  EXPECT_EQ(json["memory_total"][1]["device"],
            nlohmann::json({{"resident", 1 << 20}, {"peak", (1 << 20) + 2048}}));
  EXPECT_EQ(json["traffic"][0]["data/reduce_scatter"],
            nlohmann::json({{"bytes", 1000}, {"calls", 10}, {"formula", 1000}}));
  EXPECT_EQ(json["time"]["backward"], 20.0);
  EXPECT_EQ(json["bubble"]["measured"], 0.11);
  EXPECT_EQ(json["bubble"]["predicted"], 0.1);
  EXPECT_EQ(json["summary"]["steps"], 2000);
  EXPECT_TRUE(json["summary"]["validation_loss"].is_null());
}

TEST(RunReport, ReadsBackWhatItWrote) {
  const std::string text = report_json(example());
  EXPECT_EQ(report_json(report_from_json(text)), text);
  RunReport diverged = example();
  diverged.loss = NAN;
  diverged.validation_loss = 2.5;
  diverged.bubble_predicted.reset();
  const RunReport read = report_from_json(report_json(diverged));
  EXPECT_TRUE(std::isnan(read.loss));
  EXPECT_EQ(read.validation_loss, 2.5);
  EXPECT_FALSE(read.bubble_predicted);
}

TEST(RunReport, DamagedTextIsRefused) {
  const std::string text = report_json(example());
  const auto sentence = [](const std::string& damaged) {
    return sentence_of([&] { report_from_json(damaged); });
  };
  EXPECT_NE(sentence(text.substr(0, text.size() / 2)).find("parse error"), std::string::npos);
  EXPECT_NE(sentence("{}").find("ranks"), std::string::npos) << sentence("{}");
  EXPECT_NE(sentence("[]"), "");
  EXPECT_NE(sentence("12"), "");
  std::string typed = text;
  typed.replace(typed.find("\"steps\": 2000"), 13, "\"steps\": \"20\"");
  EXPECT_NE(sentence(typed).find("number"), std::string::npos) << sentence(typed);
}

TEST(RunReport, TextIsATable) {
  EXPECT_EQ(report_text(example()),
            "memory of the fullest rank  resident   formula      peak   formula  rank\n"
            "device activations               0 B       0 B  3.00 KiB  2.00 KiB     1\n"
            "device parameters           1.00 MiB  1.00 MiB  1.00 MiB  1.00 MiB     0\n"
            "device activations differs from its formula on 1 of 2 ranks\n"
            "\n"
            "traffic of all ranks  calls     bytes   formula\n"
            "data/reduce_scatter      20  1.95 KiB  1.95 KiB\n"
            "world/all_reduce          6      48 B         -\n"
            "\n"
            "time, mean over ranks\n"
            "backward               20s  50%\n"
            "forward                10s  25%\n"
            "optimizer              10s  25%\n"
            "\n"
            "pipeline bubble 11%, predicted 10%\n"
            "\n"
            "2,000 steps, 1,234,567 tokens in 40s (30.9k tok/s); loss 1.5000\n");
}

TEST(RunReport, WhatShouldHaveBeenSentIsShown) {
  RunReport report = example();
  report.ranks[1].traffic["data/all_gather"].formula = 8;
  const std::string text = report_text(report);
  EXPECT_NE(text.find("data/all_gather          14       0 B       8 B\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("data/all_gather differs from its formula on 1 of 2 ranks"),
            std::string::npos);
}

// Of 4 s in the update 1 s was waited: the rest was hidden.
TEST(RunReport, DiskIsShownByStep) {
  RunReport report = example();
  report.disk["optimizer"] = {.seconds = 8000,
                              .computing = 5000,
                              .waiting_reads = 1500,
                              .waiting_writes = 500,
                              .bytes_read = 6'000'000'000'000,
                              .bytes_written = 6'000'000'000'000};
  report.disk["parameters"] = {.seconds = 2000, .waiting_reads = 2000, .bytes_read = 2000 << 10};
  const std::string text = report_text(report);
  const std::string expected =
      "on disk, a step  time  computing  waits for reads  for writes     moved       rate  "
      "overlap\n"
      "optimizer          4s       2.5s            0.75s       0.25s  5.59 GiB  1.50 GB/s      "
      "75%\n"
      "parameters         1s          -               1s          0s  1.00 KiB          -       "
      "0%\n"
      "\n";
  EXPECT_NE(text.find(expected), std::string::npos) << text;
  const auto json = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(json["disk"]["optimizer"]["overlap"], 0.75);
  EXPECT_EQ(json["disk"]["optimizer"]["bytes_written"], 6'000'000'000'000);
  EXPECT_EQ(report_json(report_from_json(report_json(report))), report_json(report));
  EXPECT_EQ(nlohmann::json::parse(report_json(example()))["disk"], nlohmann::json::object());
}

TEST(RunReport, OlderRunsHaveNoDisk) {
  auto json = nlohmann::json::parse(report_json(example()));
  json.erase("disk");
  EXPECT_TRUE(report_from_json(json.dump()).disk.empty());
}

TEST(RunReport, EmptyPartsAreLeftOut) {
  RunReport report;
  report.loss = 2;
  EXPECT_EQ(report_text(report), "0 steps, 0 tokens in 0.0s; loss 2.0000\n");
}

TEST(RunReport, FileIsReplacedWhole) {
  TemporaryFolder folder;
  write_report(*real_files(), folder / "report.json", example());
  std::string before = read_whole(*real_files(), folder / "report.json");
  EXPECT_EQ(before, report_json(example()));
  FaultyFiles files({Fault::kDiskFull, 2, true});
  EXPECT_NE(sentence_of([&] {
              write_report(files, folder / "report.json", RunReport{});
            }).find("No space left on device"),
            std::string::npos);
  EXPECT_EQ(read_whole(*real_files(), folder / "report.json"), before);
}

}  // namespace
}  // namespace trireme::testing
