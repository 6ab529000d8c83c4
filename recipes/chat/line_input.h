// Where a chat gets its lines from: a person at a terminal (line_editor.h), or a pipe.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "recipes/chat/interrupts.h"

namespace trireme {

struct InputRead {
  enum class Kind : std::uint8_t {
    kLine,       // text, without its end
    kEnd,        // there is no more
    kInterrupt,  // Ctrl-C
    kTerminate,  // the program is told to end
  };
  Kind kind = Kind::kEnd;
  std::string text = {};
  bool was_empty = true;  // kInterrupt: nothing was typed
};

class LineInput {
 public:
  virtual ~LineInput() = default;
  // `first` is there to be edited, where that is possible.
  virtual InputRead read(const std::string& prompt, const std::string& first) = 0;
  // A message that may be called back.
  virtual void remember(const std::string&) {}
};

// Lines of a file descriptor. `idle` is called about twice a second while it waits.
std::unique_ptr<LineInput> piped_lines(int descriptor, Interrupts& interrupts,
                                       std::function<void()> idle);

}  // namespace trireme
