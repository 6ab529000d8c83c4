#include "recipes/train/save_phases.h"

#include <utility>

namespace trireme {

namespace {

// Of this rank, to the session of its process.
std::vector<StatePiece> name_pieces(const SaveRank& r) {
  const Communicator* replicas = r.engine.stage().replicas();
  std::vector<StatePiece> pieces =
      pieces_to_save(r.engine.kept(), !replicas || replicas->rank() == 0);
  std::vector<Piece> named;
  for (const StatePiece& piece : pieces) named.push_back(piece.piece);
  r.session->name_pieces(r.mesh.world().rank(), std::move(named));
  return pieces;
}

// Of all processes; every rank has named its pieces.
std::int64_t bytes_needed(const SaveRank& r) {
  std::int64_t bytes = 0;
  const bool leads = r.session->leads(r.mesh.world().rank());
  for (const std::string& text :
       agreed(r, [&] { return leads ? std::to_string(r.session->bytes_needed()) : std::string(); }))
    if (!text.empty()) bytes += std::stoll(text);
  return bytes;
}

// Beside the space that other users take meanwhile, which preallocation then finds.
void expect_room(const SaveRank& r, const std::string& folder, std::int64_t bytes) {
  if (r.mesh.world().rank() != 0) return;
  const std::int64_t free = r.session->files().free_space(folder);
  check(bytes <= free, "save ", folder, ": ", bytes, " bytes are needed, but the disk has ", free,
        " free");
}

}  // namespace

std::int64_t bytes_of_a_checkpoint(const SaveRank& r) {
  agreed(r, [&] { return name_pieces(r), std::string(); });
  return bytes_needed(r);
}

std::vector<StatePiece> open_save(const SaveRank& r, std::int64_t step) {
  std::vector<StatePiece> pieces;
  const std::string folder =
      agreed(r, [&] {
        pieces = name_pieces(r);
        return r.mesh.world().rank() == 0 ? r.session->folder().begin(step) : std::string();
      }).front();
  const std::int64_t bytes = bytes_needed(r);
  agreed(r, [&] { return expect_room(r, folder, bytes), std::string(); });
  agreed(r, [&] {
    if (r.session->leads(r.mesh.world().rank())) r.session->open(folder);
    return std::string();
  });
  return pieces;
}

std::string told_file(std::int64_t step, StoredFile file) {
  Manifest manifest{.step = step};
  manifest.files.push_back(std::move(file));
  return encode(manifest);
}

void commit_save(const SaveRank& r, Manifest head, const std::vector<std::string>& told) {
  agreed(r, [&] {
    if (r.mesh.world().rank() != 0) return std::string();
    for (const std::string& text : told)
      if (!text.empty())
        for (StoredFile& file : decode_manifest(text, join("save step ", head.step)).files)
          head.files.push_back(std::move(file));
    r.session->folder().commit(head);
    return std::string();
  });
}

void give_up_save(const SaveRank& r) noexcept {
  try {
    if (r.session->leads(r.mesh.world().rank())) r.session->abandon();
    if (r.mesh.world().rank() == 0) r.session->folder().discard();
  } catch (...) {
    // What cannot be removed now, the next save removes; it is no checkpoint.
  }
}

}  // namespace trireme
