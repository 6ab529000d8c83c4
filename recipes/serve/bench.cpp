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

// Some texts in a cache of their own.
class Texts {
 public:
  Texts(const RankParts& rank, const BenchTest& t)
      : rank_(rank),
        each_(pages_for(t.depth + t.prompt + t.generate)),
        cache_(rank.backend, rank.engine.cache_options(each_ * t.batch)),
        pages_(static_cast<std::size_t>(each_ * t.batch)),
        batch_(t.batch) {
    std::iota(pages_.begin(), pages_.end(), 0);
    rank_.engine.begin_inference();
  }
  void forget() { done_ = 0; }
  // `count` more tokens of every text, in one pass as far as it holds them.
  void go_on(std::int64_t count) {
    for (const std::int64_t end = done_ + count; done_ < end;) {
      const std::int64_t rows =
          std::min(end - done_, std::max<std::int64_t>(1, kRowsAtOnce / batch_));
      InferenceRows pass;
      for (std::int64_t i = 0; i < batch_; ++i) {
        const auto first = std::ssize(pass.ids);
        pass.sequences.push_back(
            {first, rows, done_,
             std::span<const std::int32_t>(pages_).subspan(static_cast<std::size_t>(i * each_),
                                                           static_cast<std::size_t>(each_))});
        for (std::int64_t r = 0; r < rows; ++r) pass.ids.push_back(id(done_ + r + i));
        if (done_ + rows == end) pass.logit_rows.push_back(first + rows - 1);
      }
      rank_.engine.infer(cache_, std::span(&pass, 1));
      done_ += rows;
    }
  }

 private:
  std::int32_t id(std::int64_t position) const {
    return static_cast<std::int32_t>(position * 7919 % rank_.engine.options().model.vocab);
  }
  const RankParts& rank_;
  std::int64_t each_;
  KvCache cache_;
  std::vector<std::int32_t> pages_;
  std::int64_t batch_, done_ = 0;
};

}  // namespace

std::string BenchTest::name() const {
  std::string text = prompt > 0 ? join("pp", prompt) : join("tg", generate);
  if (batch > 1) text += join(" x ", batch);
  if (depth > 0) text += join(" @ d", depth);
  return text;
}

std::vector<double> bench(const RankParts& rank, const BenchTest& test, int repeats) {
  Texts texts(rank, test);
  std::vector<double> seconds;
  for (int i = 0; i <= repeats; ++i) {
    texts.forget();
    if (test.depth > 0) texts.go_on(test.depth);
    rank.mesh.world().barrier();
    const double begin = now();
    if (test.prompt > 0) texts.go_on(test.prompt);
    for (std::int64_t t = 0; t < test.generate; ++t) texts.go_on(1);
    rank.mesh.world().barrier();
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
    std::vector<std::thread> team;
    for (int t = 0; t < threads; ++t)
      team.emplace_back([&, t] {
        std::uint64_t sums[16] = {};
        const std::int64_t end = count / 16 * (t + 1) / threads * 16;
        for (std::int64_t i = count / 16 * t / threads * 16; i < end; i += 16)
          for (int k = 0; k < 16; ++k) sums[k] += words[i + k];
        total += std::accumulate(sums, sums + 16, std::uint64_t{0});
      });
    for (std::thread& thread : team) thread.join();
    best = std::max(best, static_cast<double>(bytes) / (now() - begin));
  }
  munmap(memory, size);
  return total.load() > 0 ? best : 0;
}

}  // namespace trireme
