// The scheduler by itself: random events may neither starve a sequence nor lose a page; clients
// take turns.
#include "recipes/serve/scheduler.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "framework/backend/infer_kernels.h"

namespace trireme::test {
namespace {

// A scheduler with what a model and its clients do to it, and the rules that hold after each event.
class Events {
 public:
  Events(const SchedulerOptions& options, std::uint64_t seed)
      : options_(options), scheduler_(options), random_(seed) {}

  void add(std::uint64_t client, std::int64_t prompt, std::int64_t most,
           std::uint64_t sibling = 0) {
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; i < prompt; ++i)  // few different ones: prefixes are shared
      tokens.push_back(static_cast<std::int32_t>(i % 40 == 39 ? random_() % 3 : i % 7));
    Known known{.client = client};
    known.sequence = &scheduler_.add({.number = next_,
                                      .client = client,
                                      .tokens = std::move(tokens),
                                      .prompt = prompt,
                                      .most = prompt + most,
                                      .salt = static_cast<std::int64_t>(client % 2),
                                      .waits_for = sibling});
    // Clients that stand in the line before it, and its own sequences.
    std::set<std::uint64_t> others;
    for (const auto& [number, k] : all_)
      if (k.sequence->turn == 0 && k.client != client) others.insert(k.client);
    for (const auto& [number, k] : all_)
      if (k.sequence->turn == 0 && k.client == client) ++known.own_before;
    known.clients = static_cast<std::int64_t>(others.size());
    all_.emplace(next_++, known);
  }
  void remove() {
    if (all_.empty()) return;
    auto it = all_.begin();
    std::advance(it, random_() % all_.size());
    scheduler_.remove(it->first);
    all_.erase(it);
  }
  // One pass: every sequence whose last token was computed gets another, or ends.
  void pass() {
    const std::vector<PlannedRows> rows = scheduler_.plan();
    expect_fair_admissions();
    std::int64_t tokens = 0;
    std::set<std::int32_t> written;
    for (const PlannedRows& r : rows) {
      const ServedSequence& s = *r.sequence;
      tokens += r.count;
      ASSERT_GE(r.count, 1);
      ASSERT_EQ(std::count_if(rows.begin(), rows.end(),
                              [&](const auto& other) { return other.sequence == &s; }),
                1);
      ASSERT_LE(s.cached + r.count, s.length());
      ASSERT_LE(pages_for(s.cached + r.count), std::ssize(s.pages));
      for (std::int64_t p = s.cached / kPageTokens; p < pages_for(s.cached + r.count); ++p)
        ASSERT_TRUE(written.insert(s.pages[static_cast<std::size_t>(p)]).second)
            << "a page that two sequences write";
    }
    ASSERT_LE(tokens, options_.budget);
    ASSERT_LE(scheduler_.running(), options_.sequences);
    for (const auto& [number, k] : all_)  // what is shared is read only
      for (std::int64_t p = 0; p < k.sequence->cached / kPageTokens; ++p)
        ASSERT_FALSE(written.contains(k.sequence->pages[static_cast<std::size_t>(p)]));
    // Who was admitted first goes on in every pass.
    const Known* oldest = nullptr;
    for (const auto& [number, k] : all_)
      if (k.sequence->turn > 0 && (!oldest || k.sequence->turn < oldest->sequence->turn))
        oldest = &k;
    if (oldest) {
      ASSERT_TRUE(std::any_of(rows.begin(), rows.end(),
                              [&](const auto& r) { return r.sequence == oldest->sequence; }));
    } else {
      ASSERT_TRUE(all_.empty()) << "nobody runs, but some wait";
    }
    scheduler_.started(rows);
    scheduler_.computed(rows);
    for (const PlannedRows& r : rows) {
      ServedSequence& s = *r.sequence;
      if (!r.last) continue;
      s.tokens.push_back(static_cast<std::int32_t>(random_() % 5));
      if (s.length() < s.most) continue;
      ++ended;
      all_.erase(s.number);
      scheduler_.remove(s.number);
    }
  }
  // Every page is free or owned.
  void expect_no_leak() const {
    std::set<std::int32_t> owned;
    for (const auto& [number, k] : all_)
      owned.insert(k.sequence->pages.begin(), k.sequence->pages.end());
    ASSERT_EQ(std::ssize(owned) + scheduler_.pool().free(), scheduler_.pool().pages());
    ASSERT_EQ(scheduler_.running() + scheduler_.waiting(), std::ssize(all_));
  }
  std::size_t size() const { return all_.size(); }
  std::uint64_t last() const { return next_ - 1; }
  const Scheduler& scheduler() const { return scheduler_; }
  // Clients in the order in which their sequences were admitted.
  const std::vector<std::uint64_t>& admitted() const { return admitted_; }
  std::int64_t ended = 0, longest_wait = 0;

