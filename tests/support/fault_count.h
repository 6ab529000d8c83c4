// What a suite of injected faults has done, for the scoreboard of docs/reliability.md.
//
//   FaultCount count{.row = "R6", .what = "power cuts in a save"};
//   ... ++count.runs, count.injected += disk.faults(), count.lost += !whole ...
//   tell(count);
//
// tell() prints one line, which the scoreboard of `ctest -L faults` adds up, and fails the test if
// nothing was injected or something was lost: a fault test must prove that its faults happened.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::test {

struct FaultCount {
  std::string row;            // of the reliability table: "R6"
  std::string what;           // a few words
  std::int64_t runs = 0;      // of the code under test, each with its own faults
  std::int64_t injected = 0;  // faults that really fired, or bad inputs given
  std::int64_t lost = 0;      // runs that were neither right nor refused with a sentence
};

// "[faults] R6 | power cuts in a save | runs 1200 | injected 1200 | lost 0"
void tell(const FaultCount& count);

}  // namespace trireme::test
