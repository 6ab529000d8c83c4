// Text that knows where each of its bytes comes from: the template, or a value that a user gave.
//
// A tokenizer may turn "<|im_end|>" into a control id only where the template wrote it. So every
// operation on text carries the origin of its bytes along.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace trireme::jinja {

enum class Origin : char { kTemplate, kUser };

class Text {
 public:
  Text() = default;
  Text(std::string bytes, Origin origin)
      : bytes_(std::move(bytes)), origins_(bytes_.size(), static_cast<char>(origin)) {}

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  Origin origin(std::size_t at) const { return static_cast<Origin>(origins_[at]); }

  Text part(std::size_t begin, std::size_t count) const {
    return Text(bytes_.substr(begin, count), origins_.substr(begin, count));
  }
  void append(const Text& other) {
    bytes_ += other.bytes_;
    origins_ += other.origins_;
  }
  void append(std::string_view bytes, Origin origin) {
    bytes_ += bytes;
    origins_.append(bytes.size(), static_cast<char>(origin));
  }
  // The same bytes changed in place, one for one (upper case, say).
  template <typename Change>
  Text changed(const Change& change) const {
    Text out = *this;
    for (char& c : out.bytes_) c = change(c);
    return out;
  }
  bool operator==(const Text& other) const { return bytes_ == other.bytes_; }

 private:
  Text(std::string bytes, std::string origins)
      : bytes_(std::move(bytes)), origins_(std::move(origins)) {}

  std::string bytes_;
  std::string origins_;  // of each byte
};

}  // namespace trireme::jinja
