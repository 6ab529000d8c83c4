#include "recipes/serve/scheduler.h"

#include <algorithm>
#include <new>

#include "framework/backend/infer_kernels.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::int64_t kLeastShare = 16;  // tokens: smaller chunks of a prompt gain nothing

PlannedRows planned(ServedSequence& s, std::int64_t count) {
  return {.sequence = &s,
          .count = count,
          .last = count == s.left(),
          .first = s.cached,
          .number = s.number,
          .replica = s.replica,
          .preemptions = s.preemptions};
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& o)
    : options_(o),
      running_on_(static_cast<std::size_t>(o.replicas)),
      budgets_(running_on_.size()),
      in_flight_(running_on_.size() * static_cast<std::size_t>(o.stages - 1)) {
  pools_.reserve(running_on_.size());
  for (int r = 0; r < o.replicas; ++r) pools_.emplace_back(o.pages, o.hash_key);
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
  check(pages_for(sequence.most) <= options_.pages, "the request may have ", sequence.most,
        " tokens, but the key/value cache has room for ", options_.pages * kPageTokens);
  const std::uint64_t number = sequence.number, client = sequence.client;
  check(!sequences_.contains(number), "scheduler: sequence ", number, " is here already");
  auto owned = std::make_unique<ServedSequence>(std::move(sequence));
  // Where it waits has memory before anybody can see it.
  std::map<std::uint64_t, Client> place;
  place[next_turn_++] = {client, {{number, owned.get()}}};
  ServedSequence& added = *sequences_.emplace(number, std::move(owned)).first->second;
  const auto line = line_of(client);
  line == line_.end() ? line_.merge(place)
                      : line->second.waiting.merge(place.begin()->second.waiting);
  return added;
}

std::map<std::uint64_t, Scheduler::Client>::iterator Scheduler::line_of(std::uint64_t client) {
  return std::find_if(line_.begin(), line_.end(),
                      [&](const auto& one) { return one.second.number == client; });
}

// A sequence that waits there goes; its client goes to the end if it had its turn.
void Scheduler::leave_line(const ServedSequence& s, bool served) {
  const auto line = line_of(s.client);
  line->second.waiting.erase(s.number);
  if (!served && !line->second.waiting.empty()) return;
  auto node = line_.extract(line);
  if (node.mapped().waiting.empty()) return;
  node.key() = next_turn_++;
  line_.insert(std::move(node));
}

void Scheduler::remove(std::uint64_t number) {
  const auto it = sequences_.find(number);
  if (it == sequences_.end()) return;
  ServedSequence& s = *it->second;
  give_pages(s);
  if (running_.erase(s.turn) > 0) --running_with(s);
  preempted_.erase(s.turn);
  if (s.turn == 0) leave_line(s, false);
  sequences_.erase(it);
}

const ServedSequence* Scheduler::newest() const {
  return running_.empty() ? nullptr : running_.rbegin()->second;
}

void Scheduler::give_pages(ServedSequence& s) {
  for (auto page = s.pages.rbegin(); page != s.pages.rend(); ++page) pool_of(s).give(*page);
  s.pages.clear();
  s.cached = s.computed = s.published = 0;
}

void Scheduler::drive_out(Order::iterator it) {
  give_pages(*it->second);
  ++it->second->preemptions;
  --running_with(*it->second);
  preempted_.insert(running_.extract(it));
}

void Scheduler::pause(std::uint64_t number, bool paused) {
  const auto it = sequences_.find(number);
  if (it == sequences_.end()) return;
  it->second->paused = paused;
  const auto runs = running_.find(it->second->turn);
  if (paused && runs != running_.end()) drive_out(runs);
}

// Pages for the sequence's first `tokens` tokens. Takes them from newer sequences if it must, and
// gives up if it is the newest. One that has rows in flight may be driven out, too: what passes
// write into its pages comes before what a later pass does. Its token still counts.
bool Scheduler::has_room(ServedSequence& s, std::int64_t tokens, bool preempts) {
  while (std::ssize(s.pages) < pages_for(tokens)) {
    if (s.pages.size() == s.pages.capacity()) s.pages.reserve(2 * s.pages.size() + 8);
    const std::int32_t page = pool_of(s).take();
    if (page >= 0) {
      s.pages.push_back(page);
      continue;
    }
    if (!preempts) return false;
    auto newest = std::prev(running_.end());
    while (newest->second->replica != s.replica) --newest;
    const bool itself = newest->second == &s;
    ++preemptions_;
    drive_out(newest);
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
    const auto found = pool_of(s).find(
        s.prefix,
        tokens.subspan(static_cast<std::size_t>(s.cached), static_cast<std::size_t>(kPageTokens)));
    if (found.page < 0) break;
    if (s.pages.size() == s.pages.capacity()) s.pages.reserve(2 * s.pages.size() + 8);
    pool_of(s).share(found.page);
    s.pages.push_back(found.page);
    s.prefix = found.prefix;
    s.cached += kPageTokens;
    ++s.published;
  }
  s.computed = s.cached;
}

