#include "pipeline/simulator.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "framework/base/error.h"
#include "pipeline/validate.h"

namespace trireme {
namespace {

using Kind = Action::Kind;

// One end of a message, posted.
struct Post {
  Action action;
  double time;
};

// Messages from one stage to another; the i-th send meets the i-th receive.
struct Channel {
  std::vector<Post> sends, receives;
};

struct Ticket {
  Channel* channel;
  bool send;
  std::size_t index;
};

class Run {
 public:
  Run(const Schedule& schedule, const ScheduleExtent& extent, const ActionCost& cost,
      Waiting waiting)
      : schedule_(schedule),
        extent_(extent),
        cost_(cost),
        waiting_(waiting),
        ranks_(schedule.size()) {
    result_.chunks = extent.chunks;
    result_.stages.resize(schedule.size());
  }

  Simulation finish() && {
    for (bool moved = true; moved;) {
      moved = false;
      for (int stage = 0; stage < extent_.stages; ++stage)
        while (step(stage)) moved = true;
    }
    check_not_stuck();
    check_nothing_left();
    for (StageTimeline& stage : result_.stages) {
      result_.makespan = std::max(result_.makespan, stage.end());
      if (!stage.spans.empty()) stage.bubble = stage.end() - stage.spans[0].start - stage.busy;
    }
    return std::move(result_);
  }

 private:
  struct Rank {
    std::size_t next = 0;  // first action not completed
    double clock = 0;
    int in_flight = 0;
    std::vector<Ticket> waiting;                            // the posted group
    std::map<std::tuple<Kind, int, int>, Ticket> expected;  // receives, with kWhenNeeded
  };

  const ActionList& list(int stage) const { return schedule_[static_cast<std::size_t>(stage)]; }
  Rank& rank(int stage) { return ranks_[static_cast<std::size_t>(stage)]; }

  bool step(int stage) {
    Rank& self = rank(stage);
    if (self.next == list(stage).size()) return false;
    if (!is_communication(list(stage)[self.next].kind)) {
      if (!await_input(self, list(stage)[self.next])) return false;
      compute(stage, list(stage)[self.next++]);
      return true;
    }
    if (self.waiting.empty()) {
      post_group(stage);
      return true;
    }
    return complete_group(self);
  }

  // With kWhenNeeded: the message that `action` needs must be matched; the clock moves to then.
  bool await_input(Rank& self, const Action& action) {
    const Kind receive = action.kind == Kind::kForward ? Kind::kRecvForward : Kind::kRecvBackward;
    const auto found = self.expected.find({receive, action.micro, action.chunk});
    if (found == self.expected.end() || action.kind == Kind::kBackwardWeight) return true;
    const Ticket& ticket = found->second;
    if (!matched(ticket)) return false;
    self.clock = std::max({self.clock, ticket.channel->sends[ticket.index].time,
                           ticket.channel->receives[ticket.index].time});
    return true;
  }

  void compute(int stage, const Action& action) {
    Rank& self = rank(stage);
    StageTimeline& timeline = result_.stages[static_cast<std::size_t>(stage)];
    const double cost = cost_(stage, action);
    timeline.spans.push_back({action, self.clock, self.clock + cost});
    timeline.busy += cost;
    self.clock += cost;
    if (!extent_.trains) return;
    if (action.kind == Kind::kForward) ++self.in_flight;
    timeline.peak_in_flight = std::max(timeline.peak_in_flight, self.in_flight);
    if (action.kind == Kind::kBackward || action.kind == Kind::kBackwardWeight) --self.in_flight;
  }

  void post_group(int stage) {
    Rank& self = rank(stage);
    const bool alone = waiting_ == Waiting::kEachMessage;
    const std::size_t end = alone ? self.next + 1 : group_end(list(stage), self.next);
    for (std::size_t i = self.next; i < end; ++i) {
      const Action& action = list(stage)[i];
      const int peer = peer_of(action, stage, extent_.stages);
      const bool send = is_send(action.kind);
      Channel& channel = channels_[send ? std::pair(stage, peer) : std::pair(peer, stage)];
      auto& posts = send ? channel.sends : channel.receives;
      posts.push_back({action, self.clock});
      self.waiting.push_back({&channel, send, posts.size() - 1});
      check_match(channel, posts.size() - 1, send ? stage : peer, send ? peer : stage);
    }
    if (waiting_ == Waiting::kWhenNeeded) pass_group(self, list(stage));
  }

  void pass_group(Rank& self, const ActionList& actions) {
    for (const Ticket& ticket : self.waiting) {
      const Action& action = actions[self.next++];
      if (!ticket.send) self.expected[{action.kind, action.micro, action.chunk}] = ticket;
    }
    self.waiting.clear();
  }

