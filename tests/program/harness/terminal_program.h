// A program on a terminal of its own, which the test types into and reads from.
#pragma once

#include <sys/types.h>
#include <termios.h>

#include <map>
#include <string>
#include <vector>

namespace trireme::testing {

class TerminalProgram {
 public:
  TerminalProgram(const std::vector<std::string>& argv,
                  const std::map<std::string, std::string>& environment);
  ~TerminalProgram();  // kills what still runs
  TerminalProgram(const TerminalProgram&) = delete;
  TerminalProgram& operator=(const TerminalProgram&) = delete;

  void type(const std::string& text) const;
  void signal(int number) const;
  void signal_all(int number) const;  // and its children
  // Reads until the text comes, behind what was waited for before; false if the program ends first,
  // or after 60 s.
  bool until(const std::string& text);
  const std::string& shown() const { return shown_; }
  // Waits until a signal has stopped it; false if it ends instead.
  bool stopped() const;
  // Its exit code, 128 + signal if one ended it; -1 if it does not end.
  int end();
  // After its end: what was typed and nobody read, up to the end of a line.
  std::string left() const;
  // Are the modes of the terminal those from before the program?
  bool modes_are_as_before() const;
  // Waits until they are not: what is typed sooner is echoed by the terminal. False after 60 s.
  bool takes_the_terminal() const;

 private:
  bool more();

  int master_ = -1, slave_ = -1;
  pid_t pid_ = 0;
  termios before_{};
  std::string shown_;
  std::size_t seen_ = 0;
  bool reaped_ = false;
};

}  // namespace trireme::testing