// Until its sibling's prompt is there to be shared, or it is resumed.
bool Scheduler::held(const ServedSequence& s) const {
  if (s.paused) return true;
  const auto it = s.waits_for == 0 ? sequences_.end() : sequences_.find(s.waits_for);
  if (it == sequences_.end()) return false;
  const ServedSequence& sibling = *it->second;
  return !running_.contains(sibling.turn) || sibling.computed < sibling.prompt;
}

// Who is to run next: one that was driven out, else the first of the client whose turn it is.
ServedSequence* Scheduler::candidate() const {
  const auto first = [&](const Order& order) -> ServedSequence* {
    for (const auto& [key, s] : order)
      if (!held(*s)) return s;
    return nullptr;
  };
  for (const auto& [turn, s] : preempted_)
    if (s->in_flight > 0) return nullptr;  // whose token comes first
  if (ServedSequence* s = first(preempted_)) return s;
  for (const auto& [turn, client] : line_)
    if (ServedSequence* s = first(client.waiting)) return s;
  return nullptr;
}

// False if nobody may run, or who is next finds no room.
bool Scheduler::admit(std::vector<PlannedRows>& rows) {
  const auto open = [&](std::size_t r) {
    return running_on_[r] < options_.sequences && budgets_[r] > 0;
  };
  std::size_t best = 0;
  while (best < pools_.size() && !open(best)) ++best;
  ServedSequence* next = best < pools_.size() ? candidate() : nullptr;
  if (!next) return false;
  if (pools_.size() == 1) return admit_on(0, *next, rows);
  std::vector<std::pair<std::int64_t, int>> order;
  for (std::size_t r = best; r < pools_.size(); ++r)
    if (open(r)) order.emplace_back(cost(*next, static_cast<int>(r)), static_cast<int>(r));
  std::sort(order.begin(), order.end());
  return std::any_of(order.begin(), order.end(),
                     [&](const auto& one) { return admit_on(one.second, *next, rows); });
}

std::int64_t Scheduler::cost(const ServedSequence& s, int replica) const {
  std::int64_t tokens = s.length() + kAnswerCost * running_on(replica);
  for (const auto& [turn, other] : running_)
    if (other->replica == replica) tokens += other->left();
  PagePool::Prefix prefix = PagePool::root(static_cast<std::uint64_t>(s.salt));
  const std::span<const std::int32_t> all = s.tokens;
  for (std::int64_t at = 0; s.shares_prefix && at + kPageTokens < s.length(); at += kPageTokens) {
    const auto found = pool(replica).find(
        prefix, all.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(kPageTokens)));
    if (found.page < 0) break;
    prefix = found.prefix;
    tokens -= kPageTokens;
  }
  return tokens;
}

bool Scheduler::admit_on(int replica, ServedSequence& s, std::vector<PlannedRows>& rows) {
  std::int64_t& budget = budgets_[static_cast<std::size_t>(replica)];
  s.replica = replica;
  std::int64_t count = 0;
  bool room = false;
  Order place;
  try {
    if (s.turn == 0) place.emplace(next_turn_, &s);
    take_prefix(s);
    count = std::min(budget, s.left());
    // One page for each that runs is kept back, so that new ones do not drive old ones out at once.
    const std::int64_t missing = pages_for(s.cached + count) - std::ssize(s.pages);
    const std::int64_t others = running_with(s);
    room = (others == 0 || pool_of(s).free() >= missing + others) &&
           has_room(s, s.cached + count, false);
  } catch (...) {
    give_pages(s);
    throw;
  }
  if (!room) {
    give_pages(s);
    return false;
  }
  if (s.turn > 0)
    running_.insert(preempted_.extract(s.turn));
  else
    begin(s, place);
  ++running_with(s);
  budget -= count;
  rows.push_back(planned(s, count));
  return true;
}

