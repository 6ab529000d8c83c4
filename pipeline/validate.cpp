#include "pipeline/validate.h"

#include <algorithm>
#include <vector>

#include "framework/base/error.h"

namespace trireme {
namespace {

using Kind = Action::Kind;

constexpr int kKinds = static_cast<int>(Kind::kRecvBackward) + 1;

// Walks one list and remembers what has been done.
class StageCheck {
 public:
  StageCheck(int stage, const ScheduleExtent& extent)
      : stage_(stage),
        extent_(extent),
        done_(static_cast<std::size_t>(kKinds * extent.chunks * extent.micro_batches)) {}

  void visit(const Action& action) {
    require(!done(action.kind, action), action, "twice");
    require_inputs(action);
    done_[index(action.kind, action.micro, action.chunk)] = true;
  }

  void finish() const {
    for (int chunk = 0; chunk < extent_.chunks; ++chunk)
      for (int micro = 0; micro < extent_.micro_batches; ++micro) finish(micro, chunk);
  }

 private:
  std::size_t index(Kind kind, int micro, int chunk) const {
    return static_cast<std::size_t>(
        (static_cast<int>(kind) * extent_.chunks + chunk) * extent_.micro_batches + micro);
  }
  std::string at() const { return join("schedule: stage ", stage_, " "); }
  bool done(Kind kind, const Action& of) const { return done_in(kind, of.micro, of.chunk); }
  bool done_in(Kind kind, int micro, int chunk) const { return done_[index(kind, micro, chunk)]; }
  bool backward_done(int micro, int chunk) const {
    return done_in(Kind::kBackward, micro, chunk) || done_in(Kind::kBackwardInput, micro, chunk);
  }
  bool is_first(int chunk) const { return stage_ == 0 && chunk == 0; }
  bool is_last(int chunk) const {
    return stage_ == extent_.stages - 1 && chunk == extent_.chunks - 1;
  }

  // Not check(): it would make the texts for every action, and that costs more than all the rest.
  void require(bool condition, const Action& action, const char* what) const {
    if (!condition) fail(at(), "does ", text_of(action), " ", what);
  }

  void require_inputs(const Action& action) const {
    const int micro = action.micro, chunk = action.chunk;
    const bool local = extent_.stages == 1;
    switch (action.kind) {
      case Kind::kForward:
        if (!is_first(chunk))
          require(
              local ? done_in(Kind::kForward, micro, chunk - 1) : done(Kind::kRecvForward, action),
              action, "before its input is there");
        break;
      case Kind::kBackward:
      case Kind::kBackwardInput:
        require(!backward_done(micro, chunk), action, "after another backward of it");
        require(done(Kind::kForward, action), action, "before its forward");
        if (!is_last(chunk))
          require(local ? backward_done(micro, chunk + 1) : done(Kind::kRecvBackward, action),
                  action, "before its gradient is there");
        break;
      case Kind::kBackwardWeight:
        require(done(Kind::kBackwardInput, action), action, "before its input backward");
        break;
      case Kind::kSendForward:
        require(!local && !is_last(chunk), action, "but nobody is next");
        require(done(Kind::kForward, action), action, "before it is computed");
        break;
      case Kind::kSendBackward:
        require(!local && !is_first(chunk), action, "but nobody is before it");
        require(backward_done(micro, chunk), action, "before it is computed");
        break;
      case Kind::kRecvForward:
        require(!local && !is_first(chunk), action, "but nobody is before it");
        break;
      case Kind::kRecvBackward:
        require(!local && !is_last(chunk), action, "but nobody is next");
        break;
    }
  }

  void finish(int micro, int chunk) const {
    auto need = [&](Kind kind) {
      if (!done_in(kind, micro, chunk)) fail(at(), "never does ", text_of({kind, micro, chunk}));
    };
    need(Kind::kForward);
    if (extent_.stages > 1 && !is_last(chunk)) need(Kind::kSendForward);
    if (!extent_.trains) return;
    if (done_in(Kind::kBackwardInput, micro, chunk))
      need(Kind::kBackwardWeight);
    else
      need(Kind::kBackward);
    if (extent_.stages > 1 && !is_first(chunk)) need(Kind::kSendBackward);
  }

  int stage_;
  const ScheduleExtent& extent_;
  std::vector<bool> done_;  // by kind, chunk, micro-batch
};

}  // namespace

ScheduleExtent extent_of(const Schedule& schedule) {
  ScheduleExtent extent{static_cast<int>(schedule.size())};
  for (const ActionList& list : schedule)
    for (const Action& action : list) {
      if (action.micro < 0 || action.chunk < 0)
        fail("schedule: ", text_of(action), " has a negative index");
      extent.chunks = std::max(extent.chunks, action.chunk + 1);
      extent.micro_batches = std::max(extent.micro_batches, action.micro + 1);
      extent.trains |= !is_communication(action.kind) && action.kind != Kind::kForward;
    }
  return extent;
}

void check_stage(const ActionList& list, int stage, const ScheduleExtent& extent) {
  StageCheck stage_check(stage, extent);
  for (const Action& action : list) stage_check.visit(action);
  stage_check.finish();
}

}  // namespace trireme
