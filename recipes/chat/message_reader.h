// Messages of several lines, from the lines that are typed or piped:
// - a line that ends with a backslash goes on with the next one;
// - """ at the beginning of a line opens a block, """ at the end of a line closes it; what is
//   between is one message, as it stands.
// One thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace trireme {

struct ChatMessage {
  std::string text;
  bool verbatim = false;  // from a block: never a command
};

class MessageReader {
 public:
  // One line without its end, or several that were pasted at once. The message, if it is whole.
  std::optional<ChatMessage> line(std::string_view text);
  // The end of the input: what is open counts as whole; nothing if there is nothing.
  std::optional<ChatMessage> end();
  // Forgets what is open.
  void clear();
  bool open() const { return block_ || begun_; }

 private:
  std::optional<ChatMessage> take();

  std::string text_;
  bool block_ = false;  // between """ and """
  bool begun_ = false;  // behind a backslash
};

}  // namespace trireme
