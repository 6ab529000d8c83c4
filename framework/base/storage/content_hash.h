// Hashes that notice damage and name cached files by their content. No defence against an attacker.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace trireme {

// XXH3-128 of a stream of bytes, as 32 hexadecimal digits.
class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  void update(const void* data, std::int64_t bytes);
  std::string hex() const;  // of everything so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// XXH3-64: for blocks of a file of which there may be millions.
std::uint64_t block_hash(const void* data, std::int64_t bytes);

// The same of bytes that come piece by piece.
class BlockHash {
 public:
  BlockHash();
  ~BlockHash();
  BlockHash(BlockHash&&) noexcept;
  BlockHash& operator=(BlockHash&&) noexcept;

  void update(const void* data, std::int64_t bytes);
  std::uint64_t value() const;  // of everything so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
