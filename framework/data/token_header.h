// The HDF5 side of a token file: one contiguous dataset "tokens" and what is said about it in
// attributes of the root group. libhdf5 reads and writes only these; the tokens themselves are
// plain little-endian integers at `offset`, written and mapped without it.
//
// Format 1 is of plain text. Format 2 is of documents: the attributes "about", "documents" and
// "trained", and a dataset "mask" behind the tokens, if not all of them are trained: one bit
// a token (the lowest bit first), set where the token is a label that counts. Format 3 has a
// dataset "marks" instead, always: first such bits that are set where a document begins, then, if
// not all tokens are trained, those of the mask.
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/files.h"
#include "framework/data/token_seal.h"

namespace trireme {

constexpr std::int64_t kTokenFormat = 1;
constexpr std::int64_t kDocumentFormat = 2;  // is read
constexpr std::int64_t kMarkedFormat = 3;

struct TokenHeader {
  std::int64_t vocabulary = 0;  // ids are in [0, vocabulary)
  std::string tokenizer;
  std::string text_hash;   // XXH3-128 of the text, 32 hexadecimal digits
  std::string token_hash;  // XXH3-128 of the stored bytes of all tokens, and of the mask if any
  std::int64_t count = 0;  // tokens
  std::int64_t width = 1;  // bytes of one token: 1 (u8), 2 (u16) or 4 (i32)
  // Formats 2 and 3, where `about` is not empty.
  std::string about;           // "chat (messages), 3 conversations", at most 160 bytes
  std::int64_t documents = 0;  // lines that became documents
  std::int64_t trained = 0;    // tokens that count as labels
  bool masked = false;         // false: all of them count
  bool bounded = false;        // format 3: it is marked where documents begin

  std::int64_t bit_bytes() const { return (count + 7) / 8; }  // a bit a token
  std::int64_t mask_bytes() const { return ((bounded ? 1 : 0) + (masked ? 1 : 0)) * bit_bytes(); }
};

// The narrowest width for a vocabulary: 1 up to 256, 2 up to 65536, 4 up to 2^31 - 1.
std::int64_t token_width(std::int64_t vocabulary);
std::string token_type_name(std::int64_t width);  // "u8", "u16", "i32"

// Writes the HDF5 structures around the tokens and makes the file exactly as long as they need;
// bytes of tokens that are already there stay. Returns where the tokens lie, whose begin depends on
// nothing in `header` but whether it has an `about`: write once with count 1 to learn it, and again
// when all is known; then the mask, which may be anywhere behind the tokens.
TokenRange write_token_header(File& file, const TokenHeader& header);

struct FoundTokens {
  TokenHeader header;
  std::int64_t offset = 0;
  std::int64_t mask_offset = 0;  // if there are mask_bytes()
};

// Refuses, with a sentence, everything that write_token_header would not write, and tokens that do
// not lie wholly inside the file.
FoundTokens read_token_header(File& file);

}  // namespace trireme
