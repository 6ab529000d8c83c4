// A memory outlook for people and for scripts. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recipes/commands/memory_outlook.h"
#include "recipes/report/run_report.h"

namespace trireme {

// "FITS: 1.21 GiB of 2.00 GiB a rank (device.memory = 2.00 GiB), 808 MiB to spare", or
// "DOES NOT FIT: pipeline stage 0 needs 3.20 GiB, 1.20 GiB more than ...".
std::string verdict(const MemoryOutlook& outlook);

// Bytes by tier and kind of each pipeline stage, between steps and at the peak; beside them what a
// run measured, if there is a report.
std::string memory_kinds_text(const MemoryOutlook& outlook, const Recipe& recipe,
                              const RunReport* measured = nullptr);
std::string memory_variants_text(const std::vector<MemoryVariant>& rows, const MemoryLimit& limit);
std::string memory_reach_text(const std::vector<MemoryReach>& reach);
// Every formula with its numbers, of the fullest stage; and the lists of its layers.
std::string memory_explanation(const MemoryOutlook& outlook, const Recipe& recipe);

std::string memory_json(const MemoryOutlook& outlook, const Recipe& recipe,
                        const std::vector<MemoryVariant>& rows,
                        const std::vector<MemoryReach>& reach, const RunReport* measured = nullptr);

}  // namespace trireme
