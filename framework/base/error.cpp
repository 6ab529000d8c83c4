#include "framework/base/error.h"

#include <new>

namespace trireme {

namespace {

constexpr char kOutOfMemory[] = "out of memory";  // short enough to lie inside a std::string

}  // namespace

std::string reason_of(const std::exception& error) noexcept try {
  if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr) return error.what();
  return std::string(kOutOfMemory) + ": the machine gave the program no more of it";
} catch (...) {
  return kOutOfMemory;
}

std::string reason_of(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return reason_of(known);
  } catch (...) {
    return "unknown error";
  }
}

void remember(std::string& into, const std::string& text) noexcept {
  try {
    into = text;
  } catch (...) {
    into = kOutOfMemory;
  }
}

}  // namespace trireme
