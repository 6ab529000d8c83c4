// XXH3-128 of a stream of bytes, as 32 hexadecimal digits: names cached files by their content and
// notices damage. Not a defence against an attacker.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace trireme {

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

}  // namespace trireme
