// trireme doctor [--json]: what this machine and this build can do. 1 if something is broken; what
// is only optional and missing is a note.
#include <algorithm>
#include <ostream>

#include "framework/base/error.h"
#include "recipes/commands/doctor.h"
#include "recipes/report/numbers.h"

namespace trireme {

namespace {

const char* word_of(Finding::State state) {
  return state == Finding::State::kOk ? "ok" : state == Finding::State::kNote ? "note" : "broken";
}

Findings examine(Process& process) {
  return {cpu_finding(process),       build_finding(process),  backend_finding(process),
          cores_finding(process),     memory_finding(process), huge_pages_finding(process),
          disk_finding(process, "."), mpi_finding(process),    libraries_finding(),
          text_finding(process),      collective_finding()};
}

std::string text_of(const Findings& findings) {
  std::size_t width = 0;
  for (const Finding& f : findings) width = std::max(width, f.name.size());
  std::string text;
  for (const Finding& f : findings) {
    std::string word = word_of(f.state), name = f.name;
    word.resize(8, ' ');
    name.resize(width + 2, ' ');
    text += join(word, name, f.value, f.advice.empty() ? "" : "; ", f.advice, "\n");
  }
  return text;
}

std::string json_of(const Findings& findings, bool ok) {
  std::string text = join("{\"ok\": ", ok ? "true" : "false", ", \"findings\": [");
  const char* separator = "\n";
  for (const Finding& f : findings) {
    text +=
        join(separator, "{\"name\": ", json_string(f.name),
             ", \"state\": ", json_string(word_of(f.state)), ", \"value\": ", json_string(f.value),
             ", \"advice\": ", json_string(f.advice), "}");
    separator = ",\n";
  }
  return text + "\n]}\n";
}

}  // namespace

int doctor_command(Process& process, const CommandLine& line) {
  if (!line.names.empty() || !line.flags.empty())
    throw UsageError("doctor: takes no file and no key; --json is its only option");
  const Findings findings = examine(process);
  const bool ok = std::none_of(findings.begin(), findings.end(),
                               [](const Finding& f) { return f.state == Finding::State::kBroken; });
  if (line.options.contains("json")) {
    process.out << json_of(findings, ok);
  } else {
    process.out << text_of(findings)
                << (ok ? "ready to train\n" : "not ready: see what is broken above\n");
  }
  return ok ? 0 : 1;
}

}  // namespace trireme
