// A bounded cache from short words to their few ids: 2 MiB, one cache line a word, a newer word
// displaces an older one. Belongs to one caller at a time.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "framework/data/tokenizers/flat_hash.h"

namespace trireme {

class WordCache {
 public:
  static constexpr std::size_t kBytes = 30, kIds = 8;

  // True: the ids of the word were appended.
  bool find(std::string_view word, std::vector<std::int32_t>& ids) {
    if (word.size() > kBytes || !ready()) return false;
    const Line& line = lines_[place_of(word)];
    if (line.size != word.size() || std::memcmp(line.word.data(), word.data(), word.size()) != 0)
      return false;
    ids.insert(ids.end(), line.ids.begin(), line.ids.begin() + line.count);
    return true;
  }

  void keep(std::string_view word, const std::int32_t* ids, std::size_t count) {
    if (word.size() > kBytes || count > kIds || lines_.empty()) return;
    Line& line = lines_[place_of(word)];
    line.size = static_cast<std::uint8_t>(word.size());
    line.count = static_cast<std::uint8_t>(count);
    std::memcpy(line.word.data(), word.data(), word.size());
    std::memcpy(line.ids.data(), ids, count * sizeof *ids);
  }

 private:
  static constexpr std::size_t kLines = std::size_t{1} << 15;
  static constexpr int kWordsWithout = 200;  // a short text is not worth the memory
  struct alignas(64) Line {
    std::uint8_t size = 0;  // 0: free; words are not empty
    std::uint8_t count = 0;
    std::array<char, kBytes> word;
    std::array<std::int32_t, kIds> ids;
  };

  bool ready() {
    if (!lines_.empty()) return true;
    if (++words_ > kWordsWithout) lines_.resize(kLines);
    return false;
  }
  static std::size_t place_of(std::string_view word) {
    return static_cast<std::size_t>(hash_text_bytes(word)) & (kLines - 1);
  }

  std::vector<Line> lines_;
  int words_ = 0;
};

}  // namespace trireme
