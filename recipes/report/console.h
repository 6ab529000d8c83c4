// The one voice of a run on standard error: a line each step, and on a terminal a live bar below.
//
// Off a terminal there are whole plain lines only: no escapes, no carriage returns. What is
// printed as a line also goes to the log, always plain. The console looks at no environment: main
// says what the terminal is like. One thread; nothing here throws on a broken standard error, but
// a log that cannot be written is an Error.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "recipes/report/line_file.h"

namespace trireme {

struct TerminalTraits {
  bool is_terminal = false;  // isatty of standard error
  bool no_color = false;     // NO_COLOR is set and not empty
  std::string_view term;     // TERM
  int columns = 80;
  // Columns now, for windows whose size changes; empty: `columns`.
  std::function<int()> columns_now = {};

  // A bar may be redrawn in place.
  bool live() const { return is_terminal && term != "dumb"; }
  bool color() const { return live() && !no_color; }
};

class Console {
 public:
  // `log` may be null. Both must outlive the console.
  Console(std::ostream& out, const TerminalTraits& traits, LineFile* log);
  ~Console();  // removes the bar
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // Prints lines (split at line ends) above the bar.
  void line(std::string_view text);
  // The same, dim where colours are: samples.
  void aside(std::string_view text);
  // Draws the bar anew: done of all, and what stands beside it, such as "eta 3m12s". Nothing off a
  // live terminal.
  void bar(std::int64_t done, std::int64_t all, std::string_view beside);
  // Takes the bar away.
  void clear();

 private:
  void print(std::string_view text, bool dim);

  std::ostream& out_;
  TerminalTraits traits_;
  LineFile* log_;
  std::string bar_;  // as drawn now; empty: none
};

// "[=====>      ] 42% eta 3m12s", at most `columns` wide.
std::string bar_text(std::int64_t done, std::int64_t all, std::string_view beside, int columns);

}  // namespace trireme
