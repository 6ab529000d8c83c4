// One long text to ids, piece by piece, on several threads, with the ids of the whole text: it is
// cut only where its tokenizer says that a cut changes nothing (Tokenizer::cut_before). Where no
// such place is found for long, the text waits in memory and one thread encodes it whole.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/tokenizer.h"

namespace trireme {

// One caller at a time. Memory: about 2 MiB of text a thread and its ids, and 2 MiB of cache.
class ParallelEncoder {
 public:
  ParallelEncoder(const Tokenizer& tokenizer, int threads);

  // Takes the next piece of the text, of any size, and appends the ids that are ready.
  void add(std::string_view piece, std::vector<std::int32_t>& ids);
  // The rest. Then a new text may begin.
  void finish(std::vector<std::int32_t>& ids);

 private:
  struct Part {
    std::string_view text;
    bool continues = false;
    std::vector<std::int32_t> ids;
  };
  void encode(bool all, std::vector<std::int32_t>& ids);
  std::vector<Part> parts(bool all) const;
  void encode_parts(std::vector<Part>& parts);

  const Tokenizer& tokenizer_;
  std::vector<std::unique_ptr<Encoder>> encoders_;  // one a thread
  std::string waiting_;
  bool began_ = false;  // some of the text has been encoded
  std::size_t enough_;  // bytes that are worth a look
};

}  // namespace trireme
