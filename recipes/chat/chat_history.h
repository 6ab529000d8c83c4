// What was typed in earlier chats, for the line editor: a file for its owner only (0600), a JSON
// string a line, the newest last. Every message is there before it is answered. When the file has
// grown to twice what is kept, the older half goes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/base/files.h"

namespace trireme {

class ChatHistory {
 public:
  static constexpr std::size_t kKept = 1000;  // messages

  // An empty path keeps nothing. Throws Error if the file cannot be read or written.
  ChatHistory(Files& files, std::string path);

  // Of earlier chats, oldest first, at most kKept. Lines that are no strings are passed over.
  const std::vector<std::string>& earlier() const { return earlier_; }
  void add(const std::string& message);

 private:
  void write_all();

  Files& files_;
  std::string path_;
  std::vector<std::string> earlier_;
  std::unique_ptr<File> file_;
};

}  // namespace trireme
