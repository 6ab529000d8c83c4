// What was said in a chat. Messages of user and assistant alternate, a user's first; a system
// message stands before them. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "framework/base/json/json.h"

namespace trireme {

struct ChatTurn {
  std::string user, assistant;
  bool answered = false;
};

class ChatLog {
 public:
  std::string system;  // empty: none

  void ask(const std::string& message) { turns_.push_back({message, {}, false}); }
  void answer(const std::string& text);  // of the last message
  void undo() { turns_.pop_back(); }
  void forget() { turns_.clear(); }
  void forget_oldest() { turns_.erase(turns_.begin()); }

  const std::vector<ChatTurn>& turns() const { return turns_; }
  bool empty() const { return turns_.empty(); }

  // For the chat template: system, then all turns; an unanswered one last.
  Json messages() const;
  // Of a model without a template: everything, one behind the other.
  std::string text() const;
  // The inverse of messages(). Error for roles that do not alternate, or what is no text; nothing
  // changes then.
  void take(const Json& messages, const std::string& from);

 private:
  std::vector<ChatTurn> turns_;
};

}  // namespace trireme
