// What a server that ends has under way, and what becomes of it, as sentences. Counted are answers:
// a request for several has as many. Pure functions.
#pragma once

#include <cstdint>
#include <string>

namespace trireme {

// When no more is taken.
struct DrainBegin {
  std::int64_t running = 0, waiting = 0;  // answers
  std::int64_t reading = 0;               // requests of which nothing is known yet
};
// "ending: 3 answers are being written, 2 wait; they have 30 s"
std::string drain_text(const DrainBegin& begin, double seconds);

// Answers that ended since then.
struct DrainEnd {
  std::int64_t finished = 0;
  std::int64_t cut = 0;   // with an error, as when the time was over
  std::int64_t left = 0;  // by their clients
};
// "ended: 4 answers were finished, 1 was cut off"; without any, "ended: nothing was cut off"
std::string drain_text(const DrainEnd& end);

}  // namespace trireme
