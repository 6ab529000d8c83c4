// The HDF5 side of a checkpoint: which groups and datasets its files have, written through File.
// Nothing here is ever read back by libhdf5: loading goes by the offsets in the manifest.
//
// A process's file has a dataset /TENSOR/ARRAY/ROW,COLUMN per piece, with these two numbers as
// attributes too; checkpoint.h5 has a virtual dataset /TENSOR/ARRAY over all files, named relative
// to itself. bf16, which HDF5 lacks, is u16 with the attribute dtype = "bf16"; f16 is IEEE half.
// The same input gives the same bytes: no times are recorded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/checkpoint/manifest.h"

namespace trireme {

// Makes an HDF5 file out of the empty `file`. Returns the offset of each piece's first byte, which
// is a multiple of 4096 for pieces of at least so many bytes; -1 for pieces without elements, which
// get no dataset. No data is written.
std::vector<std::int64_t> write_piece_datasets(File& file, const std::vector<Piece>& pieces);
// From above, what write_piece_datasets() adds to the data themselves.
std::int64_t structure_bytes(const std::vector<Piece>& pieces);

// Makes checkpoint.h5 out of the empty `file`.
void write_virtual_datasets(File& file, const Manifest& manifest);

}  // namespace trireme
