#include "recipes/train/save_session.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "framework/base/error.h"
#include "recipes/train/save_phases.h"
#include "recipes/train/step_counts.h"

namespace trireme {

SaveSession::SaveSession(Files& files, std::string folder, int first_rank, int ranks, int threads)
    : files_(files),
      folder_(files, std::move(folder)),
      first_rank_(first_rank),
      threads_(threads),
      pieces_(static_cast<std::size_t>(ranks)),
      data_(static_cast<std::size_t>(ranks)) {}

void SaveSession::name_pieces(int rank, std::vector<Piece> pieces) {
  const std::scoped_lock lock(mutex_);
  pieces_[index(rank)] = std::move(pieces);
}

std::int64_t SaveSession::bytes_needed() const {
  std::int64_t bytes = 0;
  for (const std::vector<Piece>& pieces : pieces_) bytes += CheckpointWriter::bytes_needed(pieces);
  return bytes;
}

void SaveSession::open(const std::string& folder) {
  std::vector<Piece> all;
  first_piece_.clear();
  for (const std::vector<Piece>& pieces : pieces_) {
    first_piece_.push_back(all.size());
    all.insert(all.end(), pieces.begin(), pieces.end());
  }
  auto writer = std::make_shared<CheckpointWriter>(
      files_, folder, join("ranks-", first_rank_, ".h5"), std::move(all));
  const std::scoped_lock lock(mutex_);
  writer_ = std::move(writer);
}

std::shared_ptr<CheckpointWriter> SaveSession::writer() {
  const std::scoped_lock lock(mutex_);
  check(writer_ != nullptr, "save: given up by the rank that leads this process");
  return writer_;
}

StoredFile SaveSession::finish() {
  const std::shared_ptr<CheckpointWriter> mine = writer();
  {
    const std::scoped_lock lock(mutex_);
    writer_.reset();
  }
  return mine->finish();
}

void SaveSession::abandon() {
  background_.give_up();
  const std::scoped_lock lock(mutex_);
  writer_.reset();
}

void SaveSession::give_data(int rank, std::vector<const void*> pieces) {
  const std::scoped_lock lock(mutex_);
  data_[index(rank)] = std::move(pieces);
}

void SaveSession::write_in_background() {
  next_ = {};
  background_.start([this] { return write_next(); });
}

StoredFile SaveSession::finish_background() {
  background_.finish();
  return std::move(given_);
}

// One block; after the last one the file is finished.
bool SaveSession::write_next() try {
  while (next_.rank < pieces_.size() && next_.piece == pieces_[next_.rank].size())
    next_ = {next_.rank + 1, 0, 0};
  if (next_.rank == pieces_.size()) {
    given_ = finish();
    return false;
  }
  const Piece& piece = pieces_[next_.rank][next_.piece];
  const std::int64_t width = size_of(piece.array.dtype), left = piece.at.elements() - next_.at;
  const std::int64_t count = std::min(kHashBlock / width, left);
  const auto* data = static_cast<const std::byte*>(data_[next_.rank][next_.piece]);
  writer_->write(first_piece_[next_.rank] + next_.piece, next_.at, count, data + next_.at * width);
  next_.at += count;
  if (count == left) next_ = {next_.rank, next_.piece + 1, 0};
  return true;
} catch (...) {
  writer_.reset();
  throw;
}

void SaveSession::open_reader(std::int64_t step) {
  // Ranks read at the same time anyway: helpers for the threads that are left, and as many as a
  // disk wants requests at a time.
  constexpr int kRequests = 4;
  const int left = threads_ - static_cast<int>(pieces_.size()) + 1;
  const int threads = threads_ == 1 ? 1 : std::max(kRequests, left);
  reader_ = std::make_unique<CheckpointReader>(files_, folder_.folder_of(step), threads);
}

void SaveSession::close_reader() { reader_.reset(); }

namespace {

// Reads what this rank holds; returns the arrays that it asked for, a line each.
std::string read_own(const SaveRank& r) {
  const CheckpointReader& reader = r.session->reader();
  if (!r.engine.options().forward_only) restore_counts(r.engine, reader.manifest());
  std::set<ArrayName> asked;
  load_state(r.engine.kept(), r.backend, r.host,
             [&](const ArrayName& name, const Shape& logical, const Rectangle& at, DType dtype,
                 void* out) -> ArrayRead {
               if (asked.insert(name).second) reader.expect_shape(name, logical);
               const auto reading = std::make_shared<CheckpointReader::Reading>(
                   reader.start_read(name, at, dtype, out));
               return [reading] { reading->wait(); };
             });
  std::string lines;
  for (const ArrayName& name : asked) lines += name.tensor + " " + name.array + "\n";
  return lines;
}

// An array that nobody asked for belongs to another model.
void expect_all_read(const CheckpointReader& reader, const std::vector<std::string>& asked,
                     LoadWhat what) {
  std::set<std::string> read;
  for (const std::string& lines : asked) {
    std::istringstream in(lines);
    in.exceptions(std::ios_base::badbit);  // no memory is no end of text
    for (std::string line; std::getline(in, line);) read.insert(line);
  }
  for (const LogicalArray& array : reader.arrays())
    if (what == LoadWhat::kAll || array.name.array == "value")
      check(read.contains(array.name.tensor + " " + array.name.array), "the checkpoint has ",
            describe(array.name), ", which the recipe's model or optimizer has not");
}

}  // namespace

Manifest load(const SaveRank& r, std::int64_t step, LoadWhat what) {
  const bool leads = r.session->leads(r.mesh.world().rank());
  agreed(r, [&] {
    if (leads) r.session->open_reader(step);
    return std::string();
  });
  const std::vector<std::string> asked = agreed(r, [&] { return read_own(r); });
  Manifest manifest;
  agreed(r, [&] {
    manifest = r.session->reader().manifest();
    if (r.mesh.world().rank() == 0) expect_all_read(r.session->reader(), asked, what);
    // What was asked for is everything, unless only weights were; other processes read their parts.
    const bool alone = r.session->leads_all(r.mesh.world().size());
    if (leads && (alone || what == LoadWhat::kWeights)) r.session->reader().verify_unread();
    return std::string();
  });
  if (leads) r.session->close_reader();
  return manifest;
}

}  // namespace trireme
