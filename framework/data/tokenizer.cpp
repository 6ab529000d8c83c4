#include "framework/data/tokenizer.h"

#include "framework/base/error.h"

namespace trireme {

namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  std::string name() const override { return "bytes"; }
  std::int64_t vocabulary() const override { return 256; }

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    const auto* begin = reinterpret_cast<const unsigned char*>(text.data());
    ids.insert(ids.end(), begin, begin + text.size());
  }

  std::string decode(const std::vector<std::int32_t>& ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      check(ids[i] >= 0 && ids[i] < 256, "decode: id ", ids[i], " at position ", i,
            " is not a byte; the tokenizer \"bytes\" has ids 0 to 255");
      text += static_cast<char>(ids[i]);
    }
    return text;
  }
};

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name) {
  check(name == "bytes", "data.tokenizer = ", name, ": not a known tokenizer; use bytes");
  return std::make_unique<ByteTokenizer>();
}

}  // namespace trireme
