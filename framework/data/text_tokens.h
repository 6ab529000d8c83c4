// From a text file to a token file: once by name (trireme tokenize), or behind the scenes into a
// cache (data.text = FILE). The file is one text, or has documents in lines of JSON
// (framework/data/records.h): that is told by its first lines. It may be packed by gzip or zstd.
//
// Several files of one kind (framework/data/text_files.h) follow each other: of plain texts each is
// a document then, with the tokenizer's end-of-text token behind it, if it has one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/data/conversation.h"
#include "framework/data/records.h"
#include "framework/data/tokenizer.h"

namespace trireme {

struct TokenizeReport {
  std::string input;  // of several files, how many and which
  std::string output;
  std::string tokenizer;
  std::string type;  // of a stored token: "u8", "u16", "i32"
  std::string text_hash;
  std::int64_t text_bytes = 0;
  std::int64_t tokens = 0;
  std::int64_t vocabulary = 0;
  std::int64_t trained = 0;  // tokens that count as labels
  std::string about;         // of documents: "JSON lines, 1,204 documents"; else empty
  std::string first_bad;     // the sentence of the first line that was passed over
};

// XXH3-128 of a text file, in pieces. Refuses what is not text: missing, a directory, empty, or
// with a NUL byte (the sentence has offset and line). Any other byte is allowed.
std::string hash_text(Files& files, const std::string& path);

struct TokenizeOptions {
  int threads = 1;
  // Called now and then from the calling thread: bytes of the text that were read, and all of them.
  std::function<void(std::int64_t done, std::int64_t all)> progress = {};
  // Of conversations only: Error for others. Empty: all answers of a conversation.
  std::optional<LossOn> loss_on = {};
  bool skip_bad = false;  // pass over lines that are no records; else the first is an Error
};

// Reads the texts `inputs`, at least one, and writes the token file `output` (replaced atomically
// if it is there; its folder must exist). Refuses what hash_text refuses. A full disk or a read
// error leaves an older `output` untouched. The ids are those of the whole text at once, with its
// added tokens
// ("<|endoftext|>") and without what a tokenizer puts around a text, whatever the threads.
TokenizeReport tokenize_files(Files& files, const std::vector<std::string>& inputs,
                              const std::string& output, const Tokenizer& tokenizer,
                              const TokenizeOptions& options = {});
TokenizeReport tokenize_file(Files& files, const std::string& input, const std::string& output,
                             const Tokenizer& tokenizer, const TokenizeOptions& options = {});

struct CachedTokens {
  std::string path;  // of the token file
  bool reused = false;
  std::string note;  // sentences worth logging, or empty: a damaged cache, a line passed over
};

// The token file of `texts` in the cache folder (made if missing): its name is the hash of the text
// (of several: of their hashes) and the tokenizer, and of documents also that of the options and
// the chat template, so a changed text, or another order, is another file. One already there is
// verified whole and reused, or rebuilt if it is damaged. Several processes may do this at once:
// each writes its own temporary file, the last rename wins, all have the same bytes. In a run, let
// one rank do it.
CachedTokens cached_tokens(Files& files, const std::vector<std::string>& texts,
                           const std::string& cache_folder, const Tokenizer& tokenizer,
                           const TokenizeOptions& options = {});
CachedTokens cached_tokens(Files& files, const std::string& text, const std::string& cache_folder,
                           const Tokenizer& tokenizer, const TokenizeOptions& options = {});
// What all texts are. Error that names two files which are not of one kind.
RecordForm form_of(Files& files, const std::vector<std::string>& texts);

}  // namespace trireme
