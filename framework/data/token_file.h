// Token datasets on disk: HDF5 files with one contiguous dataset "tokens" (u8, u16 or i32, the
// narrowest that holds the vocabulary), written once and then mapped. Everything about them is
// checked before it is believed: foreign, truncated and damaged files are refused with a sentence.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/base/storage/content_hash.h"
#include "framework/data/token_header.h"

namespace trireme {

// An open token file. Immutable: one object serves all ranks of a process.
class TokenFile {
 public:
  // Reads the description and maps the tokens. With `verify`, also reads all tokens once: their
  // hash must be the stored one and every id must be inside the file's own vocabulary.
  static std::shared_ptr<const TokenFile> open(Files& files, const std::string& path,
                                               bool verify = true);

  const std::string& path() const { return path_; }
  const TokenHeader& header() const { return found_.header; }
  std::int64_t count() const { return found_.header.count; }

  // Tokens [begin, begin + count) into `ids`. Error if outside the file, or for an id that is not
  // in [0, vocabulary): the sentence has its position.
  void copy(std::int64_t begin, std::int64_t count, std::int64_t vocabulary,
            std::int32_t* ids) const;
  // Does the token at `position` count as a label? All do in a file without a mask.
  bool trained(std::int64_t position) const;
  // Does a document begin with the token at `position`? Only of a file that is bounded, else Error.
  bool begins_document(std::int64_t position) const;

 private:
  TokenFile(std::string path, FoundTokens found, std::unique_ptr<Mapping> tokens,
            std::unique_ptr<Mapping> mask)
      : path_(std::move(path)),
        found_(std::move(found)),
        tokens_(std::move(tokens)),
        mask_(std::move(mask)) {}
  void verify() const;
  bool bit(std::int64_t from, std::int64_t position) const;
  // Of the mask within the marks.
  std::int64_t mask_at() const { return header().bounded ? header().bit_bytes() : 0; }

  std::string path_;
  FoundTokens found_;
  std::unique_ptr<Mapping> tokens_;
  std::unique_ptr<Mapping> mask_;  // null: all tokens count, and no document is marked
};

enum class TokensOf : std::uint8_t { kText, kDocuments };

// Writes a token file piece by piece under a temporary name; finish() renames it into place.
// Destroyed before, it leaves nothing. Memory: about 1 MiB, whatever the number of tokens, and two
// bits a token of documents.
class TokenWriter {
 public:
  TokenWriter(Files& files, const std::string& path, const std::string& tokenizer,
              std::int64_t vocabulary, TokensOf of = TokensOf::kText);

  // Error for an id outside the vocabulary, with its position.
  void add(const std::vector<std::int32_t>& ids);
  // The same of a document; `trained` has a byte a token: 0 where it does not count as a label.
  void add(const std::vector<std::int32_t>& ids, const std::vector<std::uint8_t>& trained);
  std::int64_t count() const { return header_.count; }
  // Error if no token was added. `about` and `documents` for kDocuments only, see
  // TokenHeader.
  void finish(const std::string& text_hash, const std::string& about = {},
              std::int64_t documents = 0);
  std::int64_t trained() const { return header_.trained; }

 private:
  void flush();

  std::string path_;
  AtomicFile atomic_;
  TokenHeader header_;
  ContentHash hash_;
  std::int64_t offset_ = 0;   // of the first token
  std::int64_t written_ = 0;  // bytes of tokens
  std::vector<std::byte> buffer_;
  std::vector<std::uint8_t> mask_, begins_;  // bits; as far as the last document
};

}  // namespace trireme
