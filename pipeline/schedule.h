// Pipeline schedules as plain data: what each stage does, in order, for one step.
//
// The model's list of layers is cut into p * v consecutive parts ("virtual stages"): v chunks on
// each of p stages, virtual stage s = chunk * p + stage. A schedule is one list of actions per
// stage; an executor walks its own list and never decides anything itself, and a simulator
// (simulator.h) walks all of them before launch.
//
// Invariants
//  - Neighbouring communication actions of a list form one group, in flight together: start all,
//    then wait for all. Steady states fuse to {send forward, receive backward} and the like.
//  - All lists are projections of one global sequence of computations and messages. So a group may
//    wait for all of its messages, sends included (rendezvous), or even for each message by itself,
//    and still no schedule deadlocks, whatever the passes cost. Messages between two stages are
//    posted in the same order by both, forward before backward.
//  - Every (micro-batch, chunk) runs forward once and backward once; a weight half follows its
//    input half.
//  - Where the next virtual stage is on the same stage (p = 1) there are no messages: the executor
//    hands over locally.
//
// Sources: GPipe (arXiv 1811.06965), 1F1B and interleaved 1F1B (arXiv 2104.04473, section 2.2),
// ZB-H1 (arXiv 2401.10241, section 3.1). All functions are pure; all throw Error for sizes below 1,
// a stage outside [0, p), or a combination that a schedule does not have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct Action {
  enum class Kind {
    kForward,
    kBackward,        // gradients of input and weights
    kBackwardInput,   // split backward, first half: what the previous stage waits for
    kBackwardWeight,  // split backward, second half: may fill bubbles
    kSendForward,     // the output of `chunk`, to the next virtual stage
    kRecvForward,     // the input of `chunk`, from the previous virtual stage
    kSendBackward,    // the gradient of the input of `chunk`, to the previous virtual stage
    kRecvBackward     // the gradient of the output of `chunk`, from the next virtual stage
  };
  Kind kind = Kind::kForward;
  int micro = 0;  // micro-batch, from 0
  int chunk = 0;  // model chunk of this stage, from 0
  bool operator==(const Action&) const = default;
};

using ActionList = std::vector<Action>;    // of one stage
using Schedule = std::vector<ActionList>;  // by stage

bool is_communication(Action::Kind kind);
bool is_send(Action::Kind kind);
// "forward of micro-batch 3, chunk 1", "receive backward of micro-batch 0, chunk 0"
std::string text_of(const Action& action);
// Index of the first action at or after `begin` that is not communication: the end of its group.
std::size_t group_end(const ActionList& list, std::size_t begin);
// The stage at the other end of a communication action of `stage`.
int peer_of(const Action& action, int stage, int stages);

// p stages, m micro-batches, v chunks per stage. Each returns the list of `stage`.

// All forwards, then all backwards, last micro-batch first.
ActionList gpipe(int p, int m, int stage);
// At most p - stage micro-batches in flight: min(p - stage - 1, m) forwards, then one forward and
// one backward in turn.
ActionList one_f_one_b(int p, int m, int stage);
// 1F1B over virtual stages, micro-batches in groups of p: the bubble shrinks v times, messages grow
// v times. Needs m % p == 0 when v > 1; v = 1 is 1F1B.
ActionList interleaved(int p, int m, int v, int stage);
// ZB-H1: backward split, weight halves fill the bubble; p micro-batches in flight on every stage.
ActionList zero_bubble_h1(int p, int m, int stage);
// Forwards only (evaluation, generation), any m. With v > 1 groups of p micro-batches go through
// chunk after chunk.
ActionList forward_only(int p, int m, int v, int stage);

enum class ScheduleKind { kGPipe, kOneFOneB, kInterleaved, kZeroBubbleH1, kForwardOnly };

// "gpipe", "1f1b", "interleaved", "zb-h1", "forward-only"; parsing throws Error naming the legal
// ones.
std::string_view name_of(ScheduleKind kind);
ScheduleKind schedule_from_name(std::string_view name);

// The lists of all stages. v must be 1 for gpipe, 1f1b and zb-h1.
Schedule make_schedule(ScheduleKind kind, int p, int m, int v);

}  // namespace trireme
