// The parts of `trireme doctor`: what it looks at, each a line.
//
// Everything about the machine is read through Process and its Files, so that a test can give other
// facts. Nothing here throws for a machine that lacks something: that is what a finding says.
#pragma once

#include <string>
#include <vector>

#include "recipes/commands/process.h"

namespace trireme {

struct Finding {
  enum class State : std::uint8_t {
    kOk,
    kNote,   // works, but something optional is missing
    kBroken  // training will not work
  };
  std::string name;
  std::string value;
  State state = State::kOk;
  std::string advice;  // what to do, unless ok
};
using Findings = std::vector<Finding>;

// doctor_machine.cpp
std::vector<std::string> cpu_flags(Files& files);
double load_average(Files& files);  // runnable threads, mean of the last minute; 0 if unknown
Finding cpu_finding(Process& process);
Finding cores_finding(Process& process);
Finding memory_finding(Process& process);
Finding huge_pages_finding(Process& process);

// doctor_disk.cpp: writes and reads 64 MiB in `folder`, removed again.
Finding disk_finding(Process& process, const std::string& folder);

// doctor_build.cpp
Finding build_finding(Process& process);
Finding libraries_finding();
Finding backend_finding(Process& process);
Finding mpi_finding(Process& process);
Finding text_finding(Process& process);
Finding collective_finding();

}  // namespace trireme
