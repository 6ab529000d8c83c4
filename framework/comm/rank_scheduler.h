// Who runs next, where ranks are threads: a seam of run_thread_ranks for tests, which make whole
// runs replay from a seed (tests/support/baton.h). Production has none, and pays one comparison
// with null per call and wait.
//
// A scheduler may hold back any rank inside any of these members, so it can let one rank run at a
// time and choose which; then nothing but it decides the order of events. The world tells it
// everything that it does to a rank: a rank in sleep() goes on when it was woken or its time is
// over, and all else that ranks share is behind the world's mutex, which is never held in reach(),
// sleep(), begin() and end().
#pragma once

#include <cstdint>
#include <string>

#include "framework/comm/call.h"

namespace trireme {

// Places of a call where its rank can be held back. At all but kStep reach() may throw, as if the
// rank's own code had failed there.
enum class CallPoint : std::uint8_t {
  kCall,     // before the rank contributes: peers do not know of the call
  kStarted,  // peers may read its memory
  kWait,     // before waiting
  kStep,     // before a sum or a copy of an operation that all have joined
  kDone,     // complete on this rank, perhaps not on others
};

class RankScheduler {
 public:
  virtual ~RankScheduler() = default;

  // First and last on a rank's thread.
  virtual void begin(int rank) = 0;
  virtual void end(int rank) noexcept = 0;
  virtual void reach(int rank, CallPoint point, const Call& call, const std::string& axis) = 0;
  // The rank has nothing to do before it is woken or `seconds` (perhaps infinite) of the world's
  // clock have passed. May return early; must not throw.
  virtual void sleep(int rank, double seconds) noexcept = 0;
  // From any rank's thread, with the world's mutex held: something changed for `rank`. Must not
  // call back.
  virtual void wake(int rank) noexcept = 0;
  // Which of a rank's `count` operations in flight to advance first (the others follow in turn).
  virtual std::size_t first_of(int rank, std::size_t count) noexcept = 0;
};

}  // namespace trireme
