// The texts of token ids, both ways: all texts in one piece of memory, and a flat table from text
// to id. About 30 bytes a token beside its text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class TokenTable {
 public:
  explicit TokenTable(std::size_t tokens = 0);

  // `id` >= 0. False, and nothing happens, if the id or the text is there already.
  bool add(std::int32_t id, std::string_view text);

  // One more than the largest id. Ids below it may be missing.
  std::int64_t end() const { return static_cast<std::int64_t>(places_.size()); }
  std::int64_t count() const { return count_; }
  // -1 if there is none.
  std::int32_t find(std::string_view text) const;
  bool has(std::int64_t id) const {
    return id >= 0 && id < end() && places_[static_cast<std::size_t>(id)].begin != kMissing;
  }
  // Valid until the next add(); empty for a missing id.
  std::string_view text(std::int64_t id) const;

 private:
  static constexpr std::uint32_t kMissing = ~std::uint32_t{0};
  struct Place {
    std::uint32_t begin = kMissing, size = 0;
  };
  std::size_t slot_of(std::string_view text) const;
  void grow();

  std::string texts_;
  std::vector<Place> places_;
  std::vector<std::int32_t> slots_;  // ids, -1: free
  std::int64_t count_ = 0;
};

}  // namespace trireme
