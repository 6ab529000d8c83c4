#include "recipes/train/background_save.h"

#include <utility>

#include "recipes/train/save_phases.h"
#include "recipes/train/step_counts.h"

namespace trireme {

BackgroundSave::BackgroundSave(const SaveRank& rank, Manifest head)
    : rank_(rank), head_(std::move(head)) {
  add_counts(rank_.engine, head_);
  try {
    begin();
  } catch (...) {
    give_up();
    throw;
  }
}

BackgroundSave::~BackgroundSave() {
  if (!ended_) give_up();
}

// Nothing may be read any more from a snapshot that goes.
void BackgroundSave::give_up() noexcept {
  rank_.session->stop_background();
  give_up_save(rank_);
  snapshot_.clear();
  ended_ = true;
}

void BackgroundSave::begin() {
  const std::vector<StatePiece> pieces = open_save(rank_, head_.step);
  agreed(rank_, [&] { return copy(pieces), std::string(); });
  agreed(rank_, [&] {
    if (leads()) rank_.session->write_in_background();
    return std::string();
  });
}

void BackgroundSave::copy(const std::vector<StatePiece>& pieces) {
  std::vector<const void*> data;
  for (const StatePiece& piece : pieces) {
    snapshot_.push_back(allocate_on_host(rank_.backend.shared_ledger(), {piece.flat.size()},
                                         piece.piece.array.dtype, MemoryKind::kCommunication));
    read_piece(rank_.engine.kept(), piece, 0, snapshot_.back());
    data.push_back(snapshot_.back().data());
  }
  rank_.session->give_data(rank_.mesh.world().rank(), std::move(data));
}

double BackgroundSave::written() const {
  switch (rank_.session->background()) {
    case BackgroundWrite::State::kDone:
      return 1;
    case BackgroundWrite::State::kFailed:
      return ranks();
    default:
      return 0;
  }
}

std::string BackgroundSave::finish_file(bool over) {
  if (!leads()) return {};
  // All others have written, or one failed: then this one's is for nothing.
  if (over && rank_.session->background() == BackgroundWrite::State::kRunning) {
    rank_.session->abandon();
    return {};
  }
  return told_file(head_.step, rank_.session->finish_background());
}

void BackgroundSave::complete(bool over) {
  try {
    const std::vector<std::string> told = agreed(rank_, [&] { return finish_file(over); });
    snapshot_.clear();
    ended_ = true;
    commit_save(rank_, head_, told);
  } catch (...) {
    give_up();
    throw;
  }
}

}  // namespace trireme
