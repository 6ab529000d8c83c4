// Facts about the machine, as Linux tells them in /proc and /sys.
#include <algorithm>
#include <optional>
#include <sstream>

#include "framework/base/error.h"
#include "recipes/commands/doctor.h"
#include "recipes/memory/machine_memory.h"
#include "recipes/report/numbers.h"

namespace trireme {

namespace {

constexpr std::int64_t kLowMemory = std::int64_t{1} << 30;

std::optional<std::int64_t> number(const std::string& text) {
  std::istringstream in(text);
  std::int64_t value = 0;
  return in >> value ? std::optional(value) : std::nullopt;
}

}  // namespace

std::vector<std::string> cpu_flags(Files& files) {
  const std::string info = small_file(files, "/proc/cpuinfo");
  std::istringstream in(field_of(info, "flags").empty() ? field_of(info, "Features")
                                                        : field_of(info, "flags"));
  std::vector<std::string> flags;
  for (std::string flag; in >> flag;) flags.push_back(flag);
  return flags;
}

double load_average(Files& files) {
  std::istringstream in(small_file(files, "/proc/loadavg"));
  double load = 0;
  return in >> load ? load : 0;
}

Finding cpu_finding(Process& process) {
  const std::vector<std::string> flags = cpu_flags(process.files);
  Finding finding{.name = "cpu",
                  .value = field_of(small_file(process.files, "/proc/cpuinfo"), "model name")};
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
  const std::int64_t total = number(field_of(info, "MemTotal")).value_or(0) * 1024;
  std::int64_t available = number(field_of(info, "MemAvailable")).value_or(0) * 1024;
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
