#include "recipes/report/step_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace trireme {
namespace {

StepRecord example() {
  StepRecord record;
  record.step = 120;
  record.steps = 2000;
  record.loss = 3.41234;
  record.validation_loss = 3.508;
  record.grad_norm = 0.8412;
  record.lr = 2.9e-4;
  record.tokens = 4096;
  record.seconds = 0.2226;
  record.tokens_per_s = 18400;
  record.flops_per_s = 412e9;
  record.measured_peak = 1005e9;
  record.memory = 1299227607;
  record.memory_limit = std::int64_t{2} << 30;
  record.bubble = 0.08;
  record.remaining = 192;
  return record;
}

TEST(StepLine, IsTheContracts) {
  EXPECT_EQ(
      step_line(example()),
      "step 120/2000 6.0% loss 3.4123 val 3.51 |g| 0.84 lr 2.9e-4 18.4k tok/s 412 GFLOP/s (41% "
      "of measured peak) mem 1.21/2.00 GiB bubble 8% eta 3m12s");
}

TEST(StepLine, LeavesOutWhatNobodyComputed) {
  StepRecord record = example();
  record.validation_loss.reset();
  record.measured_peak = 0;
  record.memory_limit = 0;
  record.bubble.reset();
  record.remaining.reset();
  EXPECT_EQ(
      step_line(record),
      "step 120/2000 6.0% loss 3.4123 |g| 0.84 lr 2.9e-4 18.4k tok/s 412 GFLOP/s mem 1.21 GiB");
  record.flops_per_s = 0;
  record.skipped = 2;
  record.grad_norm = 0.00123;
  record.loss = std::nan("");
  EXPECT_EQ(step_line(record),
            "step 120/2000 6.0% loss nan |g| 0.0012 lr 2.9e-4 skipped 2 18.4k tok/s mem 1.21 GiB");
}

TEST(StepLine, ShowsALossScale) {
  StepRecord record = example();
  record.loss_scale = 65536;
  EXPECT_NE(step_line(record).find(" lr 2.9e-4 scale 65536 18.4k tok/s"), std::string::npos);
}

TEST(StepLine, ALossThatRanAwayStaysShort) {
  StepRecord record = example();
  record.loss = 1.88790118778e17;
  record.validation_loss = 3.8879e21;
  EXPECT_NE(step_line(record).find("loss 1.888e17 val 3.888e21 |g|"), std::string::npos)
      << step_line(record);
}

TEST(StepLine, SmallMemoryIsInSmallerUnits) {
  StepRecord record = example();
  record.memory = 3 << 20;
  EXPECT_NE(step_line(record).find(" mem 3.00 MiB/2.00 GiB "), std::string::npos);
  record.memory_limit = 0;
  EXPECT_NE(step_line(record).find(" mem 3.00 MiB bubble"), std::string::npos);
}

TEST(MetricsLine, HasTheContractsKeysAndEveryBit) {
  StepRecord record = example();
  auto json = nlohmann::json::parse(metrics_line(record));
  EXPECT_EQ(json.size(), 11u);
  EXPECT_EQ(json.at("step"), 120);
  EXPECT_EQ(json.at("loss").get<double>(), record.loss);
  EXPECT_EQ(json.at("grad_norm").get<double>(), record.grad_norm);
  EXPECT_EQ(json.at("lr").get<double>(), record.lr);
  EXPECT_EQ(json.at("loss_scale"), 1);
  EXPECT_EQ(json.at("tokens"), 4096);
  EXPECT_EQ(json.at("tokens_per_s").get<double>(), 18400.0);
  EXPECT_EQ(json.at("tflops").get<double>(), 412e9 * 1e-12);
  EXPECT_EQ(json.at("skipped"), 0);
  EXPECT_EQ(json.at("seconds").get<double>(), record.seconds);
  EXPECT_EQ(json.at("validation_loss").get<double>(), 3.508);
  record.validation_loss.reset();
  record.loss = std::nan("");
  json = nlohmann::json::parse(metrics_line(record));
  EXPECT_FALSE(json.contains("validation_loss"));
  EXPECT_TRUE(json.at("loss").is_null());
  EXPECT_EQ(metrics_line(example()).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace trireme
