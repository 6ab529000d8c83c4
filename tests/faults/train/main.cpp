// The long form of the storm is asked for by the environment: storm_train.h.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/faults/train/storm_train.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  trireme::test::StormRange& range = trireme::test::storm_range();
  if (const char* seeds = std::getenv("TRIREME_STORM_SEEDS")) range.seeds = std::stoll(seeds);
  if (const char* first = std::getenv("TRIREME_STORM_FIRST")) range.first = std::stoll(first);
  if (const char* layout = std::getenv("TRIREME_STORM_LAYOUT")) range.layout = layout;
  return RUN_ALL_TESTS();
}
