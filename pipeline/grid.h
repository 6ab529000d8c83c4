// Pictures of a simulated schedule: a row per stage, time to the right.
//
// Both are deterministic and made for documents: the text for terminals and messages, the SVG for a
// README (no fonts, scripts or external references; readable on light and dark pages).
#pragma once

#include <string>

#include "pipeline/simulator.h"

namespace trireme {

// A cell is as long as the shortest computation (longer ones are rounded to whole cells). F
// forward, B backward (or its input half), W weight half, then the micro-batch; "-" goes on, "." is
// idle. Chunks after the first are marked ', " and *. Throws Error if a computation takes no time.
std::string grid_text(const Simulation& simulation);

std::string grid_svg(const Simulation& simulation);

}  // namespace trireme
