// The modes of a terminal while a chat has it: keys come one by one and are not shown by the
// terminal, signals are made of keys as before, and a paste is marked as one (bracketed paste).
// They hold from its first line to its end, not only while a line is read: what is typed
// while an answer is made waits in the terminal, unseen and unchanged, and nothing is lost between
// two modes. (A terminal that collects lines makes a mark of Ctrl-D, which nobody finds who reads
// keys later.)
//
// take() and put_back() may be called from any thread at any time and wait for nothing; the others
// belong to one thread.
#pragma once

#include <sys/types.h>
#include <termios.h>

#include <atomic>
#include <cstddef>

namespace trireme {

class TerminalModes {
 public:
  // `in`: where keys come from, `out`: the terminal where they are seen. Takes nothing yet. Error
  // if the terminal tells nothing of itself.
  TerminalModes(int in, int out);
  ~TerminalModes() { put_back(); }
  TerminalModes(const TerminalModes&) = delete;
  TerminalModes& operator=(const TerminalModes&) = delete;

  // Both do nothing in the background, where the terminal is another program's.
  void take();
  // As the terminal was when this was made.
  void put_back();
  bool taken() const { return is_taken_; }

  // As ::read(), of `in`. A Ctrl-D that was typed before take() is a Ctrl-D here too.
  ssize_t read(char* into, std::size_t most);

 private:
  bool in_background() const;
  void write_out(const char* text) const;

  const int in_, out_;
  termios found_{}, taken_{};
  std::atomic<bool> is_taken_{false};
  std::atomic<int> earlier_{0};  // bytes that wait and came before take()
};

}  // namespace trireme
