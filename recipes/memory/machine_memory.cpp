#include "recipes/memory/machine_memory.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "framework/base/error.h"
#include "recipes/report/numbers.h"

namespace trireme {

namespace {

constexpr std::int64_t kNoLimit = std::int64_t{1} << 58;  // v1 writes a huge number for none

std::optional<std::int64_t> number(const std::string& text) {
  std::istringstream in(text);
  std::int64_t value = 0;
  return in >> value ? std::optional(value) : std::nullopt;
}

// This process's folder under the controller's hierarchy, "/a/b"; empty if it has none.
std::string cgroup_path(const std::string& listing, const std::string& controller) {
  std::istringstream in(listing);  // "4:memory:/a/b", "0::/a/b"
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = join(",", line.substr(first + 1, second - first - 1), ",");
    if (names.find(join(",", controller, ",")) != std::string::npos) return line.substr(second + 1);
  }
  return {};
}

// The first number of each text, of those that are limits.
std::string smallest(std::string a, std::string b) {
  const auto value = [](const std::string& text) { return number(text).value_or(kNoLimit); };
  if (value(b) >= kNoLimit) return a;
  return a.empty() || value(b) < value(a) ? b : a;
}

}  // namespace

std::string small_file(Files& files, const std::string& path) try {
  const auto file = files.open(path, OpenMode::kRead);
  std::string text(std::size_t{1} << 20, 0);
  text.resize(static_cast<std::size_t>(file->read_some(text.data(), std::ssize(text), 0)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
} catch (const Error&) {
  return {};
}

std::string field_of(const std::string& text, const std::string& key) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return {};
}

std::string cgroup_value(Files& files, const std::string& controller_v1, const std::string& name_v1,
                         const std::string& name_v2, const std::string& root) {
  const std::string listing = small_file(files, root + "/proc/self/cgroup");
  const std::string v1 = cgroup_path(listing, controller_v1);
  const bool old = !v1.empty();
  const std::string top = root + "/sys/fs/cgroup" + (old ? "/" + controller_v1 : "");
  const std::string name = old ? name_v1 : name_v2;
  std::string result = smallest({}, small_file(files, top + "/" + name));
  for (std::string path = old ? v1 : cgroup_path(listing, ""); path.size() > 1;
       path = path.substr(0, path.rfind('/')))
    result = smallest(result, small_file(files, top + path + "/" + name));
  return result;
}

MemoryLimit memory_limit(Files& files, std::int64_t device_memory, std::int64_t local_ranks,
                         const std::string& root) {
  if (device_memory > 0)
    return {device_memory, "device.memory = " + bytes_text(device_memory), true};
  const std::string info = small_file(files, root + "/proc/meminfo");
  const std::int64_t total = number(field_of(info, "MemTotal")).value_or(0) * 1024;
  const std::optional<std::int64_t> group =
      number(cgroup_value(files, "memory", "memory.limit_in_bytes", "memory.max", root));
  if (total == 0 && !group) return {0, "unknown", false};
  const bool by_group = group && (total == 0 || *group < total);
  const std::int64_t bytes = by_group ? *group : total;
  std::string source = (by_group ? "cgroup limit " : "RAM ") + bytes_text(bytes);
  if (local_ranks > 1) source += join(" / ", local_ranks, " ranks of this machine");
  return {bytes / std::max<std::int64_t>(1, local_ranks), source, false};
}

}  // namespace trireme
