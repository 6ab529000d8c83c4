#include "recipes/train/run_lock.h"

#include <unistd.h>

#include <cctype>
#include <charconv>
#include <optional>
#include <sstream>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::string_view kPrefix = "lock.";

std::string host_name() {
  char name[256] = "host";
  gethostname(name, sizeof name - 1);
  std::string plain;
  for (const char* c = name; *c != 0; ++c)
    plain += std::isalnum(static_cast<unsigned char>(*c)) != 0 || *c == '-' ? *c : '_';
  return plain;
}

// Of /proc/PID/stat: state and start time are fields 3 and 22; the second is a name in parentheses
// that may hold anything.
struct ProcessState {
  char letter = 0;
  std::int64_t born = 0;
};
std::optional<ProcessState> state_of(Files& files, const std::string& pid) {
  std::unique_ptr<File> file;
  if (files.raw_open("/proc/" + pid + "/stat", OpenMode::kRead, file).error != 0)
    return std::nullopt;
  std::string text(4096, '\0');
  const Outcome got = file->raw_read(text.data(), static_cast<std::int64_t>(text.size()), 0);
  if (got.error != 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(got.count));
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end + 1));
  ProcessState state;
  fields >> state.letter;
  std::string word;
  for (int field = 4; field < 22; ++field) fields >> word;
  fields >> state.born;
  if (!fields) return std::nullopt;
  return state;
}

std::string name_of(const ProcessIdentity& process) {
  return join(kPrefix, process.host, ".", process.pid, ".", process.born);
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<ProcessIdentity> identity_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  const std::size_t second = name.rfind('.');
  if (second == std::string_view::npos || second == 0) return std::nullopt;
  const std::size_t first = name.rfind('.', second - 1);
  if (first == std::string_view::npos) return std::nullopt;
  const auto pid = number(name.substr(first + 1, second - first - 1)),
             born = number(name.substr(second + 1));
  if (!pid || !born) return std::nullopt;
  return ProcessIdentity{std::string(name.substr(0, first)), *pid, *born};
}

}  // namespace

ProcessIdentity this_process(Files& files) {
  const auto state = state_of(files, "self");
  return {host_name(), static_cast<std::int64_t>(getpid()), state ? state->born : 0};
}

bool is_alive(Files& files, const ProcessIdentity& process) {
  const auto state = state_of(files, std::to_string(process.pid));
  return state && state->born == process.born && state->letter != 'Z' && state->letter != 'X';
}

RunLock::RunLock(Files& files, std::string folder, const ProcessIdentity& self)
    : files_(files), folder_(std::move(folder)), path_(path_join(folder_, name_of(self))) {
  files_.open(path_, OpenMode::kReadWrite)->close();
  try {
    give_way_to_others(self);
  } catch (...) {
    files_.raw_remove(path_);
    throw;
  }
}

void RunLock::give_way_to_others(const ProcessIdentity& self) const {
  for (const std::string& name : files_.list(folder_)) {
    const auto other = identity_of(name);
    if (!other || *other == self) continue;
    const std::string path = path_join(folder_, name);
    const bool here = other->host == self.host;
    check(!here || !is_alive(files_, *other), "train.folder = ", folder_, ": process ", other->pid,
          " of this machine trains into it now; wait for its end, or use another folder (if "
          "this is a copy of that run's folder, remove ",
          path, ")");
    check(here, "train.folder = ", folder_, ": process ", other->pid, " of machine ", other->host,
          " trains into it; if that one has ended, remove ", path);
    files_.raw_remove(path);  // of a dead one
  }
}

RunLock::~RunLock() { files_.raw_remove(path_); }

void RunLock::expect_held() const {
  check(files_.exists(path_), path_, " is gone: another run may use the folder now");
}

}  // namespace trireme
