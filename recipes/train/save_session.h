// Saves and loads the state of a whole run: all ranks together, one file per process.
//
// A process has one SaveSession, shared by its ranks (threads: all of them; MPI: one). save() and
// load() are collective over the world. Whatever fails on any rank fails on all, with that rank's
// sentence, and leaves the older checkpoints whole: ranks agree after each phase, so no rank waits
// for one that gave up.
//
//   save: pieces are named, room is checked, each process makes its file, ranks write their own
//   elements side by side, each process syncs its file, rank 0 commits the manifest.
//
// Memory: the writer's blocks (write_behind.h), three pieces of a load, and on a disk tier a tile;
// no copy of the state.
// With a copy of it, training need not wait: background_save.h.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "framework/checkpoint/checkpoint_folder.h"
#include "recipes/models/engine.h"
#include "recipes/train/background_write.h"
#include "zero/train_state.h"

namespace trireme {

// Of one process. Thread-safe as said at the members.
class SaveSession {
 public:
  // `ranks` of this process and the number of the first; `threads` of all of them together. With
  // one, a checkpoint is read by it alone, in order; else by some more, which wait for the disk.
  SaveSession(Files& files, std::string folder, int first_rank, int ranks, int threads = 1);

  CheckpointFolder& folder() { return folder_; }  // rank 0's only
  Files& files() { return files_; }
  bool leads(int rank) const { return rank == first_rank_; }
  bool leads_all(int ranks) const { return std::ssize(pieces_) == ranks; }

  // From the process's ranks, at once: what a rank will write. In any order; the file has them in
  // rank order, so equal states make equal files.
  void name_pieces(int rank, std::vector<Piece> pieces);
  std::int64_t bytes_needed() const;
  // By the leader, between barriers.
  void open(const std::string& folder);
  StoredFile finish();
  void abandon();  // also of what is written in the background; the file is removed
  void open_reader(std::int64_t step);
  void close_reader();
  // By all ranks, at once. A rank keeps it while it writes: the leader may fail, and abandon the
  // save, meanwhile. Throws Error after that.
  std::shared_ptr<CheckpointWriter> writer();
  std::size_t first_piece(int rank) const { return first_piece_[index(rank)]; }
  // For a save in the background. Each rank gives the elements of its pieces, in their order, and
  // keeps them until finish_background(), by the leader, or stop_background(), by itself, returned.
  void give_data(int rank, std::vector<const void*> pieces);
  void stop_background() { background_.give_up(); }
  // By the leader.
  void write_in_background();
  BackgroundWrite::State background() const { return background_.state(); }  // any thread
  StoredFile finish_background();  // waits; throws what went wrong, the file is removed then
  const CheckpointReader& reader() const { return *reader_; }

 private:
  bool write_next();
  std::size_t index(int rank) const { return static_cast<std::size_t>(rank - first_rank_); }

  Files& files_;
  CheckpointFolder folder_;
  int first_rank_, threads_;
  std::mutex mutex_;
  std::vector<std::vector<Piece>> pieces_;  // by rank of the process
  std::vector<std::size_t> first_piece_;
  std::shared_ptr<CheckpointWriter> writer_;    // guarded by the mutex
  std::vector<std::vector<const void*>> data_;  // by rank of the process
  struct {
    std::size_t rank = 0, piece = 0;
    std::int64_t at = 0;        // elements of the piece
  } next_;                      // to be written in the background
  StoredFile given_;            // finished there
  BackgroundWrite background_;  // ends before what it uses
  std::unique_ptr<CheckpointReader> reader_;
};

// One rank's way to it.
struct SaveRank {
  SaveSession* session;  // of the process
  Engine& engine;
  Mesh& mesh;
  Backend& backend;
  Backend& host;
};

// `head`: run, step, layout, recipe and scalars; files are added. The counts of the optimizer are
// put into the scalars here.
void save(const SaveRank& rank, Manifest head);
// The state of that step, whatever layout saved it; returns its manifest. With kWeights, arrays
// that the engine's optimizer has no place for are only compared with their hashes.
//
// Of a checkpoint that was good at a glance nothing else need be verified: every block of it is
// compared with its hash, here or on another rank. A damaged one is a DamagedCheckpoint on all
// ranks; then the engine's state is neither the old nor the new one: load another, or end.
enum class LoadWhat : std::uint8_t { kAll, kWeights };
Manifest load(const SaveRank& rank, std::int64_t step, LoadWhat what = LoadWhat::kAll);

}  // namespace trireme
