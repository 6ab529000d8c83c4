#include "recipes/serve/page_pool.h"

#include <bit>

#include "framework/base/error.h"

namespace trireme {

namespace {

// SipHash-1-3 over 64-bit words (Aumasson, Bernstein, 2012).
class KeyedHash {
 public:
  explicit KeyedHash(std::uint64_t key)
      : a_(key ^ 0x736f6d6570736575u),
        b_(~key ^ 0x646f72616e646f6du),
        c_(key ^ 0x6c7967656e657261u),
        d_(~key ^ 0x7465646279746573u) {}
  void add(std::uint64_t word) {
    d_ ^= word;
    round();
    a_ ^= word;
  }
  std::uint64_t value() {
    c_ ^= 0xff;
    for (int i = 0; i < 3; ++i) round();
    return a_ ^ b_ ^ c_ ^ d_;
  }

 private:
  void round() {
    a_ += b_, b_ = std::rotl(b_, 13), b_ ^= a_, a_ = std::rotl(a_, 32);
    c_ += d_, d_ = std::rotl(d_, 16), d_ ^= c_;
    a_ += d_, d_ = std::rotl(d_, 21), d_ ^= a_;
    c_ += b_, b_ = std::rotl(b_, 17), b_ ^= c_, c_ = std::rotl(c_, 32);
  }
  std::uint64_t a_, b_, c_, d_;
};

}  // namespace

std::size_t PagePool::Hash::operator()(const Content& content) const {
  KeyedHash hash(key);
  hash.add(content.before);
  for (const std::int32_t id : content.ids) hash.add(static_cast<std::uint32_t>(id));
  return hash.value();
}

PagePool::PagePool(std::int64_t pages, std::uint64_t key)
    : states_(static_cast<std::size_t>(pages)), published_(16, Hash{key}) {
  for (std::int64_t p = 0; p < pages; ++p) {
    free_.push_back(static_cast<std::int32_t>(p));
    states_[static_cast<std::size_t>(p)].place = std::prev(free_.end());
  }
}

PagePool::State& PagePool::owned(std::int32_t page) {
  check(page >= 0 && page < pages(), "page ", page, " of ", pages());
  State& state = states_[static_cast<std::size_t>(page)];
  check(state.owners > 0, "page ", page, " is free");
  return state;
}

void PagePool::forget(State& state) {
  if (state.content) published_.erase(published_.find(*state.content));
  state.content = nullptr;
}

std::int32_t PagePool::take() {
  if (free_.empty()) return -1;
  const std::int32_t page = free_.front();
  taken_.splice(taken_.end(), free_, free_.begin());
  State& state = states_[static_cast<std::size_t>(page)];
  forget(state);
  state.owners = 1;
  return page;
}

void PagePool::share(std::int32_t page) {
  check(page >= 0 && page < pages(), "page ", page, " of ", pages());
  State& state = states_[static_cast<std::size_t>(page)];
  if (state.owners++ == 0) taken_.splice(taken_.end(), free_, state.place);
}

void PagePool::give(std::int32_t page) {
  State& state = owned(page);
  if (--state.owners > 0) return;
  // What stands for nothing is used again first.
  free_.splice(state.content ? free_.end() : free_.begin(), taken_, state.place);
}

PagePool::Found PagePool::find(Prefix before, std::span<const std::int32_t> ids) const {
  const auto it = published_.find({before, {ids.begin(), ids.end()}});
  return it == published_.end() ? Found{} : it->second;
}

PagePool::Prefix PagePool::publish(std::int32_t page, Prefix before,
                                   std::span<const std::int32_t> ids) {
  State& state = owned(page);
  check(!state.content, "page ", page, " stands for a prefix already");
  const auto [it, added] = published_.try_emplace({before, {ids.begin(), ids.end()}});
  if (!added) return it->second.prefix;
  it->second = {page, (next_ += 2)};
  state.content = &it->first;
  return it->second.prefix;
}

}  // namespace trireme
