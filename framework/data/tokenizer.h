// Text to token ids and back.
//
// A tokenizer is "bytes" (each byte is its own id), or comes from the tokenizer.json of a Hugging
// Face model folder: byte-level BPE and SentencePiece-like BPE, with the ids that the `tokenizers`
// package gives (docs/tokenizers.md lists what is read; anything else in the file is refused).
//
// Text need not be UTF-8: wrong bytes go through as they are where the vocabulary has bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "framework/base/files.h"

namespace trireme {

// Which added tokens ("<|im_end|>", ...) become their own id where a text spells them. What a
// stranger wrote must not make control ids: encode that with kNone.
enum class AddedTokens : std::uint8_t {
  kAll,
  kOrdinary,  // all but special ones; `encode_special_tokens` of the `tokenizers` package
  kNone,
};

struct EncodeOptions {
  AddedTokens added = AddedTokens::kAll;
  bool ends = false;       // also the ids that the file puts around a text (begin, end of text)
  bool continues = false;  // the text goes on from a cut_before(): nothing is put in front of it
  // A byte a byte of the text: not 0 where a stranger wrote it. No added token is found there, nor
  // in part there; else the ids are those of the whole text. Empty: a stranger wrote nothing.
  std::string_view strangers = {};
};

// What a model folder says beside the tokens. All empty for "bytes".
struct TokenizerSettings {
  std::optional<std::int32_t> bos, eos, pad, unk;
  std::optional<bool> add_bos, add_eos;  // as tokenizer_config.json has them
  // Templates of a conversation (Jinja) by name; one without name is "default".
  std::vector<std::pair<std::string, std::string>> chat_templates;
  std::optional<std::int64_t> longest_text;  // model_max_length, if it is a sane number
};

// Encodes many texts for one thread: it keeps a cache of words (2 MiB).
class Encoder {
 public:
  virtual ~Encoder() = default;
  // Appends the ids of `text`.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids,
                      const EncodeOptions& options = {}) = 0;
};

// What one id says. Valid as long as the tokenizer.
struct TokenPiece {
  enum class Kind : std::uint8_t {
    kText,   // UTF-8
    kBytes,  // a part of the text's bytes; may end inside a character
    kByte,   // a single byte, standing in for a character without a token
  };
  std::string_view text;
  Kind kind = Kind::kText;
};

// Immutable; may be used from any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Names the content, so that caches can have it in their keys: "bytes", "bpe-<32 hex digits>".
  virtual std::string name() const = 0;
  // All ids are in [0, vocabulary()); some of them may mean nothing.
  virtual std::int64_t vocabulary() const = 0;

  // One per thread; the tokenizer must outlive it.
  virtual std::unique_ptr<Encoder> encoder() const = 0;
  // Appends the ids of `text`: one call of a new encoder().
  void encode(std::string_view text, std::vector<std::int32_t>& ids,
              const EncodeOptions& options = {}) const;
  // The largest `at` <= limit where `text` may be cut: the ids of text[0, at) followed by those of
  // text[at, ...) with `continues` are those of the whole. 0 if none is found near the limit.
  virtual std::size_t cut_before(std::string_view text, std::size_t limit) const = 0;

  // The text of ids, as the `tokenizers` package gives it: UTF-8 with U+FFFD for what is none
  // ("bytes" gives the bytes). Error for an id outside [0, vocabulary()); ids without meaning are
  // passed over.
  virtual std::string decode(const std::vector<std::int32_t>& ids,
                             bool skip_special = false) const = 0;
  // Empty for an id without meaning or outside the vocabulary. `first`: nothing came before it.
  virtual TokenPiece piece(std::int64_t id, bool first) const = 0;
  // How many blanks the beginning of a text loses.
  virtual int leading_blanks_dropped() const { return 0; }
  // Does a blank come between two tokens of a decoded text?
  virtual bool separates() const { return false; }

  // As the vocabulary spells it (byte-level ones in their alphabet).
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;
  // Empty for an id without meaning or outside the vocabulary.
  virtual std::string token_of(std::int64_t id) const = 0;
  virtual bool is_special(std::int64_t id) const = 0;
  virtual const TokenizerSettings& settings() const = 0;
};

// Ids to text as they come. Deltas are whole UTF-8 and together the decoded text: bytes wait for
// the rest of their character. Where a stand-in byte turns out to be wrong, only the bytes that
// still waited become U+FFFD.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(const Tokenizer& tokenizer, bool skip_special = false)
      : tokenizer_(tokenizer),
        skip_special_(skip_special),
        blanks_(tokenizer.leading_blanks_dropped()) {}

  // What can be said now; often empty. Error for an id outside the vocabulary.
  std::string push(std::int32_t id);
  // The rest: U+FFFD for bytes that never became a character.
  std::string finish();

 private:
  std::string settle(bool all);
  std::string without_blanks(std::string text);

  const Tokenizer& tokenizer_;
  bool skip_special_;
  bool first_ = true;
  int blanks_;           // still to be dropped
  std::string waiting_;  // bytes
  bool stand_ins_ = false;
};

// "bytes", or the path of a tokenizer.json or of the folder that has one. Error for anything else.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name, Files& files);
std::unique_ptr<Tokenizer> byte_tokenizer();

}  // namespace trireme
