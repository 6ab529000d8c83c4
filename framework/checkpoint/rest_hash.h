// The bytes of a stored file that belong to no piece: HDF5's own, and what alignment leaves.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/base/files.h"
#include "framework/checkpoint/checkpoint_writer.h"

namespace trireme {

// The pieces' places in the order in which they lie in the file.
std::vector<const StoredPiece*> in_file_order(const StoredFile& stored);

// Bytes that a piece takes in its file.
std::int64_t stored_bytes(const StoredPiece& piece);

// XXH3-64 of them, in order. The pieces lie inside `stored.bytes` and do not overlap.
std::uint64_t rest_hash(File& file, const StoredFile& stored);

}  // namespace trireme
