// A seal over the HDF5 structures of a token file, checked before libhdf5 sees the file: libhdf5
// 1.10 leaks, and worse, on damaged or hostile structures. It lies at byte 512, in the room between
// the superblock and the first object (which starts at byte 4096) that HDF5 leaves alone.
//
// It holds the XXH3-128 of every byte of the file outside the tokens and the mask, itself taken as
// zeros. It tells our files from strangers' and notices damage; it is no signature.
#pragma once

#include <cstdint>

#include "framework/base/files.h"

namespace trireme {

// The bytes of the tokens in the file, and of a mask behind them, if there is one.
struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t bytes = 0;
  std::int64_t mask_begin = 0;
  std::int64_t mask_bytes = 0;  // 0: no mask
  bool operator==(const TokenRange&) const = default;
};

// Seals a finished file. Error if the range is not inside it.
void seal_token_file(File& file, const TokenRange& tokens);

// Error if there is no seal (the file is not ours) or it does not fit the bytes (damage). Returns
// where the tokens are. Reads at most 1 MiB of structures.
TokenRange check_seal(File& file);

}  // namespace trireme
