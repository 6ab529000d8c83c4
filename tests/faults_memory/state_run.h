// Load, one step, save: what R16 lets run out of memory at every request.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/faults_memory/allocations.h"
#include "tests/parity/train_layout.h"
#include "tests/support/faulty_files.h"

namespace trireme::test {

struct StateEnd {
  MemoryCount memory;
  double loss = 0;                        // of the step
  bool ended = false;                     // without an exception
  bool spoken = false;                    // if not: by an Error, whose sentence is...
  std::string said;                       // ...this; of anything else, the type's own words
  std::vector<std::string> by_rank = {};  // what ended each rank; "": nothing
};

class StateRun {
 public:
  // Trains one step and saves it, without faults. `forgets`: a planted bug, a backend that counts
  // before it allocates and does not take it back when that fails.
  explicit StateRun(parity::Layout layout, bool forgets = false);

  // Goes on from step 1 to step 2 in the same folder, with memory failing from the first
  // allocation of the ranks on.
  StateEnd run(const MemoryFault& fault);
  // What is wrong after that: bytes still on a ledger, a descriptor left open, a checkpoint that
  // does not verify, a step 2 that nobody saved. "" if nothing. Removes step 2.
  std::string damage(const StateEnd& end);

 private:
  StateEnd nothing_said() const;
  void attempt(StateEnd& end);

  parity::Layout layout_;
  parity::Task task_;
  testing::TemporaryFolder folder_;
  std::vector<std::shared_ptr<MemoryLedger>> ledgers_;
  std::mutex mutex_;
  std::int64_t descriptors_ = 0;
  double quiet_ = 0;
};

}  // namespace trireme::test
