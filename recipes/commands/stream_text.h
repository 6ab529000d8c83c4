// What streamed weights do, in words: before a run, after it, and what a bench measured.
#pragma once

#include <string>

#include "recipes/serve/stream_bench.h"

namespace trireme {

// One line each, "\n" at its end. `in_place`: see WeightStream::reads_in_place.
std::string stream_opening(const WeightStreamShape& shape, bool in_place);
std::string stream_closing(const StreamTimes& times);  // empty without a pass
std::string stream_table(const StreamFigures& figures);

}  // namespace trireme
