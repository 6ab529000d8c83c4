// How much memory a rank may take here, and who says so: device.memory, else the smallest of what
// this process's cgroups and the machine have, cut over the ranks of this machine.
//
// Reads /proc and /sys through Files; `root` puts another folder in front of them (tests).
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/files.h"

namespace trireme {

// The text of a file whose size is unknown (those of /proc), without line ends at its end; empty if
// unreadable.
std::string small_file(Files& files, const std::string& path);
// The value behind "key:" in a text of such lines; empty if there is none.
std::string field_of(const std::string& text, const std::string& key);

// The smallest of what `name_v2` (or `name_v1` of the v1 controller) says for this process's cgroup
// and those above it: its text, empty without a limit.
std::string cgroup_value(Files& files, const std::string& controller_v1, const std::string& name_v1,
                         const std::string& name_v2, const std::string& root = {});

struct MemoryLimit {
  std::int64_t bytes = 0;     // of one rank; 0 = unknown
  std::string source;         // "cgroup limit 24.0 GiB / 2 ranks of this machine"
  bool device_alone = false;  // device.memory: of the device tier; else device and host together
};

// `device_memory`: the key, 0 = not given. `local_ranks`: ranks of the run on this machine.
MemoryLimit memory_limit(Files& files, std::int64_t device_memory, std::int64_t local_ranks,
                         const std::string& root = {});

}  // namespace trireme
