// The state of training as rectangles of logical tensors: what a rank saves, and how it takes back
// what any layout saved.
//
// Every logical element is saved by exactly one rank: by the data rank whose shard it lies in (at
// stage 0 too, where all have it), of one replica under hybrid sharding, and of the holder that
// counts it in the norm where tensor ranks or end stages have copies. Every rank loads all that it
// holds. Masters are the values; 16-bit weights are rounded from them again, never the reverse.
#pragma once

#include <functional>
#include <vector>

#include "zero/kept_arrays.h"
#include "zero/state_runs.h"

namespace trireme {

// So few elements are copied or cast at once, while other threads move bytes from or to the disk:
// no backend wakes more threads for them, which would take the cores from those.
inline constexpr std::int64_t kQuietElements = std::int64_t{1} << 14;

struct StatePiece {
  Piece piece;
  std::size_t unit = 0;
  Range flat;  // of the unit's flat buffer, row-major in the piece's rectangle
};

// What this rank saves, in a fixed order. `saves` = false: a replica that leaves it to another one.
std::vector<StatePiece> pieces_to_save(const KeptArrays& kept, bool saves);
// Elements [begin, begin + count) of a piece, into a host tensor of its type.
void read_piece(const KeptArrays& kept, const StatePiece& piece, std::int64_t begin,
                const Tensor& to);

// Begins to give a rectangle of an array of the logical tensor of that shape, row-major, as
// `dtype`. What it returns waits until all is there, and is called once; dropped uncalled, it waits
// for whoever writes to `out`. Nothing: it is there.
using ArrayRead = std::function<void()>;
using ArraySource = std::function<ArrayRead(const ArrayName& name, const Shape& logical,
                                            const Rectangle& at, DType dtype, void* out)>;
// Replaces weights, masters and moments. Not collective; works in pieces of about 2 Mi elements on
// the host, at most three of that size (or as many smaller ones as are 2 Mi elements together) at a
// time: while one is put in its place the next are being read. `host` casts there.
void load_state(KeptArrays& kept, Backend& device, Backend& host, const ArraySource& source);

}  // namespace trireme
