// Errors and the two kinds of checks.
//
// Every failure that a user can cause is a sentence: the operation, what was expected, what came,
// with the numbers. `check` guards against a caller's mistake and is always on; `assert` guards our
// own invariants. The rank prefix
// "[rank 5: data 0, pipeline 1, tensor 1]" is added once, at the rank boundary, never here.
#pragma once

#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace trireme {

// A failure with a sentence for the user. The program exits with 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A bad flag, key, type or value, found before work begins. The program exits with 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

// What an exception says: its sentence, or for std::bad_alloc that memory ran out. Even when there
// is no memory at all: then just "out of memory".
std::string reason_of(const std::exception& error) noexcept;
std::string reason_of(const std::exception_ptr& error) noexcept;
// into = text, or "out of memory" when there is none for it.
void remember(std::string& into, const std::string& text) noexcept;

// Concatenates the parts as operator<< prints them: join("linear: x has ", 768, " columns").
template <typename... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream text;
  text.exceptions(std::ios_base::badbit);  // a stream without memory would else just end early
  (text << ... << parts);
  return std::move(text).str();
}

template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw Error(join(parts...));
}

// Throws Error with the joined parts unless `condition` holds. The parts are formatted only on
// failure.
template <typename... Parts>
void check(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    fail(parts...);
}

}  // namespace trireme
