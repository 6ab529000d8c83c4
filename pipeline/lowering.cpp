#include "pipeline/lowering.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "framework/base/error.h"

namespace trireme {
namespace {

using Kind = Action::Kind;

enum class Pass { kForward, kBackward, kWeight };

Pass pass_of(Kind kind) {
  if (kind == Kind::kForward) return Pass::kForward;
  return kind == Kind::kBackwardWeight ? Pass::kWeight : Pass::kBackward;
}

std::int64_t nominal_cost(Kind kind) { return kind == Kind::kBackward ? 2 : 1; }

struct Interval {
  std::int64_t start, end;
};

// One thing that happens on one stage: a computation, or one end of a message.
struct Event {
  std::int64_t time;
  int order;          // at one time messages come first, forward ones before backward ones
  int virtual_stage;  // of the sender, so that both ends sort alike
  int micro;
  int stage;
  Action action;
};

// The ideal timeline: each stage runs its list in order, each action as soon as its data are there.
class Timeline {
 public:
  explicit Timeline(const Schedule& lists)
      : lists_(lists), stages_(static_cast<int>(lists.size())), busy_(lists.size()) {
    for (const ActionList& list : lists)
      for (const Action& action : list) chunks_ = std::max(chunks_, action.chunk + 1);
  }

  std::vector<Event> events() {
    while (sweep()) {
    }
    for (int stage = 0; stage < stages_; ++stage) {
      check_finished(stage);
      add_events(stage);
    }
    std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      return std::tie(a.time, a.order, a.virtual_stage, a.micro) <
             std::tie(b.time, b.order, b.virtual_stage, b.micro);
    });
    return std::move(events_);
  }

 private:
  const ActionList& list(int stage) const { return lists_[static_cast<std::size_t>(stage)]; }
  std::vector<Interval>& busy(int stage) { return busy_[static_cast<std::size_t>(stage)]; }

  bool sweep() {
    bool moved = false;
    for (int stage = 0; stage < stages_; ++stage)
      while (step(stage)) moved = true;
    return moved;
  }

  bool step(int stage) {
    const std::size_t next = busy(stage).size();
    if (next == list(stage).size()) return false;
    const Action& action = list(stage)[next];
    if (is_communication(action.kind))
      fail("add_communication: stage ", stage, " already has a ", text_of(action));
    const int s = action.chunk * stages_ + stage;
    const std::int64_t clock = next > 0 ? busy(stage).back().end : 0;
    const std::optional<std::int64_t> start = earliest(action, s, clock);
    if (!start) return false;
    busy(stage).push_back({*start, *start + nominal_cost(action.kind)});
    when_[{pass_of(action.kind), action.micro, s}] = busy(stage).back();
    return true;
  }

  // When the data of `action` are there, not before `time`; nothing if not computed yet.
  std::optional<std::int64_t> earliest(const Action& action, int s, std::int64_t time) const {
    const int last = stages_ * chunks_ - 1;
    const Pass pass = pass_of(action.kind);
    std::vector<std::pair<Pass, int>> needs;
    if (pass == Pass::kForward && s > 0) needs.push_back({Pass::kForward, s - 1});
    if (pass == Pass::kBackward) needs.push_back({Pass::kForward, s});
    if (pass == Pass::kBackward && s < last) needs.push_back({Pass::kBackward, s + 1});
    if (pass == Pass::kWeight) needs.push_back({Pass::kBackward, s});
    for (const auto& [needed, at] : needs) {
      const auto found = when_.find({needed, action.micro, at});
      if (found == when_.end()) return std::nullopt;
      time = std::max(time, found->second.end);
    }
    return time;
  }

  void add_events(int stage) {
    for (std::size_t i = 0; i < list(stage).size(); ++i) {
      const Action& action = list(stage)[i];
      // Only this stage looks at the order of its computations, so their other keys do not matter.
      events_.push_back({busy(stage)[i].start, 2, 0, 0, stage, action});
      add_message(action, action.chunk * stages_ + stage);
    }
  }

  void add_message(const Action& action, int s) {
    const Pass pass = pass_of(action.kind);
    const bool forward = pass == Pass::kForward;
    const int to = forward ? s + 1 : s - 1;
    if (stages_ == 1 || pass == Pass::kWeight || to < 0 || to >= stages_ * chunks_) return;
    const auto used = when_.find({pass, action.micro, to});
    if (used == when_.end()) return;  // an incomplete order: check_schedule() says what is missing
    const std::int64_t made = when_[{pass, action.micro, s}].end;
    const std::int64_t time = moment(made, used->second.start, s % stages_, to % stages_);
    const int order = forward ? 0 : 1;
    const Kind send = forward ? Kind::kSendForward : Kind::kSendBackward;
    const Kind recv = forward ? Kind::kRecvForward : Kind::kRecvBackward;
    events_.push_back(
        {time, order, s, action.micro, s % stages_, {send, action.micro, s / stages_}});
    events_.push_back(
        {time, order, s, action.micro, to % stages_, {recv, action.micro, to / stages_}});
  }

  // The last moment before the use at which neither end computes: nobody waits, and the receiver
  // holds the buffer for a short time. If there is none, when the message is made.
  std::int64_t moment(std::int64_t made, std::int64_t used, int from, int to) {
    std::int64_t time = used;
    for (std::int64_t earlier = time; time >= made; time = earlier) {
      earlier = std::min(free_before(from, time), free_before(to, time));
      if (earlier == time) return time;
    }
    return made;
  }

  // `time`, or the start of the computation in whose midst it is.
  std::int64_t free_before(int stage, std::int64_t time) {
    const auto& intervals = busy(stage);
    const auto after =
        std::partition_point(intervals.begin(), intervals.end(),
                             [time](const Interval& interval) { return interval.start < time; });
    if (after == intervals.begin()) return time;
    const Interval& last = *std::prev(after);
    return last.end > time ? last.start : time;
  }

  void check_finished(int stage) {
    const std::size_t done = busy(stage).size();
    if (done == list(stage).size()) return;
    fail("the order of computations cannot run: stage ", stage, " never gets the data for ",
         text_of(list(stage)[done]));
  }

  const Schedule& lists_;
  int stages_, chunks_ = 1;
  std::vector<std::vector<Interval>> busy_;              // by stage, in list order
  std::map<std::tuple<Pass, int, int>, Interval> when_;  // (pass, micro-batch, virtual stage)
  std::vector<Event> events_;
};

}  // namespace

Schedule add_communication(const Schedule& computations) {
  Schedule lists(computations.size());
  for (const Event& event : Timeline(computations).events())
    lists[static_cast<std::size_t>(event.stage)].push_back(event.action);
  return lists;
}

}  // namespace trireme
