// A training state of random arrays, cut into random rectangles over several files: what a run of
// any layout might save, and what every load of it must give back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/checkpoint/checkpoint_folder.h"

namespace trireme::testing {

// The bytes of whole arrays, row-major, in their types.
struct RandomState {
  std::vector<LogicalArray> arrays;
  std::vector<std::vector<std::byte>> bytes;
};

// Every type; vectors, matrices, single elements. `largest`: rows and columns of a matrix.
RandomState random_state(std::uint64_t seed, std::int64_t largest);

// The pieces of every file. Together they cover each array once.
using Cut = std::vector<std::vector<Piece>>;
Cut random_cut(const RandomState& state, std::size_t files, std::uint64_t seed);
// As ZeRO cuts: every array as `files` flat runs of (nearly) equal length.
Cut flat_cut(const RandomState& state, std::size_t files);

std::vector<std::byte> bytes_of(const RandomState& state, const LogicalArray& array,
                                const Rectangle& at);
std::size_t index_of(const RandomState& state, const ArrayName& name);

// Writes the files of a cut as ranks would, in parts, and tells of them.
std::vector<StoredFile> write_files(Files& files, const std::string& folder,
                                    const RandomState& state, const Cut& cut);
// A whole save.
Manifest save_state(Files& files, CheckpointFolder& folder, std::int64_t step,
                    const RandomState& state, const Cut& cut);

// Is all of it in there, bit by bit? The first array that differs; "" if none does.
std::string difference_from(const CheckpointReader& reader, const RandomState& state);

}  // namespace trireme::testing
