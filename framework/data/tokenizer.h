// Text to token ids and back. Only "bytes" exists yet: each byte is its own id, so any text works
// with a vocabulary of 256.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Immutable; may be used from any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string name() const = 0;  // as data.tokenizer spells it
  virtual std::int64_t vocabulary() const = 0;
  // Appends the ids of `text`, all in [0, vocabulary). Cutting a text elsewhere than between two
  // documents may change the ids (not for "bytes").
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) const = 0;
  // Error for an id outside the vocabulary. The text may not be whole UTF-8.
  virtual std::string decode(const std::vector<std::int32_t>& ids) const = 0;
};

// Error naming the known tokenizers for any other name.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name);

}  // namespace trireme
