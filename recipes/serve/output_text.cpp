#include "recipes/serve/output_text.h"

#include <algorithm>
#include <utility>

namespace trireme {

OutputText::OutputText(const Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
                       bool skip_special, std::vector<std::string> stops, bool include_stop)
    : decoder_(tokenizer, skip_special), stops_(std::move(stops)), include_stop_(include_stop) {
  for (const std::int32_t id : prompt) decoder_.push(id);
}

std::string OutputText::push(std::int32_t id, bool may_stop) {
  if (stopped()) return {};
  held_ += decoder_.push(id);
  return may_stop ? settle(false) : std::exchange(held_, {});
}

std::string OutputText::finish() {
  if (stopped()) return {};
  held_ += decoder_.finish();
  return settle(true);
}

std::string OutputText::settle(bool all) {
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at >= first) continue;
    first = at;
    stop_ = stop;
  }
  if (stopped()) return held_.substr(0, first + (include_stop_ ? stop_.size() : 0));
  std::size_t keep = 0;  // the longest end that begins a stop string
  for (const std::string& stop : stops_)
    for (std::size_t n = std::min(held_.size(), stop.size() - 1); n > keep; --n)
      if (held_.ends_with(std::string_view(stop).substr(0, n))) keep = n;
  if (all) keep = 0;
  std::string said = held_.substr(0, held_.size() - keep);
  held_.erase(0, said.size());
  return said;
}

}  // namespace trireme
