#include "framework/data/token_seal.h"

#include <cstring>
#include <string>

#include "framework/base/error.h"
#include "framework/base/storage/content_hash.h"

namespace trireme {

namespace {

constexpr std::int64_t kPlace = 512;
constexpr std::int64_t kMostStructures = std::int64_t{1} << 20;
constexpr char kMagic[] = "trireme tokens\n";  // 16 bytes with the final zero

// As it lies in the file, little-endian.
struct Seal {
  char magic[16] = {};
  std::int64_t begin = 0;
  std::int64_t bytes = 0;
  char hash[32] = {};
};
static_assert(sizeof(Seal) == 64);

void hash_range(File& file, ContentHash& hash, std::int64_t begin, std::int64_t end) {
  std::string bytes(static_cast<std::size_t>(end - begin), '\0');
  file.read(bytes.data(), end - begin, begin);
  if (begin <= kPlace && kPlace + static_cast<std::int64_t>(sizeof(Seal)) <= end)
    std::memset(bytes.data() + (kPlace - begin), 0, sizeof(Seal));
  hash.update(bytes.data(), end - begin);
}

// The range takes part, so that its two numbers are sealed too.
std::string hash_outside(File& file, std::int64_t size, const TokenRange& tokens) {
  ContentHash hash;
  hash.update(&tokens.begin, sizeof tokens.begin);
  hash.update(&tokens.bytes, sizeof tokens.bytes);
  hash_range(file, hash, 0, tokens.begin);
  hash_range(file, hash, tokens.begin + tokens.bytes, size);
  return hash.hex();
}

// The tokens come after the seal, inside the file, and what is around them is small.
bool plausible(const TokenRange& tokens, std::int64_t size) {
  return tokens.begin >= kPlace + static_cast<std::int64_t>(sizeof(Seal)) && tokens.bytes >= 0 &&
         tokens.begin <= size && tokens.bytes <= size - tokens.begin &&
         size - tokens.bytes <= kMostStructures;
}

}  // namespace

void seal_token_file(File& file, const TokenRange& tokens) {
  const std::int64_t size = file.size();
  check(plausible(tokens, size), "seal ", file.path(), ": ", tokens.bytes, " bytes of tokens at ",
        tokens.begin, " do not fit into a token file of ", size, " bytes");
  Seal seal;
  std::memcpy(seal.magic, kMagic, sizeof seal.magic);
  seal.begin = tokens.begin;
  seal.bytes = tokens.bytes;
  std::memcpy(seal.hash, hash_outside(file, size, tokens).data(), sizeof seal.hash);
  file.write(&seal, sizeof seal, kPlace);
}

TokenRange check_seal(File& file) {
  const std::string& path = file.path();
  const std::int64_t size = file.size();
  Seal seal;
  const bool present = file.read_some(&seal, sizeof seal, kPlace) == sizeof seal &&
                       std::memcmp(seal.magic, kMagic, sizeof seal.magic) == 0;
  check(present, "token file ", path,
        " was not written by trireme tokenize: it has no seal; HDF5 files of other programs are "
        "not read");
  const TokenRange tokens{seal.begin, seal.bytes};
  const bool whole = plausible(tokens, size) &&
                     hash_outside(file, size, tokens) == std::string(seal.hash, sizeof seal.hash);
  check(whole, "token file ", path,
        " is damaged: its HDF5 structures do not fit their seal; make it again with trireme "
        "tokenize");
  return tokens;
}

}  // namespace trireme