// Its first admission, to a place that was made for it.
void Scheduler::begin(ServedSequence& s, Order& place) {
  s.turn = next_turn_++;
  running_.merge(place);
  leave_line(s, true);
  if (!s.shares_prefix) return;
  s.prefix_hits = s.cached;
  prefix_queries_ += s.length();
  prefix_hits_ += s.cached;
}

// Tokens of those that would be admitted if there were pages.
std::int64_t Scheduler::waiting_tokens() const {
  std::int64_t places = options_.sequences * options_.replicas - running(), tokens = 0;
  const auto add = [&](const Order& order) {
    for (const auto& [key, s] : order)
      if (places > 0 && !s->paused) {
        tokens += s->left();
        --places;
      }
  };
  add(preempted_);
  for (const auto& [turn, client] : line_) add(client.waiting);
  return tokens;
}

// What a pass of this replica may have, so that all in flight have the same.
std::int64_t Scheduler::share_of(int replica) const {
  if (options_.stages == 1) return options_.budget;
  std::int64_t tokens = waiting_tokens() / options_.replicas;
  for (const auto& [turn, s] : running_)
    if (s->replica == replica) tokens += s->left();
  const auto others = static_cast<std::ptrdiff_t>(options_.stages - 1);
  const auto first = in_flight_.begin() + replica * others;
  for (auto one = first; one != first + others; ++one) tokens += *one;
  const std::int64_t share = (tokens + options_.stages - 1) / options_.stages;
  return std::min(options_.budget, std::max(kLeastShare, share));
}

std::vector<PlannedRows> Scheduler::plan() {
  std::vector<PlannedRows> rows;
  rows.reserve(static_cast<std::size_t>(options_.sequences * options_.replicas));
  std::vector<std::int64_t> turns(pools_.size());  // sequences that may decode
  ++passes_;
  for (int r = 0; r < options_.replicas; ++r) {
    const auto at = static_cast<std::size_t>(r);
    budgets_[at] = share_of(r);
    turns[at] = (running_on_[at] + options_.stages - 1) / options_.stages;
    if (options_.stages > 1) in_flight_of(r) = 0;
  }
  for (const bool decoding : {true, false}) {
    for (auto it = running_.begin(); it != running_.end();) {
      ServedSequence& s = *it->second;
      const auto at = static_cast<std::size_t>(s.replica);
      const std::uint64_t turn = it->first;
      const std::int64_t count = std::min(budgets_[at], s.left());
      if (decoding == (s.left() == 1) && count > 0 && (!decoding || turns[at] > 0) &&
          has_room(s, s.cached + count, true)) {
        budgets_[at] -= count;
        turns[at] -= decoding;
        rows.push_back(planned(s, count));
      }
      it = running_.upper_bound(turn);
    }
  }
  // Who was driven out after it was planned does not run.
  std::erase_if(rows, [&](const PlannedRows& r) { return !running_.contains(r.sequence->turn); });
  while (admit(rows)) {
  }
  return rows;
}

void Scheduler::started(const std::vector<PlannedRows>& rows) noexcept {
  for (const PlannedRows& r : rows) {
    r.sequence->cached += r.count;
    ++r.sequence->in_flight;
    if (options_.stages > 1) in_flight_of(r.replica) += r.count;
  }
}

void Scheduler::computed(const std::vector<PlannedRows>& rows) {
  for (const PlannedRows& r : rows) {
    const auto it = sequences_.find(r.number);
    if (it == sequences_.end()) continue;
    ServedSequence& s = *it->second;
    --s.in_flight;
    if (s.preemptions != r.preemptions) continue;  // its pages are others' now
    s.computed += r.count;
    try {
      publish(s);
    } catch (const std::bad_alloc&) {  // not shared now: the next pass tries again
    }
  }
}

void Scheduler::publish(ServedSequence& s) {
  const std::span<const std::int32_t> tokens = s.tokens;
  for (; (s.published + 1) * kPageTokens <= s.computed; ++s.published)
    s.prefix =
        pool_of(s).publish(s.pages[static_cast<std::size_t>(s.published)], s.prefix,
                           tokens.subspan(static_cast<std::size_t>(s.published * kPageTokens),
                                          static_cast<std::size_t>(kPageTokens)));
}

}  // namespace trireme
