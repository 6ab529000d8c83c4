#include "framework/comm/call.h"

#include <algorithm>
#include <vector>

#include "framework/base/error.h"

namespace trireme {

const char* name_of(CallKind kind) {
  switch (kind) {
    case CallKind::kAllReduce:
    case CallKind::kAllReduceMax:
      return "all_reduce";
    case CallKind::kQuickAllReduce:
      return "quick_all_reduce";
    case CallKind::kAllGather:
      return "all_gather";
    case CallKind::kReduceScatter:
      return "reduce_scatter";
    case CallKind::kBroadcast:
      return "broadcast";
    case CallKind::kSend:
      return "send";
    case CallKind::kRecv:
      return "recv";
    case CallKind::kBarrier:
      return "barrier";
    case CallKind::kSplit:
      return "split";
  }
  return "?";
}

std::string text_of(const Call& call, const std::string& axis) {
  std::string text = name_of(call.kind);
  if (call.kind == CallKind::kAllReduceMax) text += " (max)";
  if (call.kind != CallKind::kBarrier && call.kind != CallKind::kSplit)
    text += join(" of ", call.elements, " ", name_of(call.dtype), " (", call.bytes(), " bytes)");
  if (call.kind == CallKind::kSend) text += join(" to rank ", call.peer);
  if (call.kind == CallKind::kRecv || call.kind == CallKind::kBroadcast)
    text += join(" from rank ", call.peer);
  return join(text, call.is_message() ? ", message " : ", call ", call.sequence, " of ", axis);
}

namespace {

bool agree(const Call& a, const Call& b) {
  if (a.dtype != b.dtype || a.elements != b.elements) return false;
  if (a.is_message() && b.is_message()) return true;  // the two ends of one message
  return a.kind == b.kind && a.peer == b.peer;
}

// The first call of the largest class of agreeing ones.
std::size_t norm_of(std::span<const Call> calls) {
  std::size_t best = 0;
  std::ptrdiff_t most = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto same = std::count_if(calls.begin(), calls.end(),
                                    [&](const Call& other) { return agree(calls[i], other); });
    if (same > most) {
      best = i;
      most = same;
    }
  }
  return best;
}

}  // namespace

std::string mismatch(std::span<const Call> calls, std::span<const int> world_ranks,
                     const std::string& axis) {
  const auto differs = [&](const Call& call) { return !agree(call, calls[0]); };
  const auto first = std::find_if(calls.begin(), calls.end(), differs);
  if (first == calls.end()) return {};
  const std::size_t norm = norm_of(calls);
  std::size_t odd = 0;
  while (agree(calls[odd], calls[norm])) ++odd;
  return join("rank ", world_ranks[odd], " called ", text_of(calls[odd], axis), ", where rank ",
              world_ranks[norm], " called ", text_of(calls[norm], axis));
}

void CallLog::set_place(std::string place) {
  auto shared = std::make_shared<const std::string>(std::move(place));
  std::lock_guard lock(mutex_);
  place_ = std::move(shared);
}

std::string CallLog::place() const {
  std::lock_guard lock(mutex_);
  return *place_;
}

void CallLog::record(const Call& call, const std::string& axis) {
  std::lock_guard lock(mutex_);
  Entry& entry = entries_[recorded_++ % kRemembered];
  entry.call = call;
  entry.axis = axis;
  entry.place = place_;
}

std::string CallLog::text_of_entry(const Entry& entry) {
  const std::string text = text_of(entry.call, entry.axis);
  return entry.place->empty() ? text : text + " at " + *entry.place;
}

std::string CallLog::last() const {
  std::lock_guard lock(mutex_);
  return recorded_ == 0 ? "no call yet" : text_of_entry(entries_[(recorded_ - 1) % kRemembered]);
}

std::string CallLog::lines(const std::string& prefix) const {
  std::lock_guard lock(mutex_);
  std::string text;
  for (std::size_t i = recorded_ - std::min(recorded_, kRemembered); i < recorded_; ++i)
    text += prefix + text_of_entry(entries_[i % kRemembered]) + "\n";
  return text;
}

}  // namespace trireme