 private:
  struct Known {
    std::uint64_t client = 0;
    const ServedSequence* sequence = nullptr;
    std::int64_t own_before = 0, clients = 0;  // when it came
    std::int64_t waited = 0;                   // admissions of others since
    bool counted = false;
  };
  // A sequence waits for those of its own client, and for a turn of every other with each.
  void expect_fair_admissions() {
    std::map<std::uint64_t, Known*> now;
    for (auto& [number, k] : all_)
      if (k.sequence->turn > 0 && !std::exchange(k.counted, true)) now[k.sequence->turn] = &k;
    for (const auto& [turn, k] : now) {
      admitted_.push_back(k->client);
      for (auto& [number, other] : all_)
        if (!other.counted || (other.sequence->turn > turn && now.contains(other.sequence->turn)))
          ++other.waited;
      // Siblings wait for each other's prompts, not for turns; new clients come behind.
      if (k->sequence->waits_for > 0) continue;
      longest_wait = std::max(longest_wait, k->waited);
      ASSERT_LE(k->waited, (k->own_before + 1) * (k->clients + 1 + kMostClients));
    }
  }
  static constexpr std::int64_t kMostClients = 6;

  SchedulerOptions options_;
  Scheduler scheduler_;
  std::mt19937_64 random_;
  std::map<std::uint64_t, Known> all_;
  std::vector<std::uint64_t> admitted_;
  std::uint64_t next_ = 1;
};

TEST(Scheduler, TenThousandRandomEventsNeitherStarveNorLeak) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    std::mt19937_64 random(seed);
    Events run({.pages = 20 + 4 * static_cast<std::int64_t>(seed), .budget = 40, .sequences = 8},
               seed);
    for (int event = 0; event < 10'000; ++event) {
      const std::uint64_t kind = random() % 10;
      if (kind < 3 && run.size() < 60) {
        const auto prompt = static_cast<std::int64_t>(1 + random() % 200);
        const auto most = static_cast<std::int64_t>(1 + random() % 60);
        const std::uint64_t client = random() % 3 == 0 ? random() % 6 : 0;  // one asks for most
        run.add(client, prompt, most);
        if (random() % 8 == 0) {
          const std::uint64_t first = run.last();
          run.add(client, prompt, most, first);
          run.add(client, prompt, most, first);
        }
      } else if (kind == 3) {
        run.remove();
      } else {
        run.pass();
      }
      if (::testing::Test::HasFatalFailure()) return;
      run.expect_no_leak();
      if (::testing::Test::HasFatalFailure()) return;
    }
    for (int left = 20'000; run.size() > 0 && left > 0; --left) {
      run.pass();
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_EQ(run.size(), 0u) << "somebody starves";
    run.expect_no_leak();
    EXPECT_GT(run.ended, 300);
    EXPECT_GT(run.scheduler().preemptions(), 0);
    EXPECT_GT(run.scheduler().prefix_hits(), 0);
  }
}

// One asks for much, the others come later for little: they do not wait behind it.
TEST(Scheduler, ClientsTakeTurns) {
  Events run({.pages = 64, .budget = 64, .sequences = 1}, 1);
  for (int i = 0; i < 5; ++i) run.add(7, 20, 3);
  run.pass();
  run.add(3, 20, 3);
  run.add(3, 20, 3);
  run.add(9, 20, 3);
  while (run.size() > 0) run.pass();
  EXPECT_EQ(run.admitted(), (std::vector<std::uint64_t>{7, 7, 3, 9, 7, 3, 7, 7}));
}

// Clients that come again and again stand behind who waits already, whatever their numbers.
TEST(Scheduler, NewClientsDoNotPushAhead) {
  Events run({.pages = 64, .budget = 64, .sequences = 1}, 1);
  run.add(5, 20, 2);
  run.pass();
  run.add(4, 20, 2);
  for (std::uint64_t client = 6; run.admitted().size() < 2; ++client) {
    run.add(client, 20, 2);
    run.pass();
    ASSERT_LT(client, 20u);
  }
  EXPECT_EQ(run.admitted()[1], 4u);
}

// Sequences that are removed in whatever state leave nothing behind.
TEST(Scheduler, RemovalFreesEveryState) {
  Events run({.pages = 12, .budget = 32, .sequences = 4}, 5);
  for (int i = 0; i < 8; ++i) run.add(static_cast<std::uint64_t>(i % 3), 60, 60);
  for (int i = 0; i < 30; ++i) run.pass();  // some run, some were driven out, some wait
  EXPECT_GT(run.scheduler().preemptions(), 0);
  while (run.size() > 0) {
    run.remove();
    run.expect_no_leak();
  }
  EXPECT_EQ(run.scheduler().pool().free(), 12);
}

}  // namespace
}  // namespace trireme::test
