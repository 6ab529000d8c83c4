// Facts about the machine, as Linux tells them in /proc and /sys.
#include <algorithm>
#include <optional>
#include <sstream>

#include "framework/base/error.h"
#include "recipes/commands/doctor.h"
#include "recipes/report/numbers.h"

namespace trireme {

namespace {

constexpr std::int64_t kLowMemory = std::int64_t{1} << 30;

// The value behind "key :" in a text of such lines.
std::string field(const std::string& text, const std::string& key) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return {};
}

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
  const auto value = [](const std::string& text) {
    return number(text).value_or(std::int64_t{1} << 60);
  };
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 58;  // v1 writes a huge number for none
  if (value(b) >= kNoLimit) return a;
  return a.empty() || value(b) < value(a) ? b : a;
}

}  // namespace

std::string small_file(Files& files, const std::string& path) try {
  const auto file = files.open(path, OpenMode::kRead);
  std::string text(std::size_t{1} << 20, 0);  // files of /proc do not tell their size
  text.resize(static_cast<std::size_t>(file->read_some(text.data(), std::ssize(text), 0)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
} catch (const Error&) {
  return {};
}

std::vector<std::string> cpu_flags(Files& files) {
  const std::string info = small_file(files, "/proc/cpuinfo");
  std::istringstream in(field(info, "flags").empty() ? field(info, "Features")
                                                     : field(info, "flags"));
  std::vector<std::string> flags;
  for (std::string flag; in >> flag;) flags.push_back(flag);
  return flags;
}

double load_average(Files& files) {
  std::istringstream in(small_file(files, "/proc/loadavg"));
  double load = 0;
  return in >> load ? load : 0;
}

std::string cgroup_value(Files& files, const std::string& controller_v1, const std::string& name_v1,
                         const std::string& name_v2) {
  const std::string listing = small_file(files, "/proc/self/cgroup");
  const std::string v1 = cgroup_path(listing, controller_v1);
  const bool old = !v1.empty();
  const std::string root = old ? "/sys/fs/cgroup/" + controller_v1 : "/sys/fs/cgroup";
  const std::string name = old ? name_v1 : name_v2;
  std::string result = smallest({}, small_file(files, root + "/" + name));
  for (std::string path = old ? v1 : cgroup_path(listing, ""); path.size() > 1;
       path = path.substr(0, path.rfind('/')))
    result = smallest(result, small_file(files, root + path + "/" + name));
  return result;
}

Finding cpu_finding(Process& process) {
  const std::vector<std::string> flags = cpu_flags(process.files);
  Finding finding{.name = "cpu",
                  .value = field(small_file(process.files, "/proc/cpuinfo"), "model name")};
  if (finding.value.empty()) finding.value = "unknown model";
  const auto has = [&](const char* flag) {
    return std::find(flags.begin(), flags.end(), flag) != flags.end();
  };
  for (const auto& [flag, name] :
       {std::pair{"avx2", "AVX2"}, std::pair{"avx512f", "AVX-512"},
        std::pair{"avx512_bf16", "AVX-512 bf16"}, std::pair{"amx_bf16", "AMX bf16"}})
    finding.value += join(", ", has(flag) ? "" : "no ", name);
  if (has("avx2") || flags.empty()) return finding;
  finding.state = Finding::State::kNote;
  finding.advice = "without AVX2 training is slow";
  return finding;
}

Finding cores_finding(Process& process) {
  const int usable = process.cores();
  const std::string online = small_file(process.files, "/sys/devices/system/cpu/online");
  Finding finding{.name = "cores", .value = join(usable, " usable by this process")};
  if (!online.empty()) finding.value += ", online " + online;
  // "200000 100000": microseconds of CPU in a period; v1 has the period in another file.
  std::istringstream quota(cgroup_value(process.files, "cpu", "cpu.cfs_quota_us", "cpu.max"));
  double used = 0, period = 100000;
  if (!(quota >> used) || used <= 0) return finding;
  quota >> period;
  finding.value += join(", cgroup limit ", significant(used / period, 3), " cores");
  if (used / period + 0.01 >= usable) return finding;
  finding.state = Finding::State::kNote;
  finding.advice = join(
      "the cgroup gives less time than cores: use --parallel.threads so that "
      "ranks x threads is at most ",
      significant(used / period, 3));
  return finding;
}

Finding memory_finding(Process& process) {
  const std::string info = small_file(process.files, "/proc/meminfo");
  const std::int64_t total = number(field(info, "MemTotal")).value_or(0) * 1024;
  std::int64_t available = number(field(info, "MemAvailable")).value_or(0) * 1024;
  Finding finding{.name = "memory",
                  .value = bytes_text(total) + ", available " + bytes_text(available)};
  const std::optional<std::int64_t> limit =
      number(cgroup_value(process.files, "memory", "memory.limit_in_bytes", "memory.max"));
  finding.value += limit ? ", cgroup limit " + bytes_text(*limit) : ", no cgroup limit";
  if (limit) available = std::min(available, *limit);
  if (total == 0 || available >= kLowMemory) return finding;
  finding.state = Finding::State::kNote;
  finding.advice = "less than 1 GiB: small models only; device.memory refuses larger ones in time";
  return finding;
}

Finding huge_pages_finding(Process& process) {
  const std::string text = small_file(process.files, "/sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = text.find('['), close = text.find(']');
  Finding finding{.name = "huge pages", .value = "unknown"};
  if (open != std::string::npos && close != std::string::npos)
    finding.value = text.substr(open + 1, close - open - 1);
  if (finding.value != "never") return finding;
  finding.state = Finding::State::kNote;
  finding.advice =
      "large matrices run a little slower; as root: echo madvise > "
      "/sys/kernel/mm/transparent_hugepage/enabled";
  return finding;
}

}  // namespace trireme
