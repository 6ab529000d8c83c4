// Flags of the bench programs: --name=number, and at most one word without a dash.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "framework/base/error.h"

namespace trireme {

class BenchFlags {
 public:
  // Throws UsageError for what is no flag.
  BenchFlags(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      const std::size_t equals = word.find('=');
      if (word.starts_with("--") && equals != std::string::npos) {
        numbers_[word.substr(2, equals - 2)] = word.substr(equals + 1);
      } else if (word.starts_with("-") || !word_.empty()) {
        throw UsageError("what is " + word +
                         "? Flags are --name=number; see the head of the source");
      } else {
        word_ = word;
      }
    }
  }

  const std::string& word() const { return word_; }
  std::int64_t number(const std::string& name, std::int64_t initial) const {
    known_[name] = true;
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) return initial;
    std::size_t used = 0;
    double value = 0;
    try {
      value = std::stod(found->second, &used);  // 2e8 is a number, too
    } catch (const std::exception&) {
    }
    if (used != found->second.size() || value < 1)
      throw UsageError("--" + name + "=" + found->second + " is no number of at least 1");
    return static_cast<std::int64_t>(value);
  }
  // Once all numbers were asked for.
  void expect_no_others() const {
    for (const auto& [name, text] : numbers_)
      if (!known_.contains(name)) throw UsageError("there is no flag --" + name);
  }

 private:
  std::string word_;
  std::map<std::string, std::string> numbers_;
  mutable std::map<std::string, bool> known_;
};

}  // namespace trireme
