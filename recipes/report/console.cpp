#include "recipes/report/console.h"

#include <algorithm>
#include <ostream>

#include "recipes/report/numbers.h"

namespace trireme {
namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";

}  // namespace

std::string bar_text(std::int64_t done, std::int64_t all, std::string_view beside, int columns) {
  double fraction = std::clamp(static_cast<double>(done) / static_cast<double>(all), 0.0, 1.0);
  std::string tail = "] " + percent_text(fraction);
  if (!beside.empty()) tail.append(" ").append(beside);
  // One column stays free: a full line would wrap, and the wrapped part could not be erased.
  int room = std::min(60, columns - 2 - static_cast<int>(tail.size()));
  if (room < 4) return tail.substr(2, static_cast<std::size_t>(std::max(0, columns - 1)));
  auto filled = static_cast<int>(fraction * room);
  std::string cells(static_cast<std::size_t>(filled), '=');
  if (filled < room) cells += '>';
  cells.resize(static_cast<std::size_t>(room), ' ');
  return "[" + cells + tail;
}

Console::Console(std::ostream& out, const TerminalTraits& traits, LineFile* log)
    : out_(out), traits_(traits), log_(log) {}

Console::~Console() { clear(); }

void Console::line(std::string_view text) { print(text, false); }

void Console::aside(std::string_view text) { print(text, traits_.color()); }

void Console::print(std::string_view text, bool dim) {
  if (!bar_.empty()) out_ << kEraseLine;
  while (true) {
    auto end = std::min(text.find('\n'), text.size());
    std::string_view one = text.substr(0, end);
    if (dim)
      out_ << kDim << one << kPlain << '\n';
    else
      out_ << one << '\n';
    if (log_) log_->line(one);
    if (end + 1 >= text.size()) break;
    text.remove_prefix(end + 1);
  }
  out_ << bar_ << std::flush;
}

void Console::bar(std::int64_t done, std::int64_t all, std::string_view beside) {
  if (!traits_.live()) return;
  std::string next =
      bar_text(done, all, beside, traits_.columns_now ? traits_.columns_now() : traits_.columns);
  if (next == bar_) return;
  out_ << kEraseLine << next << std::flush;
  bar_ = std::move(next);
}

void Console::clear() {
  if (bar_.empty()) return;
  out_ << kEraseLine << std::flush;
  bar_.clear();
}

}  // namespace trireme
