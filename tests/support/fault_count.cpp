#include "tests/support/fault_count.h"

#include <gtest/gtest.h>

#include <iostream>

namespace trireme::test {

void tell(const FaultCount& count) {
  EXPECT_GT(count.injected, 0) << count.row << ": no fault fired";
  EXPECT_EQ(count.lost, 0) << count.row;
  std::cout << "[faults] " << count.row << " | " << count.what << " | runs " << count.runs
            << " | injected " << count.injected << " | lost " << count.lost << std::endl;
}

}  // namespace trireme::test
