// Two small tools of the tokenizers' tables: a hash of short byte strings, and a flat map from
// 64-bit keys. No defence against chosen collisions: a table is filled once, from a file whose size
// is bounded, and a bad hash only costs time.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace trireme {

inline std::uint64_t mix_hash(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a ^ 0x9E3779B97F4A7C15) * (b ^ 0xD6E8FEB86659FD93);
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline std::uint64_t hash_text_bytes(std::string_view text) {
  const char* p = text.data();
  std::size_t left = text.size();
  const auto load = [](const char* from, std::size_t bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, bytes);
    return word;
  };
  std::uint64_t hash = left;
  for (; left > 16; left -= 16, p += 16) hash = mix_hash(load(p, 8) ^ hash, load(p + 8, 8));
  if (left >= 8) return mix_hash(load(p, 8) ^ hash, load(p + left - 8, 8));
  if (left >= 4) return mix_hash(load(p, 4) ^ hash, load(p + left - 4, 4));
  if (left > 0)
    return mix_hash(hash, load(p, 1) | load(p + left / 2, 1) << 8 | load(p + left - 1, 1) << 16);
  return mix_hash(hash, 0);
}

// Open addressing, at most half full. The key kNone cannot be stored.
template <typename Value>
class FlatMap {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  explicit FlatMap(std::size_t expected = 0) { resize(expected); }

  // Replaces the value of a key that is there.
  void set(std::uint64_t key, Value value) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place_of(key)];
    count_ += slot.key == kNone;
    slot = {key, value};
  }

  // Null if it is not there.
  const Value* find(std::uint64_t key) const {
    const Slot& slot = slots_[place_of(key)];
    return slot.key == kNone ? nullptr : &slot.value;
  }

  std::size_t size() const { return count_; }

 private:
  struct Slot {
    std::uint64_t key = kNone;
    Value value{};
  };

  std::size_t place_of(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = static_cast<std::size_t>(mix_hash(key, 0)) & mask;
    while (slots_[at].key != kNone && slots_[at].key != key) at = (at + 1) & mask;
    return at;
  }

  void resize(std::size_t expected) {
    std::size_t size = 8;
    while (size < 2 * (expected + 1)) size *= 2;
    slots_.assign(size, Slot{});
    count_ = 0;
  }

  void grow() {
    std::vector<Slot> old = std::move(slots_);
    resize(old.size());
    for (const Slot& slot : old)
      if (slot.key != kNone) set(slot.key, slot.value);
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

}  // namespace trireme
