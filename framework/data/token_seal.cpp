#include "framework/data/token_seal.h"

#include <cstring>
#include <string>

#include "framework/base/error.h"
#include "framework/base/storage/content_hash.h"

namespace trireme {

namespace {

constexpr std::int64_t kPlace = 512;
constexpr std::int64_t kMostStructures = std::int64_t{1} << 20;
constexpr char kMagic[] = "trireme tokens\n";       // 16 bytes with the final zero
constexpr char kMaskedMagic[] = "trireme tokens2";  // the mask's two numbers are there, too

// As it lies in the file, little-endian.
struct Seal {
  char magic[16] = {};
  std::int64_t begin = 0;
  std::int64_t bytes = 0;
  char hash[32] = {};
  std::int64_t mask_begin = 0;
  std::int64_t mask_bytes = 0;
};
static_assert(sizeof(Seal) == 80);
constexpr std::int64_t kPlain = 64;  // bytes of a seal without mask

std::int64_t seal_bytes(bool masked) { return masked ? std::int64_t{sizeof(Seal)} : kPlain; }

// The first `seal` bytes at kPlace count as zeros.
void hash_range(File& file, ContentHash& hash, std::int64_t begin, std::int64_t end,
                std::int64_t seal) {
  std::string bytes(static_cast<std::size_t>(end - begin), '\0');
  file.read(bytes.data(), end - begin, begin);
  if (begin <= kPlace && kPlace + seal <= end)
    std::memset(bytes.data() + (kPlace - begin), 0, static_cast<std::size_t>(seal));
  hash.update(bytes.data(), end - begin);
}

// The range takes part, so that its two numbers are sealed too.
std::string hash_outside(File& file, std::int64_t size, const TokenRange& tokens) {
  ContentHash hash;
  hash.update(&tokens.begin, sizeof tokens.begin);
  hash.update(&tokens.bytes, sizeof tokens.bytes);
  const bool masked = tokens.mask_bytes > 0;
  const std::int64_t seal = seal_bytes(masked);
  hash_range(file, hash, 0, tokens.begin, seal);
  if (!masked) {
    hash_range(file, hash, tokens.begin + tokens.bytes, size, seal);
    return hash.hex();
  }
  hash.update(&tokens.mask_begin, sizeof tokens.mask_begin);
  hash.update(&tokens.mask_bytes, sizeof tokens.mask_bytes);
  hash_range(file, hash, tokens.begin + tokens.bytes, tokens.mask_begin, seal);
  hash_range(file, hash, tokens.mask_begin + tokens.mask_bytes, size, seal);
  return hash.hex();
}

// The tokens come after the seal, the mask after them, all inside the file, and what is around them
// is small.
bool plausible(const TokenRange& t, std::int64_t size) {
  const bool tokens = t.begin >= kPlace + seal_bytes(t.mask_bytes > 0) && t.bytes >= 0 &&
                      t.begin <= size && t.bytes <= size - t.begin;
  const bool mask =
      t.mask_bytes == 0 || (t.mask_bytes > 0 && tokens && t.mask_begin >= t.begin + t.bytes &&
                            t.mask_begin <= size && t.mask_bytes <= size - t.mask_begin);
  return tokens && mask && size - t.bytes - t.mask_bytes <= kMostStructures;
}

}  // namespace

void seal_token_file(File& file, const TokenRange& tokens) {
  const std::int64_t size = file.size();
  check(plausible(tokens, size), "seal ", file.path(), ": ", tokens.bytes, " bytes of tokens at ",
        tokens.begin, " do not fit into a token file of ", size, " bytes");
  Seal seal;
  const bool masked = tokens.mask_bytes > 0;
  std::memcpy(seal.magic, masked ? kMaskedMagic : kMagic, sizeof seal.magic);
  seal.begin = tokens.begin;
  seal.bytes = tokens.bytes;
  seal.mask_begin = tokens.mask_begin;
  seal.mask_bytes = tokens.mask_bytes;
  std::memcpy(seal.hash, hash_outside(file, size, tokens).data(), sizeof seal.hash);
  file.write(&seal, seal_bytes(masked), kPlace);
}

TokenRange check_seal(File& file) {
  const std::string& path = file.path();
  const std::int64_t size = file.size();
  Seal seal;
  const std::int64_t got = file.read_some(&seal, sizeof seal, kPlace);
  const bool masked = got == static_cast<std::int64_t>(sizeof seal) &&
                      std::memcmp(seal.magic, kMaskedMagic, sizeof seal.magic) == 0;
  const bool present =
      masked || (got >= kPlain && std::memcmp(seal.magic, kMagic, sizeof seal.magic) == 0);
  if (!masked) seal.mask_begin = seal.mask_bytes = 0;
  check(present, "token file ", path,
        " was not written by trireme tokenize: it has no seal; HDF5 files of other programs are "
        "not read");
  const TokenRange tokens{seal.begin, seal.bytes, seal.mask_begin, seal.mask_bytes};
  const bool whole = (seal.mask_bytes > 0) == masked && plausible(tokens, size) &&
                     hash_outside(file, size, tokens) == std::string(seal.hash, sizeof seal.hash);
  check(whole, "token file ", path,
        " is damaged: its HDF5 structures do not fit their seal; make it again with trireme "
        "tokenize");
  return tokens;
}

}  // namespace trireme
