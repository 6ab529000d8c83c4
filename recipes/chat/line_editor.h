// A line editor on a terminal (libedit): history, UTF-8, and what is pasted as one piece, with its
// line ends (bracketed paste). It never handles a signal and leaves the terminal as it was found
// between two lines, at its end, and, through put_back(), whenever somebody else ends the program.
//
// One thread, but for put_back(). libedit writes to C streams: flush others before.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "recipes/chat/line_input.h"

namespace trireme {

class TerminalInput : public LineInput {
 public:
  // Any thread, any time: the modes of the terminal as they were before this was made, and no
  // bracketed paste. Waits for nothing.
  virtual void put_back() = 0;
};

struct EditorOptions {
  std::vector<std::string> history = {};  // oldest first
  std::function<void()> idle = {};        // called about twice a second while it waits
  bool prints_on_error = false;  // prompts go to standard error, as standard output is no terminal
};

// Of standard input, which must be a terminal. Error if the terminal tells nothing of itself.
std::unique_ptr<TerminalInput> terminal_lines(Interrupts& interrupts, EditorOptions options);

}  // namespace trireme
