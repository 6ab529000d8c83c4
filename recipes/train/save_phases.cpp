#include "recipes/train/save_phases.h"

#include <utility>

namespace trireme {

namespace {

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

}  // namespace

std::vector<StatePiece> open_save(const SaveRank& r, std::int64_t step) {
  const Communicator* replicas = r.engine.stage().replicas();
  std::vector<StatePiece> pieces =
      pieces_to_save(r.engine.kept(), !replicas || replicas->rank() == 0);
  const bool leads = r.session->leads(r.mesh.world().rank());
  const std::string folder = agreed(r, [&] { return begin_on_rank_0(r, step, pieces); }).front();
  const std::vector<std::string> needed =
      agreed(r, [&] { return leads ? std::to_string(r.session->bytes_needed()) : std::string(); });
  agreed(r, [&] { return expect_room(r, folder, needed), std::string(); });
  agreed(r, [&] {
    if (leads) r.session->open(folder);
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
