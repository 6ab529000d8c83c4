#include "recipes/load/server_events.h"

namespace trireme {

namespace {

constexpr std::string_view kData = "data:";

// Lines that begin with "data:" belong to one text; others say nothing here.
void add_line(std::string_view line, std::string& data, bool& any) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!line.starts_with(kData)) return;
  line.remove_prefix(kData.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (any) data += '\n';
  any = true;
  data += line;
}

}  // namespace

std::vector<std::string> ServerEvents::push(std::string_view piece) {
  held_ += piece;
  std::vector<std::string> all;
  std::string data;
  bool any = false;
  std::size_t taken = 0, begin = 0;
  for (std::size_t end; (end = held_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(held_).substr(begin, end - begin);
    if (!line.empty() && line != "\r") {
      add_line(line, data, any);
      continue;
    }
    if (any) all.push_back(std::move(data));
    data.clear();
    any = false;
    taken = end + 1;
  }
  held_.erase(0, taken);
  return all;
}

}  // namespace trireme
