// The records of a file of JSON lines as tokens, document after document, on several threads; the
// same whatever their number.
//
// A text is followed by the tokenizer's end-of-text token, where it has one; a conversation is as
// its template writes it (ConversationEncoder).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/data/conversation.h"
#include "framework/data/records.h"
#include "framework/data/tokenizer.h"

namespace trireme {

struct RecordOptions {
  RecordForm form = RecordForm::kText;
  LossOn loss_on = LossOn::kAll;
  bool skip_bad = false;  // pass over bad lines; else the first one is an Error
  int threads = 1;
  std::function<void(std::int64_t done, std::int64_t all)> progress = {};  // bytes of the file
};

struct RecordCounts {
  std::int64_t documents = 0;
  std::int64_t bad = 0;            // lines passed over
  std::string first_bad;           // its sentence
  std::vector<std::string> roles;  // of conversations, as they come first
  std::string text_hash;           // XXH3-128 of the text, unpacked
  std::int64_t text_bytes = 0;

  // Of the next file; the hash is that file's.
  void add(const RecordCounts& next);
};

// Error if there is no document at all.
RecordCounts encode_records(Files& files, const std::string& path, const Tokenizer& tokenizer,
                            const RecordOptions& options,
                            const std::function<void(const DocumentTokens&)>& take);

// "chat (messages), 1,204 conversations, roles system/user/assistant, 2 bad lines passed over"; at
// most 160 bytes.
std::string about_records(RecordForm form, const RecordCounts& counts);

}  // namespace trireme
