// The phases that a save at once and one in the background share, and how ranks agree on one.
// Internal to save_session and background_save. All are collective over the world.
#pragma once

#include <string>
#include <vector>

#include "framework/base/error.h"
#include "recipes/train/gather.h"
#include "recipes/train/save_session.h"

namespace trireme {

// Runs one phase, which returns a text, on this rank and waits for all others: each rank's text, or
// the Error of the lowest rank that failed, on all of them; a DamagedCheckpoint stays one.
template <typename Phase>
std::vector<std::string> agreed(const SaveRank& r, const Phase& phase) {
  constexpr char kFailed = '!', kDamaged = '?', kDone = '.';
  std::string mine;
  try {
    mine = kDone + phase();
  } catch (const DamagedCheckpoint& error) {
    mine = kDamaged + std::string(error.what());
  } catch (const std::exception& error) {
    mine = kFailed + reason_of(error);
  }
  std::vector<std::string> all = gather_texts(r.mesh.world(), r.backend, mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const bool own = static_cast<int>(rank) == r.mesh.world().rank();
    if (all[rank].front() == kDamaged) throw DamagedCheckpoint(all[rank].substr(1));
    check(all[rank].front() != kFailed, own ? "" : join("rank ", rank, ": "), all[rank].substr(1));
    all[rank].erase(0, 1);
  }
  return all;
}

// Names the pieces, checks the room, makes each process's file: the session's writer is open.
// Returns what this rank is to write.
std::vector<StatePiece> open_save(const SaveRank& r, std::int64_t step);
// Of all processes' files, HDF5's own bytes included, from above. Names the pieces.
std::int64_t bytes_of_a_checkpoint(const SaveRank& r);
// The file that this process has finished, for commit_save; of its leader. Others give "".
std::string told_file(std::int64_t step, StoredFile file);
// Rank 0 commits what the processes' leaders told. The optimizer's counts are in `head` already.
void commit_save(const SaveRank& r, Manifest head, const std::vector<std::string>& told);
// After an Error, which is on its way: removes what the save has left, as far as it can.
void give_up_save(const SaveRank& r) noexcept;

}  // namespace trireme
