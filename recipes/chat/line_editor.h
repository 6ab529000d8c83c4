// A line editor on a terminal (libedit): history, UTF-8, and what is pasted as one piece, with its
// line ends (bracketed paste). It never handles a signal. The terminal is its own from the first
// line to its end (terminal_modes.h), so what is typed between two lines is there for the next;
// through put_back() and take() somebody else gives it away meanwhile. What is typed behind the
// last line stays in the terminal, for the program that reads it next.
//
// One thread, but for those two. libedit writes to C streams: flush others before.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "recipes/chat/completion.h"
#include "recipes/chat/line_input.h"

namespace trireme {

class TerminalInput : public LineInput {
 public:
  // Any thread, any time, waiting for nothing: the terminal as it was before this was made, and
  // again this one's (not in the background).
  virtual void put_back() = 0;
  virtual void take() = 0;
};

struct EditorOptions {
  std::vector<std::string> history = {};  // oldest first
  std::function<void()> idle = {};        // called about twice a second while it waits
  // What Tab inserts behind a line's text up to the cursor, or shows below it. Empty: nothing.
  std::function<Completion(std::string_view line)> complete = {};
  bool prints_on_error = false;  // prompts go to standard error, as standard output is no terminal
};

// Of standard input, which must be a terminal. Error if the terminal tells nothing of itself.
std::unique_ptr<TerminalInput> terminal_lines(Interrupts& interrupts, EditorOptions options);

}  // namespace trireme
