#include "framework/checkpoint/rest_hash.h"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "framework/base/storage/content_hash.h"

namespace trireme {

std::vector<const StoredPiece*> in_file_order(const StoredFile& stored) {
  std::vector<const StoredPiece*> pieces;
  for (const StoredPiece& piece : stored.pieces) pieces.push_back(&piece);
  std::sort(pieces.begin(), pieces.end(),
            [](const StoredPiece* a, const StoredPiece* b) { return a->offset < b->offset; });
  return pieces;
}

std::int64_t stored_bytes(const StoredPiece& piece) {
  return piece.piece.at.elements() * size_of(piece.piece.array.dtype);
}

std::uint64_t rest_hash(File& file, const StoredFile& stored) {
  constexpr std::int64_t kPiece = std::int64_t{64} << 10;
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kPiece);
  BlockHash hash;
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    for (; begin < end; begin += kPiece) {
      const std::int64_t bytes = std::min(kPiece, end - begin);
      file.read(buffer.get(), bytes, begin);
      hash.update(buffer.get(), bytes);
    }
  };
  std::int64_t at = 0;
  for (const StoredPiece* piece : in_file_order(stored)) {
    add(at, piece->offset);
    at = piece->offset + stored_bytes(*piece);
  }
  add(at, stored.bytes);
  return hash.value();
}

}  // namespace trireme
