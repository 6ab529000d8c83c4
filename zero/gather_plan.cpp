#include "zero/gather_plan.h"

#include <algorithm>
#include <array>

#include "framework/base/error.h"

namespace trireme {

namespace {

using Units = std::vector<int>;

struct Interval {  // of touches: an enter and a leave
  std::size_t begin = 0, end = 0;
};

bool is_enter(const Touch& touch) { return touch.kind == Touch::Kind::kEnter; }
bool is_leave(const Touch& touch) { return touch.kind == Touch::Kind::kLeave; }

// Units by list entry, in ascending order.
std::vector<Units> units_by_entry(const std::vector<Touch>& touches,
                                  const std::vector<std::vector<int>>& users) {
  int entries = 0;
  for (const Touch& touch : touches) entries = std::max(entries, touch.entry + 1);
  std::vector<Units> units(static_cast<std::size_t>(entries));
  for (std::size_t u = 0; u < users.size(); ++u)
    for (int entry : users[u]) {
      check(entry >= 0, "gather plan: unit ", u, " has list entry ", entry, " as a user");
      if (entry >= entries) continue;
      Units& of_entry = units[static_cast<std::size_t>(entry)];
      if (of_entry.empty() || of_entry.back() != static_cast<int>(u))
        of_entry.push_back(static_cast<int>(u));
    }
  return units;
}

// Where a unit is held, met touch by touch.
struct Holding {
  std::vector<Interval> intervals;
  int busy = 0;     // uses now
  int waiting = 0;  // forward uses whose backward is to come
  bool bridged = false;

  void enter(std::size_t i, bool awaits_backward) {
    if (busy == 0 && !bridged) intervals.push_back({i, i});
    ++busy;
    waiting += awaits_backward;
  }
  // True when this was the last of nested uses.
  bool leave(std::size_t i, bool backward) {
    check(busy > 0, "gather plan: touch ", i, " leaves what was not entered");
    waiting -= backward;
    intervals.back().end = i;
    return --busy == 0;
  }
};

// For each touch the units of the list entry that enters next after it.
std::vector<Units> entering_next(const std::vector<Touch>& touches,
                                 const std::vector<Units>& units) {
  std::vector<Units> next(touches.size());
  for (std::size_t i = touches.size(); i-- > 1;)
    next[i - 1] =
        is_enter(touches[i]) ? units[static_cast<std::size_t>(touches[i].entry)] : next[i];
  return next;
}

// Bridging a turn never raises the peak: nothing enters in between. So all modes do.
bool bridges(int unit, const Holding& holding, const Units& next, Reshard reshard) {
  if (std::find(next.begin(), next.end(), unit) != next.end()) return true;
  return reshard == Reshard::kStep || (reshard == Reshard::kBackward && holding.waiting > 0);
}

std::vector<Holding> hold(const std::vector<Touch>& touches, const GatherPlanOptions& options) {
  std::vector<Holding> holdings(options.users.size());
  const std::vector<Units> units = units_by_entry(touches, options.users);
  const std::vector<Units> next = entering_next(touches, units);
  const bool trains = std::any_of(touches.begin(), touches.end(),
                                  [](const Touch& touch) { return touch.backward; });
  for (std::size_t i = 0; i < touches.size(); ++i) {
    const Touch& touch = touches[i];
    if (!is_enter(touch) && !is_leave(touch)) continue;
    for (int u : units[static_cast<std::size_t>(touch.entry)]) {
      Holding& holding = holdings[static_cast<std::size_t>(u)];
      if (is_enter(touch))
        holding.enter(i, trains && !touch.backward);
      else if (holding.leave(i, touch.backward))
        holding.bridged = bridges(u, holding, next[i], options.reshard);
    }
  }
  for (std::size_t u = 0; u < holdings.size(); ++u)
    check(holdings[u].busy == 0, "gather plan: the pass ends inside ", holdings[u].busy,
          " uses of unit ", u);
  return holdings;
}

void check_bound(const std::vector<Touch>& touches, const std::vector<std::int64_t>& live,
                 const GatherPlanOptions& options) {
  const auto peak = std::max_element(live.begin(), live.end());
  if (options.max_live == 0 || peak == live.end() || *peak <= options.max_live) return;
  constexpr std::array kNames = {"forward", "backward", "step"};
  const Touch& touch = touches[static_cast<std::size_t>(peak - live.begin())];
  throw UsageError(join(
      "zero.max_live_parameters = ", options.max_live, " is too small for zero.reshard = ",
      kNames[static_cast<std::size_t>(options.reshard)], ": the smallest that would do here is ",
      *peak, ", reached in the ", touch.backward ? "backward" : "forward", " of list entry ",
      touch.entry, ", micro-batch ", touch.micro));
}

}  // namespace

GatherPlan::GatherPlan(std::vector<Touch> touches, const GatherPlanOptions& options)
    : touches_(std::move(touches)),
      starts_(touches_.size()),
      ends_(touches_.size()),
      live_(touches_.size(), 0) {
  check(options.users.size() == options.elements.size(), "gather plan: users of ",
        options.users.size(), " units, but elements of ", options.elements.size());
  check(options.max_live >= 0, "zero.max_live_parameters = ", options.max_live,
        " is below 0: use 0 for no bound");

  const std::vector<Holding> holdings = hold(touches_, options);
  for (std::size_t u = 0; u < holdings.size(); ++u) {
    gathers_.push_back(std::ssize(holdings[u].intervals));
    for (const Interval& held : holdings[u].intervals) {
      starts_[held.begin].push_back(static_cast<int>(u));
      ends_[held.end].push_back(static_cast<int>(u));
      add_live(held.begin, held.end, options.elements[u]);
    }
  }
  check_bound(touches_, live_, options);
  if (options.prefetch) prefetch(options);
  if (!live_.empty()) peak_live_ = *std::max_element(live_.begin(), live_.end());
}

// Moves starts to the enter before. The unit's interval before ended earlier still, else the turn
// would have been bridged. Between two enters the live parameters only fall, so the bound needs to
// be looked at only there.
void GatherPlan::prefetch(const GatherPlanOptions& options) {
  std::size_t before = touches_.size();  // the enter before: none yet
  for (std::size_t i = 0; i < touches_.size(); ++i) {
    if (!is_enter(touches_[i])) continue;
    if (before < i)
      std::erase_if(starts_[i], [&](int u) {
        const std::int64_t elements = options.elements[static_cast<std::size_t>(u)];
        if (options.max_live > 0 && live_[before] + elements > options.max_live) return false;
        starts_[before].push_back(u);
        add_live(before, i, elements);
        return true;
      });
    before = i;
  }
}

void GatherPlan::add_live(std::size_t begin, std::size_t end, std::int64_t elements) {
  for (std::size_t i = begin; i < end; ++i) live_[i] += elements;
}

std::int64_t GatherPlan::gathers(int unit) const {
  return gathers_.at(static_cast<std::size_t>(unit));
}

}  // namespace trireme
