// Short training runs that save in the background, for tests: thread ranks of one process, or each
// of them as a process of its own, with its own session and file.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "recipes/train/checkpointing.h"
#include "tests/parity/train_layout.h"

namespace trireme::testing {

// The sessions of a run and the Files behind them, by rank or one for all.
class Sessions {
 public:
  // One process: `files` of all ranks.
  Sessions(Files& files, const std::string& folder, int ranks);
  // A process each.
  Sessions(const std::vector<Files*>& files, const std::string& folder);
  SaveSession& of(int rank) { return *all_[all_.size() == 1 ? 0 : static_cast<std::size_t>(rank)]; }
  SaveRank rank(parity::Rank& rank);

 private:
  std::vector<std::unique_ptr<SaveSession>> all_;
};

struct Flight {
  parity::Task task;
  parity::Layout layout;
  std::int64_t from = 0;        // a checkpoint to begin behind; 0: none
  std::int64_t steps = 8;       // train.steps
  std::int64_t every = 3;       // train.checkpoint_every
  bool background = true;       // train.async_checkpoint
  std::int64_t stop_after = 0;  // a rank's wish to stop comes with this step; 0: never
};

struct Landing {
  std::vector<double> losses;           // of the steps done here
  std::vector<std::string> sentences;   // by rank: what it threw
  std::vector<std::int64_t> snapshots;  // by rank: most bytes that lay on the host between steps
  bool none_failed() const;
};

// Trains as the program does: wishes, steps, Checkpointing. What a rank throws ends it alone, when
// all ranks throw in their turn, as they must.
Landing fly(const Flight& flight, Sessions& sessions);

// Names and bytes of all files below a folder.
std::map<std::string, std::string> contents_of(Files& files, const std::string& folder);

}  // namespace trireme::testing
