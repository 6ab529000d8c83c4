// The HDF5 side of a token file: one contiguous dataset "tokens" and what is said about it in
// attributes of the root group. libhdf5 reads and writes only these; the tokens themselves are
// plain little-endian integers at `offset`, written and mapped without it.
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/files.h"

namespace trireme {

constexpr std::int64_t kTokenFormat = 1;

struct TokenHeader {
  std::int64_t vocabulary = 0;  // ids are in [0, vocabulary)
  std::string tokenizer;
  std::string text_hash;   // XXH3-128 of the text, 32 hexadecimal digits
  std::string token_hash;  // XXH3-128 of the stored bytes of all tokens
  std::int64_t count = 0;  // tokens
  std::int64_t width = 1;  // bytes of one token: 1 (u8), 2 (u16) or 4 (i32)
};

// The narrowest width for a vocabulary: 1 up to 256, 2 up to 65536, 4 up to 2^31 - 1.
std::int64_t token_width(std::int64_t vocabulary);
std::string token_type_name(std::int64_t width);  // "u8", "u16", "i32"

// Writes the HDF5 structures around the tokens and makes the file exactly as long as they need;
// bytes of tokens that are already there stay. Returns the offset of the first token, which depends
// on nothing in `header`: write once with count 1 to learn it, and again when all is known.
std::int64_t write_token_header(File& file, const TokenHeader& header);

struct FoundTokens {
  TokenHeader header;
  std::int64_t offset = 0;
};

// Refuses, with a sentence, everything that write_token_header would not write, and tokens that do
// not lie wholly inside the file.
FoundTokens read_token_header(File& file);

}  // namespace trireme
