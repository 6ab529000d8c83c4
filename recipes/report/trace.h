// A Chrome trace of some steps, for ui.perfetto.dev or chrome://tracing: a process for each rank, a
// track for each of its streams, an arrow from each send to its receive.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "framework/base/files.h"

namespace trireme {

struct TraceEvent {
  int rank = 0;
  std::string stream;         // "compute", "communication": the track
  std::string name;           // "F", "B 3", "all_gather layers.3"
  std::int64_t begin_ns = 0;  // since a moment that all ranks share
  std::int64_t duration_ns = 0;
  // An arrow leads from the event with flow_out = n to the one with flow_in = n. 0: none.
  std::int64_t flow_out = 0, flow_in = 0;
  std::map<std::string, std::string> details;  // shown when the event is selected
};

struct TraceOptions {
  std::vector<std::string> rank_names;  // "rank 5: data 0, pipeline 1, tensor 1"; may be short
};

// {"traceEvents": [...]}; times start at the earliest event.
std::string trace_json(const std::vector<TraceEvent>& events, const TraceOptions& options = {});

// Writes it, replacing an older one at once; compressed if the path ends in .gz. Throws Error.
void write_trace(Files& files, const std::string& path, const std::vector<TraceEvent>& events,
                 const TraceOptions& options = {});

// A gzip file with this content.
std::string gzipped(const std::string& bytes);

}  // namespace trireme
