// A pass as words, and how ranks hand it on.
//
// What every rank must know of a pass are its rows; what it computes on comes from the stage
// before. So a pass goes the way of its activations: from the leader to the first stage of each
// replica (data axis), there to all tensor ranks, and from stage to stage just before the
// activations. Each rank gets one message a pass, a second one if the rows are many. Messages to
// the next stage are not waited for: a rank that waits for anything moves them on.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "recipes/models/engine.h"

namespace trireme {

enum class PassKind : std::int32_t {
  kRows,   // of sequences
  kEmpty,  // nothing to compute, but weights are gathered with ranks that compute
  kIdle,   // no pass: the leader lives
  kEnd     // no more
};

struct PassMessage {
  PassKind kind = PassKind::kIdle;
  std::vector<std::int32_t> words = {};  // of kRows
};

std::vector<std::int32_t> words_of(const InferenceRows& rows);
// Page lists are views of the words.
InferenceRows rows_of(std::span<const std::int32_t> words);

// One rank's place on the way.
class PassRoute {
 public:
  PassRoute(Mesh& mesh, Backend& backend) : mesh_(mesh), backend_(backend) {}

  // World rank 0: to the first stage of another replica. Returns when it has been taken: what waits
  // there waits for nothing else.
  void tell_replica(int replica, const PassMessage& message);
  // A first rank of a first stage: to its tensor ranks, and to the next stage. Others of the stage
  // do the same with what came.
  void hand_on(PassMessage& message);
  // On all ranks but the leader's: the next message, handed on already.
  PassMessage next();

 private:
  void send(Communicator& group, int to, const PassMessage& message, std::deque<Pending>& sent);
  PassMessage receive(Communicator& group, int from);
  void share(PassMessage& message);  // over tensor ranks
  void to_next_stage(const PassMessage& message);

  Mesh& mesh_;
  Backend& backend_;
  std::deque<Pending> sent_;  // to the next stage
};

}  // namespace trireme
