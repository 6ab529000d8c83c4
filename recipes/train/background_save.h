// One rank's part of a checkpoint that is written while training goes on.
//
// Begun between two steps by all ranks together: the room is checked and the files are made, then
// each rank copies what it saves into host memory (the snapshot, counted in the ledger under
// communication) and one thread of each process hashes, writes and syncs the process's file. The
// ranks tell each other with every step how far they are (written()); once all have written, or one
// could not, all of them complete() after that same step: rank 0 commits, or every rank throws the
// failed one's sentence. Nobody waits for a rank that gave up.
//
// The checkpoint has the bytes that save() would have written at the beginning. The snapshot lives
// from the beginning to complete(), on every rank during at least one whole step: its bytes are one
// share of the masters and moments, once, for only one save is in flight at a time.
//
// Destroyed before complete() returned, it stops its process's thread, waits for it and removes
// what was written as far as it can; nothing is thrown. Of one rank, its thread only.
#pragma once

#include <cstddef>
#include <vector>

#include "recipes/train/save_session.h"

namespace trireme {

class BackgroundSave {
 public:
  // Collective; `head` as for save(). Throws on all ranks alike, with nothing left. States at home
  // on disk are copied, too: not to do that is the caller's choice (has_snapshot).
  BackgroundSave(const SaveRank& rank, Manifest head);
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  std::int64_t step() const { return head_.step; }
  // For Wishes::written: 0 while this process writes, 1 when it has written, the number of ranks if
  // it could not.
  double written() const;
  // Does that sum over all ranks ask to complete?
  bool is_over(double sum) const { return sum >= static_cast<double>(ranks()); }

  // Collective, once: with `over`, by is_over() of the same step on all ranks, nothing is waited
  // for but the commit; else each process's leader first writes what is left. Frees the snapshot.
  void complete(bool over);

 private:
  int ranks() const { return rank_.mesh.world().size(); }
  bool leads() const { return rank_.session->leads(rank_.mesh.world().rank()); }
  void begin();
  void copy(const std::vector<StatePiece>& pieces);
  std::string finish_file(bool over);
  void give_up() noexcept;

  SaveRank rank_;
  Manifest head_;
  std::vector<Tensor> snapshot_;  // by piece
  bool ended_ = false;            // there is nothing to give up
};

}  // namespace trireme
