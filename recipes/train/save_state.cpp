// A save at once: every rank writes what it has, while training waits.
#include <algorithm>

#include "recipes/train/save_phases.h"
#include "recipes/train/step_counts.h"

namespace trireme {

namespace {

void write_own(const SaveRank& r, const std::vector<StatePiece>& pieces) {
  const std::size_t first = r.session->first_piece(r.mesh.world().rank());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const DType dtype = pieces[i].piece.array.dtype;
    const std::int64_t all = pieces[i].flat.size(), step = kHashBlock / size_of(dtype);
    for (std::int64_t at = 0; at < all; at += step) {
      const std::int64_t count = std::min(step, all - at);
      r.session->writer()->fill(first + i, at, count, [&](void* memory) {
        auto storage = std::make_shared<Storage>(memory, count * size_of(dtype), nullptr);
        const Tensor block(std::move(storage), 0, {count}, dtype);
        for (std::int64_t from = 0; from < count; from += kQuietElements)
          read_piece(r.engine.kept(), pieces[i], at + from,
                     block.elements_at(from, {std::min(kQuietElements, count - from)}));
      });
    }
  }
}

void save_all(const SaveRank& r, const Manifest& head) {
  const std::vector<StatePiece> pieces = open_save(r, head.step);
  agreed(r, [&] { return write_own(r, pieces), std::string(); });
  const std::vector<std::string> told = agreed(r, [&] {
    return r.session->leads(r.mesh.world().rank()) ? told_file(head.step, r.session->finish())
                                                   : std::string();
  });
  commit_save(r, head, told);
}

}  // namespace

void save(const SaveRank& r, Manifest head) {
  add_counts(r.engine, head);
  try {
    save_all(r, head);
  } catch (...) {
    give_up_save(r);
    throw;
  }
}

}  // namespace trireme