  // The message that a receive expects must be the one that was sent at its place in the order.
  void check_match(const Channel& channel, std::size_t index, int from, int to) const {
    if (index >= channel.sends.size() || index >= channel.receives.size()) return;
    const Action& sent = channel.sends[index].action;
    const Action& expected = channel.receives[index].action;
    const bool forward = sent.kind == Kind::kSendForward;
    const int target = sent.chunk * extent_.stages + from + (forward ? 1 : -1);
    const bool same = forward == (expected.kind == Kind::kRecvForward) &&
                      sent.micro == expected.micro &&
                      target == expected.chunk * extent_.stages + to;
    if (!same)
      fail("schedule: message ", index, " from stage ", from, " to stage ", to, " is the ",
           text_of(sent), ", but the receiver does ", text_of(expected));
  }

  static bool matched(const Ticket& ticket) {
    const auto& other = ticket.send ? ticket.channel->receives : ticket.channel->sends;
    return ticket.index < other.size();
  }

  bool complete_group(Rank& self) {
    if (!std::all_of(self.waiting.begin(), self.waiting.end(), matched)) return false;
    for (const Ticket& ticket : self.waiting) {
      const auto& other = ticket.send ? ticket.channel->receives : ticket.channel->sends;
      self.clock = std::max(self.clock, other[ticket.index].time);
    }
    self.next += self.waiting.size();
    self.waiting.clear();
    return true;
  }

  // The unmatched message, or the computation, at which `stage` stands.
  std::string where(int stage) const {
    const Rank& self = ranks_[static_cast<std::size_t>(stage)];
    std::size_t at = self.next;
    for (const Ticket& ticket : self.waiting) {
      if (!matched(ticket)) break;
      ++at;
    }
    const Action& action = list(stage)[at];
    if (!is_communication(action.kind)) return join("the input of ", text_of(action));
    return join(text_of(action), is_send(action.kind) ? " to" : " from", " stage ",
                peer_of(action, stage, extent_.stages));
  }

  void check_not_stuck() const {
    std::string stuck;
    for (int stage = 0; stage < extent_.stages; ++stage)
      if (ranks_[static_cast<std::size_t>(stage)].next < list(stage).size())
        stuck += join(stuck.empty() ? "" : "; ", "stage ", stage, " waits in ", where(stage));
    check(stuck.empty(), "the schedule deadlocks: ", stuck);
  }

  void check_nothing_left() const {
    for (const auto& [ends, channel] : channels_)
      check(channel.sends.size() == channel.receives.size(), "schedule: stage ", ends.first,
            " sends ", channel.sends.size(), " messages to stage ", ends.second,
            ", which receives ", channel.receives.size());
  }

  const Schedule& schedule_;
  const ScheduleExtent& extent_;
  const ActionCost& cost_;
  Waiting waiting_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, Channel> channels_;
  Simulation result_;
};

}  // namespace

double PassCosts::of(const Action& action) const {
  switch (action.kind) {
    case Kind::kForward:
      return forward;
    case Kind::kBackward:
      return backward_input + backward_weight;
    case Kind::kBackwardInput:
      return backward_input;
    case Kind::kBackwardWeight:
      return backward_weight;
    default:
      return 0;
  }
}

double Simulation::bubble_fraction() const {
  double busy = 0;
  for (const StageTimeline& stage : stages) busy += stage.busy;
  const double whole = makespan * static_cast<double>(stages.size());
  return whole > 0 ? 1 - busy / whole : 0;
}

Simulation simulate(const Schedule& schedule, const ActionCost& cost,
                    const SimulationOptions& options) {
  check(!schedule.empty(), "a schedule needs at least one stage");
  const ScheduleExtent extent = extent_of(schedule);
  for (int stage = 0; stage < extent.stages; ++stage)
    check_stage(schedule[static_cast<std::size_t>(stage)], stage, extent);
  return Run(schedule, extent, cost, options.waiting).finish();
}

Simulation simulate(const Schedule& schedule, const PassCosts& costs,
                    const SimulationOptions& options) {
  return simulate(
      schedule, [&costs](int, const Action& action) { return costs.of(action); }, options);
}

void check_schedule(const Schedule& schedule) { simulate(schedule, PassCosts{}); }

Bubble predicted_bubble(ScheduleKind kind, int p, int m, int v, const PassCosts& costs) {
  const double backward = costs.backward_input + costs.backward_weight;
  double ideal = m * (costs.forward + backward);
  Bubble bubble{(p - 1) * (costs.forward + backward)};
  switch (kind) {
    case ScheduleKind::kGPipe:
    case ScheduleKind::kOneFOneB:
      break;
    case ScheduleKind::kInterleaved:
      bubble.time /= v;
      break;
    case ScheduleKind::kZeroBubbleH1:
      bubble.time = (p - 1) * (costs.forward + costs.backward_input - costs.backward_weight);
      break;
    case ScheduleKind::kForwardOnly:
      ideal = m * costs.forward;
      bubble.time = (p - 1) * costs.forward / v;
      break;
  }
  bubble.of_ideal = bubble.time / ideal;
  bubble.of_total = bubble.time / (ideal + bubble.time);
  return bubble;
}

}  // namespace trireme
