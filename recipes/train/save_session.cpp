#include "recipes/train/save_session.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "framework/base/error.h"
#include "recipes/train/gather.h"

namespace trireme {

SaveSession::SaveSession(Files& files, std::string folder, int first_rank, int ranks)
    : files_(files),
      folder_(files, std::move(folder)),
      first_rank_(first_rank),
      pieces_(static_cast<std::size_t>(ranks)) {}

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
  writer_ = std::make_unique<CheckpointWriter>(files_, folder, join("ranks-", first_rank_, ".h5"),
                                               std::move(all));
}

StoredFile SaveSession::finish() {
  const std::unique_ptr<CheckpointWriter> writer = std::move(writer_);
  return writer->finish();
}

void SaveSession::abandon() { writer_.reset(); }

void SaveSession::open_reader(std::int64_t step) {
  reader_ = std::make_unique<CheckpointReader>(files_, folder_.folder_of(step));
}

void SaveSession::close_reader() { reader_.reset(); }

namespace {

constexpr char kFailed = '!', kDone = '.';

// Runs one phase on this rank and waits for all others: each rank's result, or the Error of the
// lowest rank that failed, on all of them.
template <typename Phase>
std::vector<std::string> agreed(const SaveRank& r, const Phase& phase) {
  std::string mine;
  try {
    mine = kDone + phase();
  } catch (const std::exception& error) {
    mine = kFailed + std::string(error.what());
  }
  std::vector<std::string> all = gather_texts(r.mesh.world(), r.backend, mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const bool own = static_cast<int>(rank) == r.mesh.world().rank();
    check(all[rank].front() != kFailed, own ? "" : join("rank ", rank, ": "), all[rank].substr(1));
    all[rank].erase(0, 1);
  }
  return all;
}

std::string begin_on_rank_0(const SaveRank& r, std::int64_t step,
                            const std::vector<StatePiece>& pieces) {
  const int rank = r.mesh.world().rank();
  std::vector<Piece> named;
  for (const StatePiece& piece : pieces) named.push_back(piece.piece);
  r.session->name_pieces(rank, std::move(named));
  return rank == 0 ? r.session->folder().begin(step) : std::string();
}

// Beside the space that other users take meanwhile, which preallocation then finds.
void expect_room(const SaveRank& r, const std::string& folder,
                 const std::vector<std::string>& needed) {
  std::int64_t bytes = 0;
  for (const std::string& text : needed)
    if (!text.empty()) bytes += std::stoll(text);
  if (r.mesh.world().rank() != 0) return;
  const std::int64_t free = r.session->files().free_space(folder);
  check(bytes <= free, "save ", folder, ": ", bytes, " bytes are needed, but the disk has ", free,
        " free");
}

void write_own(const SaveRank& r, const std::vector<StatePiece>& pieces) {
  const std::size_t first = r.session->first_piece(r.mesh.world().rank());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const DType dtype = pieces[i].piece.array.dtype;
    const std::int64_t all = pieces[i].flat.size(), step = kHashBlock / size_of(dtype);
    for (std::int64_t at = 0; at < all; at += step) {
      const std::int64_t count = std::min(step, all - at);
      const Tensor block =
          allocate_on_host(r.backend.shared_ledger(), {count}, dtype, MemoryKind::kCommunication);
      read_piece(r.engine.optimizer(), pieces[i], at, block);
      r.session->writer().write(first + i, at, count, block.data());
    }
  }
}

bool has_dynamic_scale(Engine& engine) { return engine.options().optimizer.loss_scale.dynamic; }

void add_counts(Engine& engine, Manifest& head) {
  const ZeroOptimizer::Progress progress = engine.optimizer().progress();
  head.set_integer("steps_taken", progress.steps_taken);
  head.set_integer("loss_scale_dynamic", has_dynamic_scale(engine) ? 1 : 0);
  head.set_number("loss_scale", progress.scaler.scale);
  head.set_integer("loss_scale_lives", progress.scaler.lives);
  head.set_integer("loss_scale_good", progress.scaler.good);
}

// A scale that was fixed says nothing about where a dynamic one should be: that one begins anew.
ZeroOptimizer::Progress counts_of(Engine& engine, const Manifest& manifest) {
  ZeroOptimizer::Progress progress = engine.optimizer().progress();
  progress.steps_taken = manifest.integer("steps_taken");
  if (has_dynamic_scale(engine) && manifest.integer("loss_scale_dynamic") == 1)
    progress.scaler = {.scale = manifest.number("loss_scale"),
                       .lives = manifest.integer("loss_scale_lives"),
                       .good = manifest.integer("loss_scale_good")};
  return progress;
}

void save_all(const SaveRank& r, Manifest& head) {
  const Communicator* replicas = r.engine.stage().replicas();
  const std::vector<StatePiece> pieces =
      pieces_to_save(r.engine.optimizer(), !replicas || replicas->rank() == 0);
  const bool leads = r.session->leads(r.mesh.world().rank());
  const std::string folder =
      agreed(r, [&] { return begin_on_rank_0(r, head.step, pieces); }).front();
  const std::vector<std::string> needed =
      agreed(r, [&] { return leads ? std::to_string(r.session->bytes_needed()) : std::string(); });
  agreed(r, [&] { return expect_room(r, folder, needed), std::string(); });
  agreed(r, [&] {
    if (leads) r.session->open(folder);
    return std::string();
  });
  agreed(r, [&] { return write_own(r, pieces), std::string(); });
  const std::vector<std::string> files = agreed(r, [&] {
    return leads ? encode(Manifest{.step = head.step, .files = {r.session->finish()}})
                 : std::string();
  });
  agreed(r, [&] {
    if (r.mesh.world().rank() != 0) return std::string();
    for (const std::string& text : files)
      if (!text.empty())
        for (StoredFile& file : decode_manifest(text, folder).files)
          head.files.push_back(std::move(file));
    r.session->folder().commit(head);
    return std::string();
  });
}

}  // namespace

void save(const SaveRank& r, Manifest head) {
  add_counts(r.engine, head);
  try {
    save_all(r, head);
  } catch (const Error&) {
    if (r.session->leads(r.mesh.world().rank())) r.session->abandon();
    if (r.mesh.world().rank() == 0) r.session->folder().discard();
    throw;
  }
}

namespace {

// Reads what this rank holds; returns the arrays that it asked for, a line each.
std::string read_own(const SaveRank& r) {
  const CheckpointReader& reader = r.session->reader();
  r.engine.optimizer().restore(counts_of(r.engine, reader.manifest()));
  std::set<ArrayName> asked;
  load_state(r.engine.optimizer(), r.backend, r.host,
             [&](const ArrayName& name, const Shape& logical, const Rectangle& at, DType dtype,
                 void* out) {
               if (asked.insert(name).second) reader.expect_shape(name, logical);
               reader.read(name, at, dtype, out);
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
    return std::string();
  });
  if (leads) r.session->close_reader();
  return manifest;
}

}  // namespace trireme
