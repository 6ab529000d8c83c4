#include "framework/base/memory_ledger.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "framework/base/error.h"

namespace trireme {
namespace {

TEST(MemoryLedger, PeakOfTheTierIsNotTheSumOfPeaks) {
  MemoryLedger ledger;
  ledger.add(Tier::kDevice, MemoryKind::kParameters, 100);
  ledger.remove(Tier::kDevice, MemoryKind::kParameters, 100);
  ledger.add(Tier::kDevice, MemoryKind::kActivations, 60);
  EXPECT_EQ(ledger.peak(Tier::kDevice), 100);
  EXPECT_EQ(ledger.current(Tier::kDevice), 60);
  EXPECT_EQ(ledger.entry(Tier::kDevice, MemoryKind::kParameters).peak, 100);
  EXPECT_EQ(ledger.entry(Tier::kDevice, MemoryKind::kParameters).current, 0);
  ledger.reset_peaks();
  EXPECT_EQ(ledger.peak(Tier::kDevice), 60);
  EXPECT_EQ(ledger.entry(Tier::kDevice, MemoryKind::kParameters).peak, 0);
}

TEST(MemoryLedger, ResidentIsWhatIsThereWhenMarked) {
  MemoryLedger ledger;
  ledger.add(Tier::kHost, MemoryKind::kOptimizer, 7);
  ledger.mark_resident();
  ledger.add(Tier::kHost, MemoryKind::kOptimizer, 5);
  EXPECT_EQ(ledger.entry(Tier::kHost, MemoryKind::kOptimizer).resident, 7);
  EXPECT_EQ(ledger.entry(Tier::kHost, MemoryKind::kOptimizer).current, 12);
}

TEST(MemoryLedger, ALimitRefusesWithTheTableAndCountsNothing) {
  MemoryLedger ledger;
  ledger.set_limit(Tier::kDevice, 2 << 20);
  ledger.add(Tier::kDevice, MemoryKind::kParameters, 1 << 20);
  ledger.add(Tier::kHost, MemoryKind::kParameters, 9 << 20);  // another tier
  try {
    ledger.add(Tier::kDevice, MemoryKind::kGradients, (1 << 20) + 1);
    FAIL() << "the limit was exceeded";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("gradients"), std::string::npos) << text;
    EXPECT_NE(text.find("limit of 2.00 MiB on the device tier"), std::string::npos) << text;
    EXPECT_NE(text.find("parameters"), std::string::npos) << text;
  }
  EXPECT_EQ(ledger.current(Tier::kDevice), 1 << 20);
  EXPECT_EQ(ledger.entry(Tier::kDevice, MemoryKind::kGradients).peak, 0);
  ledger.add(Tier::kDevice, MemoryKind::kGradients, 1 << 20);  // exactly the limit fits
  EXPECT_EQ(ledger.current(Tier::kDevice), ledger.limit(Tier::kDevice));
}

TEST(MemoryLedger, CountsFromManyThreads) {
  MemoryLedger ledger;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&ledger] {
      for (int i = 0; i < 1000; ++i) ledger.add(Tier::kDevice, MemoryKind::kWorkspace, 3);
      for (int i = 0; i < 999; ++i) ledger.remove(Tier::kDevice, MemoryKind::kWorkspace, 3);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ledger.current(Tier::kDevice), 12);
}

}  // namespace
}  // namespace trireme
