#include "recipes/serve/scheduler.h"

#include <algorithm>

#include "framework/backend/infer_kernels.h"
#include "framework/base/error.h"

namespace trireme {

Scheduler::Scheduler(const SchedulerOptions& o) : options_(o), pool_(o.pages, o.hash_key) {
  check(o.pages > 0 && o.sequences > 0, "scheduler: ", o.pages, " pages for ", o.sequences,
        " sequences at a time");
  check(o.budget >= o.sequences, "scheduler: a pass of ", o.budget,
        " tokens is too small for one token of each of ", o.sequences, " sequences");
}

ServedSequence& Scheduler::add(ServedSequence sequence) {
  check(sequence.prompt > 0 && sequence.length() == sequence.prompt &&
            sequence.most >= sequence.prompt,
        "scheduler: a sequence of ", sequence.length(), " tokens, ", sequence.prompt,
        " of them prompt, that may have ", sequence.most);
  check(pages_for(sequence.most) <= pool_.pages(), "the request may have ", sequence.most,
        " tokens, but the key/value cache has room for ", pool_.pages() * kPageTokens);
  check(!waiting_.contains(sequence.number) && !running_.contains(sequence.number),
        "scheduler: sequence ", sequence.number, " is here already");
  auto& place = waiting_[sequence.number];
  place = std::make_unique<ServedSequence>(std::move(sequence));
  return *place;
}

void Scheduler::remove(std::uint64_t number) {
  for (Order* order : {&waiting_, &running_}) {
    const auto it = order->find(number);
    if (it == order->end()) continue;
    give_pages(*it->second);
    order->erase(it);
  }
}

void Scheduler::give_pages(ServedSequence& s) {
  for (auto page = s.pages.rbegin(); page != s.pages.rend(); ++page) pool_.give(*page);
  s.pages.clear();
  s.cached = s.published = 0;
}

void Scheduler::preempt(Order::iterator it) {
  give_pages(*it->second);
  ++it->second->preemptions;
  ++preemptions_;
  waiting_[it->first] = std::move(it->second);
  running_.erase(it);
}

// Pages for the sequence's first `tokens` tokens. Takes them from newer sequences if it must, and
// gives up if it is the newest.
bool Scheduler::has_room(ServedSequence& s, std::int64_t tokens, bool preempts) {
  while (std::ssize(s.pages) < pages_for(tokens)) {
    const std::int32_t page = pool_.take();
    if (page >= 0) {
      s.pages.push_back(page);
      continue;
    }
    if (!preempts) return false;
    const auto newest = std::prev(running_.end());
    const bool itself = newest->first == s.number;
    preempt(newest);
    if (itself) return false;
  }
  return true;
}

// Full pages that hold the beginning already; at least one token is left to compute.
void Scheduler::take_prefix(ServedSequence& s) {
  s.prefix = PagePool::root(static_cast<std::uint64_t>(s.salt));
  if (!s.shares_prefix) return;
  const std::span<const std::int32_t> tokens = s.tokens;
  while (s.cached + kPageTokens < s.length()) {
    const auto found = pool_.find(s.prefix, tokens.subspan(static_cast<std::size_t>(s.cached),
                                                           static_cast<std::size_t>(kPageTokens)));
    if (found.page < 0) break;
    pool_.share(found.page);
    s.pages.push_back(found.page);
    s.prefix = found.prefix;
    s.cached += kPageTokens;
    ++s.published;
  }
}

// The sequence that has waited longest and may run. False if it, or nobody, can.
bool Scheduler::admit(std::vector<PlannedRows>& rows, std::int64_t& budget) {
  auto it = waiting_.begin();
  const auto held =
      [&](const ServedSequence& s) {  // until its sibling's prompt is there to be shared
        if (s.waits_for == 0) return false;
        if (waiting_.contains(s.waits_for)) return true;
        const auto sibling = running_.find(s.waits_for);
        return sibling != running_.end() && sibling->second->cached < sibling->second->prompt;
      };
  while (it != waiting_.end() && held(*it->second)) ++it;
  if (it == waiting_.end() || running() >= options_.sequences || budget <= 0) return false;
  ServedSequence& s = *it->second;
  take_prefix(s);
  const std::int64_t count = std::min(budget, s.left());
  // One page for each that runs is kept back, so that new ones do not drive old ones out at once.
  const std::int64_t missing = pages_for(s.cached + count) - std::ssize(s.pages);
  if ((running() > 0 && pool_.free() < missing + running()) ||
      !has_room(s, s.cached + count, false)) {
    give_pages(s);
    return false;
  }
  if (s.preemptions == 0 && s.shares_prefix) {
    s.prefix_hits = s.cached;
    prefix_queries_ += s.length();
    prefix_hits_ += s.cached;
  }
  budget -= count;
  rows.push_back({&s, count, count == s.left()});
  running_[it->first] = std::move(it->second);
  waiting_.erase(it);
  return true;
}

std::vector<PlannedRows> Scheduler::plan() {
  std::vector<PlannedRows> rows;
  std::int64_t budget = options_.budget;
  for (const bool decoding : {true, false}) {
    for (auto it = running_.begin(); it != running_.end() && budget > 0;) {
      ServedSequence& s = *it->second;
      const std::uint64_t number = it->first;
      const std::int64_t count = std::min(budget, s.left());
      if (decoding == (s.left() == 1) && count > 0 && has_room(s, s.cached + count, true)) {
        budget -= count;
        rows.push_back({&s, count, count == s.left()});
      }
      it = running_.upper_bound(number);
    }
  }
  // Who was driven out after it was planned does not run.
  std::erase_if(rows, [&](const PlannedRows& r) { return !running_.contains(r.sequence->number); });
  while (admit(rows, budget)) {
  }
  return rows;
}

void Scheduler::computed(const std::vector<PlannedRows>& rows) {
  for (const PlannedRows& r : rows) {
    ServedSequence& s = *r.sequence;
    s.cached += r.count;
    const std::span<const std::int32_t> tokens = s.tokens;
    for (; (s.published + 1) * kPageTokens <= s.cached; ++s.published)
      s.prefix = pool_.publish(s.pages[static_cast<std::size_t>(s.published)], s.prefix,
                               tokens.subspan(static_cast<std::size_t>(s.published * kPageTokens),
                                              static_cast<std::size_t>(kPageTokens)));
  }
}

}  // namespace trireme
