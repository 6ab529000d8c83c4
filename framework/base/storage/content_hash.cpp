#include "framework/base/storage/content_hash.h"

#include <xxhash.h>

#include <array>
#include <cstdio>
#include <new>

namespace trireme {

namespace {

struct Streaming {
  Streaming() : xxh(XXH3_createState()) {
    if (xxh == nullptr) throw std::bad_alloc();
  }
  ~Streaming() { XXH3_freeState(xxh); }
  Streaming(const Streaming&) = delete;
  Streaming& operator=(const Streaming&) = delete;

  XXH3_state_t* xxh;
};

}  // namespace

struct ContentHash::State : Streaming {};
struct BlockHash::State : Streaming {};

ContentHash::ContentHash() : state_(std::make_unique<State>()) { XXH3_128bits_reset(state_->xxh); }
ContentHash::~ContentHash() = default;

void ContentHash::update(const void* data, std::int64_t bytes) {
  XXH3_128bits_update(state_->xxh, data, static_cast<std::size_t>(bytes));
}

std::string ContentHash::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  std::array<char, 33> digits{};
  std::snprintf(digits.data(), digits.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return digits.data();
}

std::uint64_t block_hash(const void* data, std::int64_t bytes) {
  return XXH3_64bits(data, static_cast<std::size_t>(bytes));
}

BlockHash::BlockHash() : state_(std::make_unique<State>()) { XXH3_64bits_reset(state_->xxh); }
BlockHash::~BlockHash() = default;
BlockHash::BlockHash(BlockHash&&) noexcept = default;
BlockHash& BlockHash::operator=(BlockHash&&) noexcept = default;

void BlockHash::update(const void* data, std::int64_t bytes) {
  XXH3_64bits_update(state_->xxh, data, static_cast<std::size_t>(bytes));
}

std::uint64_t BlockHash::value() const { return XXH3_64bits_digest(state_->xxh); }

}  // namespace trireme
