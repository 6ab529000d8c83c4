#include <algorithm>

#include "framework/base/error.h"
#include "framework/data/tokenizer.h"
#include "framework/data/tokenizers/load_tokenizer.h"

namespace trireme {

namespace {

class ByteEncoder final : public Encoder {
 public:
  void encode(std::string_view text, std::vector<std::int32_t>& ids,
              const EncodeOptions&) override {
    const auto* begin = reinterpret_cast<const unsigned char*>(text.data());
    ids.insert(ids.end(), begin, begin + text.size());
  }
};

class ByteTokenizer final : public Tokenizer {
 public:
  ByteTokenizer() {
    for (int byte = 0; byte < 256; ++byte) all_ += static_cast<char>(byte);
  }

  std::string name() const override { return "bytes"; }
  std::int64_t vocabulary() const override { return 256; }
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<ByteEncoder>(); }
  std::size_t cut_before(std::string_view text, std::size_t limit) const override {
    return std::min(limit, text.size());
  }

  std::string decode(const std::vector<std::int32_t>& ids, bool) const override {
    std::string text;
    text.reserve(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      check(ids[i] >= 0 && ids[i] < 256, "decode: id ", ids[i], " at position ", i,
            " is not a byte; the tokenizer \"bytes\" has ids 0 to 255");
      text += static_cast<char>(ids[i]);
    }
    return text;
  }
  TokenPiece piece(std::int64_t id, bool) const override {
    return {said(id), TokenPiece::Kind::kBytes};
  }

  std::optional<std::int32_t> id_of(std::string_view token) const override {
    if (token.size() != 1) return std::nullopt;
    return static_cast<unsigned char>(token[0]);
  }
  std::string token_of(std::int64_t id) const override { return std::string(said(id)); }
  bool is_special(std::int64_t) const override { return false; }
  const TokenizerSettings& settings() const override { return settings_; }

 private:
  std::string_view said(std::int64_t id) const {
    return id < 0 || id > 255 ? std::string_view()
                              : std::string_view(all_).substr(static_cast<std::size_t>(id), 1);
  }

  std::string all_;
  TokenizerSettings settings_;
};

}  // namespace

void Tokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids,
                       const EncodeOptions& options) const {
  encoder()->encode(text, ids, options);
}

std::unique_ptr<Tokenizer> byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name, Files& files) {
  if (name == "bytes") return byte_tokenizer();
  std::string file = name;
  FileKind kind = files.status(file).kind;
  if (kind == FileKind::kDirectory) {
    file = path_join(name, "tokenizer.json");
    kind = files.status(file).kind;
    const bool other = files.exists(path_join(name, "tokenizer.model"));
    check(kind == FileKind::kFile, "data.tokenizer = ", name, ": the folder has no tokenizer.json",
          other ? ", but a tokenizer.model, of which transformers' AutoTokenizer makes one "
                  "(from_pretrained, then save_pretrained)"
                : "");
  }
  check(kind == FileKind::kFile, "data.tokenizer = ", name,
        ": neither \"bytes\" nor a tokenizer.json or a folder with one");
  return load_tokenizer(files, file);
}

}  // namespace trireme
