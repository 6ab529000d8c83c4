#include "recipes/memory/tally.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr MemoryKind kWeights = MemoryKind::kParameters, kActivations = MemoryKind::kActivations;

TEST(Tally, RemembersPeaksAndWhatWasHeldThen) {
  Tally tally;
  const int weights = tally.label(Tier::kDevice, kWeights, "weights", "2 Psi");
  const int stream = tally.label(Tier::kDevice, kActivations, "stream", "R C w");
  const int states = tally.label(Tier::kHost, MemoryKind::kOptimizer, "states", "");
  EXPECT_EQ(tally.label(Tier::kDevice, kWeights, "weights", "other"), weights);
  tally.take(weights, 100);
  tally.take(stream, 30);
  tally.take(stream, 30);
  tally.give(stream, 30);
  tally.take(states, 500);
  EXPECT_EQ(tally.current(Tier::kDevice, kActivations), 30);
  EXPECT_EQ(tally.peak(Tier::kDevice, kActivations), 60);
  EXPECT_EQ(tally.peak(Tier::kDevice), 160);
  EXPECT_EQ(tally.peak_of_ram(), 630);
  const std::vector<MemoryTerm> held = tally.peak_terms(Tier::kDevice);
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[0].name, "weights");
  EXPECT_EQ(held[0].formula, "2 Psi");
  EXPECT_EQ(held[1].count, 2);
  EXPECT_EQ(held[1].bytes, 60);
  EXPECT_EQ(tally.terms(Tier::kDevice, kActivations)[0].bytes, 30);
}

TEST(Tally, ThePeakOfASumIsNotTheSumOfPeaks) {
  Tally tally(false);
  const int a = tally.label(Tier::kDevice, kWeights, "a", "");
  const int b = tally.label(Tier::kDevice, kActivations, "b", "");
  tally.take(a, 10);
  tally.give(a, 10);
  tally.take(b, 10);
  EXPECT_EQ(tally.peak(Tier::kDevice), 10);
  EXPECT_TRUE(tally.peak_terms(Tier::kDevice).empty()) << "none are kept";
}

}  // namespace
}  // namespace trireme
