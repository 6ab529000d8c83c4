#include "recipes/serve/bench.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::int64_t kRowsAtOnce = 512;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Texts of a test: dealt out to replicas, and there to as many passes as may be in flight, each of
// which goes on when the one before it has answered.
class Texts {
 public:
  Texts(ModelRunner& runner, const BenchTest& t, const std::function<bool()>& ends)
      : runner_(runner),
        ends_(ends),
        replicas_(runner.replicas()),
        each_(pages_each(t)),
        batch_(t.batch) {
    const std::int64_t here = (batch_ + replicas_ - 1) / replicas_;  // of the fullest replica
    groups_ = std::min<std::int64_t>(runner.stages(), here);
    pages_.resize(static_cast<std::size_t>(here * each_));
    std::iota(pages_.begin(), pages_.end(), 0);
  }
  static std::int64_t pages_each(const BenchTest& t) {
    return pages_for(t.depth + t.prompt + t.generate);
  }
  void forget() { done_ = 0; }
  // `count` more tokens of every text, the next of which may be in flight when it returns.
  void go_on(std::int64_t count) {
    const std::int64_t texts = (batch_ + replicas_ * groups_ - 1) / (replicas_ * groups_),
                       at_once = std::max<std::int64_t>(1, kRowsAtOnce / texts),
                       wave = (count + runner_.stages() - 1) / runner_.stages();
    for (const std::int64_t end = done_ + count; done_ < end && !ended_;) {
      const std::int64_t rows = std::min({end - done_, at_once, wave});
      for (std::int64_t group = 0; group < groups_; ++group) pass(group, rows, done_ + rows == end);
      done_ += rows;
    }
  }
  void settle() {
    for (; flying_ > 0; --flying_) runner_.finish();
  }
  // Was it asked to end before all was done?
  bool ended() const { return ended_; }

 private:
  // Chunks of a prompt need not wait for each other; tokens wait for their text's last one.
  void pass(std::int64_t group, std::int64_t rows, bool wanted) {
    ended_ = ended_ || (ends_ && ends_());
    if (ended_) return;
    const std::int64_t most = wanted && rows == 1 ? groups_ : runner_.stages();
    for (; flying_ >= most; --flying_) runner_.finish();
    std::vector<InferenceRows> passes(static_cast<std::size_t>(replicas_));
    for (std::int64_t i = 0; i < batch_; ++i) {
      const std::int64_t here = i / replicas_;
      if (here % groups_ == group)
        add(passes[static_cast<std::size_t>(i % replicas_)], i, here * each_, rows, wanted);
    }
    runner_.start(passes);
    ++flying_;
  }
  void add(InferenceRows& to, std::int64_t text, std::int64_t page, std::int64_t rows,
           bool wanted) const {
    const auto first = std::ssize(to.ids);
    to.sequences.push_back({first, rows, done_,
                            std::span<const std::int32_t>(pages_).subspan(
                                static_cast<std::size_t>(page), static_cast<std::size_t>(each_))});
    for (std::int64_t r = 0; r < rows; ++r)
      to.ids.push_back(static_cast<std::int32_t>((done_ + r + text) * 7919 % runner_.vocab()));
    if (wanted) to.logit_rows.push_back(first + rows - 1);
  }

  ModelRunner& runner_;
  const std::function<bool()>& ends_;
  bool ended_ = false;
  std::int64_t replicas_, groups_ = 1, each_, batch_, done_ = 0, flying_ = 0;
  std::vector<std::int32_t> pages_;
};

}  // namespace

std::string BenchTest::name() const {
  std::string text = prompt > 0 ? join("pp", prompt) : join("tg", generate);
  if (batch > 1) text += join(" x ", batch);
  if (depth > 0) text += join(" @ d", depth);
  return text;
}

std::vector<double> bench(const RankParts& rank, const BenchTest& test, int repeats,
                          const std::function<bool()>& ends) {
  const int replicas = rank.mesh.shape().data;
  const std::int64_t pages = Texts::pages_each(test) * ((test.batch + replicas - 1) / replicas);
  std::vector<double> seconds;
  if (rank.mesh.world().rank() > 0) {
    follow_passes(rank, pages);
    return seconds;
  }
  const std::unique_ptr<ModelRunner> runner = lead_passes(rank, pages, pages * kPageTokens);
  Texts texts(*runner, test, ends);
  for (int i = 0; i <= repeats; ++i) {
    texts.forget();
    if (test.depth > 0) texts.go_on(test.depth);
    texts.settle();
    const double begin = now();
    if (test.prompt > 0) texts.go_on(test.prompt);
    for (std::int64_t t = 0; t < test.generate; ++t) texts.go_on(1);
    texts.settle();
    if (texts.ended()) break;
    if (i > 0) seconds.push_back(now() - begin);
  }
  return seconds;
}

double read_rate(std::int64_t bytes, int threads) {
  const auto size = static_cast<std::size_t>(bytes);
  void* const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  madvise(memory, size, MADV_HUGEPAGE);
  auto* const words = static_cast<std::uint64_t*>(memory);
  const std::int64_t count = bytes / 8;
  std::fill_n(words, count, std::uint64_t{1});
  double best = 0;
  std::atomic<std::uint64_t> total{0};
  for (int pass = 0; pass < 4; ++pass) {
    const double begin = now();
    std::vector<std::jthread> team;
    for (int t = 0; t < threads; ++t)
      team.emplace_back([&, t] {
        std::uint64_t sums[16] = {};
        const std::int64_t end = count / 16 * (t + 1) / threads * 16;
        for (std::int64_t i = count / 16 * t / threads * 16; i < end; i += 16)
          for (int k = 0; k < 16; ++k) sums[k] += words[i + k];
        total += std::accumulate(sums, sums + 16, std::uint64_t{0});
      });
    team.clear();
    best = std::max(best, static_cast<double>(bytes) / (now() - begin));
  }
  munmap(memory, size);
  return total.load() > 0 ? best : 0;
}

}  // namespace trireme
