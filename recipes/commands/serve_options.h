// The options of `trireme serve` as values, checked before anything is opened.
#pragma once

#include <string>

#include "recipes/api/api_server.h"
#include "recipes/commands/process.h"

namespace trireme {

struct ServeWishes {
  HttpOptions http;
  ApiOptions api;
  ServeOptions engine;
  std::string name;           // of the model, for clients
  std::int64_t context = 0;   // 0: the model's
  std::int64_t kv_bytes = 0;  // of each rank
};

// Throws UsageError.
ServeWishes serve_options_of(Process& process, const CommandLine& line);

}  // namespace trireme
