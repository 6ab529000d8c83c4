#include "pipeline/schedule.h"

#include <algorithm>
#include <array>

#include "framework/base/error.h"
#include "pipeline/lowering.h"

namespace trireme {
namespace {

using Kind = Action::Kind;

constexpr std::array kScheduleNames = {std::string_view("gpipe"), std::string_view("1f1b"),
                                       std::string_view("interleaved"), std::string_view("zb-h1"),
                                       std::string_view("forward-only")};

void check_sizes(int p, int m, int v) {
  check(p >= 1, "a pipeline of ", p, " stages: use 1 or more");
  check(m >= 1, "a pipeline with ", m, " micro-batches: use 1 or more");
  check(v >= 1, "a pipeline with ", v, " chunks per stage: use 1 or more");
}

ActionList gpipe_order(int m) {
  ActionList order;
  for (int i = 0; i < m; ++i) order.push_back({Kind::kForward, i, 0});
  for (int i = m - 1; i >= 0; --i) order.push_back({Kind::kBackward, i, 0});
  return order;
}

// Forward k and backward k of n in turn, after `warmup` forwards.
template <typename Forward, typename Backward>
ActionList alternate(int n, int warmup, Forward forward, Backward backward) {
  ActionList order;
  for (int k = 0; k < warmup; ++k) order.push_back(forward(k));
  for (int k = warmup; k < n; ++k) {
    order.push_back(forward(k));
    order.push_back(backward(k - warmup));
  }
  for (int k = n - warmup; k < n; ++k) order.push_back(backward(k));
  return order;
}

ActionList one_f_one_b_order(int p, int m, int stage) {
  return alternate(
      m, std::min(p - stage - 1, m),
      [](int k) {
        return Action{Kind::kForward, k, 0};
      },
      [](int k) {
        return Action{Kind::kBackward, k, 0};
      });
}

ActionList interleaved_order(int p, int m, int v, int stage) {
  if (v == 1) return one_f_one_b_order(p, m, stage);
  const int n = m * v;
  const int warmup = m == p ? n : std::min(n, 2 * (p - stage - 1) + (v - 1) * p);
  // Step k of a group of p * v: p micro-batches through one chunk, then through the next.
  auto step = [p, v](Kind kind, int k) {
    const int group = k / (p * v), within = k % (p * v);
    const int chunk = within / p;
    return Action{kind, group * p + within % p, kind == Kind::kForward ? chunk : v - 1 - chunk};
  };
  return alternate(
      n, warmup, [&](int k) { return step(Kind::kForward, k); },
      [&](int k) { return step(Kind::kBackward, k); });
}

ActionList zero_bubble_order(int p, int m, int stage) {
  ActionList order;
  int forwards = 0, weights = 0;
  while (forwards < std::min(p - stage, m)) order.push_back({Kind::kForward, forwards++, 0});
  for (int i = 0; i < m; ++i) {
    order.push_back({Kind::kBackwardInput, i, 0});
    if (i + 1 - weights > stage) order.push_back({Kind::kBackwardWeight, weights++, 0});
    if (forwards < m) order.push_back({Kind::kForward, forwards++, 0});
  }
  while (weights < m) order.push_back({Kind::kBackwardWeight, weights++, 0});
  return order;
}

ActionList forward_order(int p, int m, int v) {
  ActionList order;
  for (int group = 0; group < m; group += p)
    for (int chunk = 0; chunk < v; ++chunk)
      for (int i = group; i < std::min(group + p, m); ++i)
        order.push_back({Kind::kForward, i, chunk});
  return order;
}

ActionList order_of(ScheduleKind kind, int p, int m, int v, int stage) {
  switch (kind) {
    case ScheduleKind::kGPipe:
      return gpipe_order(m);
    case ScheduleKind::kOneFOneB:
      return one_f_one_b_order(p, m, stage);
    case ScheduleKind::kInterleaved:
      return interleaved_order(p, m, v, stage);
    case ScheduleKind::kZeroBubbleH1:
      return zero_bubble_order(p, m, stage);
    case ScheduleKind::kForwardOnly:
      return forward_order(p, m, v);
  }
  fail("unknown schedule");
}

void check_interleaved(int p, int m, int v) {
  check(v == 1 || m % p == 0, "schedule interleaved with ", v, " chunks on ", p,
        " stages needs a number of micro-batches that is a multiple of ", p, ", not ", m, ": use ",
        std::max(p, m - m % p), " or ", std::max(2 * p, m - m % p + p));
}

ActionList list_of(ScheduleKind kind, int p, int m, int v, int stage) {
  check_sizes(p, m, v);
  check(stage >= 0 && stage < p, "stage ", stage, " of a pipeline of ", p, " stages: use 0 to ",
        p - 1);
  return make_schedule(kind, p, m, v)[static_cast<std::size_t>(stage)];
}

}  // namespace

bool is_communication(Kind kind) { return kind >= Kind::kSendForward; }

bool is_send(Kind kind) { return kind == Kind::kSendForward || kind == Kind::kSendBackward; }

std::string text_of(const Action& action) {
  constexpr std::array kNames = {"forward",         "backward",        "input backward",
                                 "weight backward", "send forward",    "receive forward",
                                 "send backward",   "receive backward"};
  return join(kNames[static_cast<std::size_t>(action.kind)], " of micro-batch ", action.micro,
              ", chunk ", action.chunk);
}

std::size_t group_end(const ActionList& list, std::size_t begin) {
  while (begin < list.size() && is_communication(list[begin].kind)) ++begin;
  return begin;
}

int peer_of(const Action& action, int stage, int stages) {
  if (!is_communication(action.kind))
    fail(text_of(action), " has no peer: it is not communication");
  const bool next = action.kind == Kind::kSendForward || action.kind == Kind::kRecvBackward;
  return (stage + (next ? 1 : stages - 1)) % stages;
}

ActionList gpipe(int p, int m, int stage) { return list_of(ScheduleKind::kGPipe, p, m, 1, stage); }
ActionList one_f_one_b(int p, int m, int stage) {
  return list_of(ScheduleKind::kOneFOneB, p, m, 1, stage);
}
ActionList interleaved(int p, int m, int v, int stage) {
  return list_of(ScheduleKind::kInterleaved, p, m, v, stage);
}
ActionList zero_bubble_h1(int p, int m, int stage) {
  return list_of(ScheduleKind::kZeroBubbleH1, p, m, 1, stage);
}
ActionList forward_only(int p, int m, int v, int stage) {
  return list_of(ScheduleKind::kForwardOnly, p, m, v, stage);
}

std::string_view name_of(ScheduleKind kind) {
  return kScheduleNames[static_cast<std::size_t>(kind)];
}

ScheduleKind schedule_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kScheduleNames.size(); ++i)
    if (kScheduleNames[i] == name) return static_cast<ScheduleKind>(i);
  fail("there is no schedule \"", name, "\": use gpipe, 1f1b, interleaved, zb-h1 or forward-only");
}

Schedule make_schedule(ScheduleKind kind, int p, int m, int v) {
  check_sizes(p, m, v);
  const bool chunked = kind == ScheduleKind::kInterleaved || kind == ScheduleKind::kForwardOnly;
  check(chunked || v == 1, "schedule ", name_of(kind), " has one chunk per stage, not ", v,
        ": use schedule interleaved");
  if (kind == ScheduleKind::kInterleaved) check_interleaved(p, m, v);
  Schedule orders;
  for (int stage = 0; stage < p; ++stage) orders.push_back(order_of(kind, p, m, v, stage));
  return add_communication(orders);
}

}  // namespace trireme
