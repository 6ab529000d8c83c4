// What the serving engine knows of a request and of its answers. Internal to recipes/serve.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "recipes/serve/serve_engine.h"

namespace trireme {

inline constexpr const char* kNoMemory =
    "out of memory: the answer was given up so that others go on";

// One answer that is being made.
struct ServeEngine::Choice {
  Request& request;
  int index;
  ServedSequence* sequence;
  OutputText text;
  GenerationEvent pending;  // of this pass
  double started = 0;
  std::int64_t scored = 0;  // tokens of the prompt
};

struct ServeEngine::Request {
  std::uint64_t number;
  GenerationRequest wanted;
  EventSink sink;
  std::vector<std::unique_ptr<Choice>> choices;
  std::size_t left;  // choices without an end
  bool waits = true;
};

struct ServeEngine::Command {
  enum class Kind : std::uint8_t { kStart, kCancel, kPause, kResume };
  Kind kind;
  std::uint64_t number;
  std::unique_ptr<Request> start = {};
};

}  // namespace trireme
