#include "recipes/serve/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "framework/base/error.h"
#include "recipes/serve/token_weights.h"

namespace trireme {

namespace {

constexpr std::size_t kBlock = 64;     // of weights
constexpr std::size_t kLooked = 1024;  // logits of which one is the largest

// Index of the largest element, the first of equals. Error where one is NaN or +infinity, or all
// are -infinity: a model that diverged says nothing.
std::size_t place_of_largest(std::span<const float> x) {
  float best = -std::numeric_limits<float>::infinity();
  std::size_t block = 0;
  bool nan = false;
  for (std::size_t at = 0; at < x.size(); at += kLooked) {
    const LargestLogit largest = largest_of(x.subspan(at, std::min(kLooked, x.size() - at)));
    nan |= largest.nan;
    if (largest.value > best) {
      best = largest.value;
      block = at;
    }
  }
  check(!nan && std::isfinite(best), "the model's logits are not finite");
  for (std::size_t i = block;; ++i)
    if (x[i] == best) return i;
}

double log_sum_exp(std::span<const float> x, double largest) {
  double sum = 0;
  for (const float v : x) sum += std::exp(static_cast<double>(v) - largest);
  return largest + std::log(sum);
}

void penalize(std::vector<float>& x, const Sampling& s, const SamplingContext& c) {
  const auto at = [&](std::int32_t id) -> float& { return x[static_cast<std::size_t>(id)]; };
  const auto known = [&](std::int32_t id) { return id >= 0 && id < std::ssize(x); };
  if (s.repetition_penalty != 1) {
    std::vector<std::int32_t> seen(c.prompt.begin(), c.prompt.end());
    seen.insert(seen.end(), c.output.begin(), c.output.end());
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    const auto by = static_cast<float>(s.repetition_penalty);
    for (const std::int32_t id : seen)
      if (known(id)) at(id) = at(id) > 0 ? at(id) / by : at(id) * by;
  }
  if (s.presence_penalty == 0 && s.frequency_penalty == 0) return;
  std::unordered_map<std::int32_t, int> counts;
  for (const std::int32_t id : c.output) ++counts[id];
  for (const auto& [id, count] : counts)
    if (known(id)) at(id) -= static_cast<float>(s.presence_penalty + s.frequency_penalty * count);
}

struct Candidate {
  std::int32_t id;
  float logit;
  double weight;  // exp((logit - largest) / temperature)
};

bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// Weights of logits by place, made block by block where they are wanted: storing all of them costs
// more than making some twice. min_p leaves none of what it drops.
class RowWeights {
 public:
  RowWeights(std::span<const float> x, std::size_t best, const Sampling& s)
      : x_(x), largest_(static_cast<double>(x[best])), sampling_(s) {
    sums_.reserve(x.size() / kBlock + 1);
    for (std::size_t at = 0; at < x.size(); at += kTogether * kBlock) add_sums(at);
    total_ = std::accumulate(sums_.begin(), sums_.end(), 0.0);
  }
  double total() const { return total_; }

  // The place that `uniform` draws.
  std::size_t draw(double uniform) {
    double rest = uniform * total_;
    std::size_t last = 0;  // block with a weight: by rounding, rest may outlast them all
    for (std::size_t b = 0; b < sums_.size(); ++b) {
      if (rest < sums_[b])
        if (const std::size_t i = place(block(b), rest); i < kBlock) return b * kBlock + i;
      rest = std::max(0.0, rest - sums_[b]);
      if (sums_[b] > 0) last = b;
    }
    const std::span<const double> weights = block(last);
    const auto from_behind =
        std::find_if(weights.rbegin(), weights.rend(), [](double weight) { return weight > 0; });
    return last * kBlock + static_cast<std::size_t>(weights.rend() - from_behind) - 1;
  }

  // Those of at least `least`; `id` gives a place's id.
  template <typename Id>
  std::vector<Candidate> at_least(double least, const Id& id) {
    std::vector<Candidate> all;
    for (std::size_t b = 0; b < sums_.size(); ++b) {
      if (sums_[b] == 0 || sums_[b] < least) continue;
      const std::span<const double> weights = block(b);
      for (std::size_t i = 0; i < weights.size(); ++i)
        if (weights[i] > 0 && weights[i] >= least)
          all.push_back({id(b * kBlock + i), x_[b * kBlock + i], weights[i]});
    }
    return all;
  }

 private:
  // Blocks whose sums are made at once: each adds its weights in their order, one waiting for the
  // other, while the next blocks' go on.
  static constexpr std::size_t kTogether = 8;

  // Weights of the logits from `at` on; 0 behind the last one.
  void weigh(std::size_t at, std::span<double> weights) const {
    const auto some = x_.subspan(at, std::min(weights.size(), x_.size() - at));
    token_weights(some, largest_, sampling_.temperature, weights.data());
    for (double& weight : weights) weight = weight >= sampling_.min_p ? weight : 0;
    std::fill(weights.begin() + std::ssize(some), weights.end(), 0.0);
  }
  void add_sums(std::size_t at) {
    weigh(at, weights_);
    std::array<double, kTogether> sums{};
    for (std::size_t i = 0; i < kBlock; ++i)
      for (std::size_t b = 0; b < kTogether; ++b) sums[b] += weights_[b * kBlock + i];
    const std::size_t left = (x_.size() - at + kBlock - 1) / kBlock;
    sums_.insert(sums_.end(), sums.begin(), sums.begin() + std::min(left, kTogether));
  }
  std::span<const double> block(std::size_t b) {
    const auto weights = std::span<double>(weights_).first(kBlock);
    weigh(b * kBlock, weights);
    return weights.first(std::min(kBlock, x_.size() - b * kBlock));
  }
  static std::size_t place(std::span<const double> weights, double rest) {
    for (std::size_t i = 0; i < weights.size(); ++i)
      if ((rest -= weights[i]) < 0) return i;
    return kBlock;
  }

  std::span<const float> x_;
  double largest_;
  const Sampling& sampling_;
  std::vector<double> sums_;
  double total_ = 0;
  std::array<double, kTogether * kBlock> weights_{};
};

double sum_of(const std::vector<Candidate>& all) {
  return std::accumulate(all.begin(), all.end(), 0.0,
                         [](double sum, const Candidate& c) { return sum + c.weight; });
}

// The likeliest k, in that order, which sums keep: they do not depend on how the candidates came.
void keep_top_k(std::vector<Candidate>& all, std::int64_t k) {
  const auto end = all.begin() + std::min<std::ptrdiff_t>(k, std::ssize(all));
  std::nth_element(all.begin(), end - (end != all.begin()), all.end(), likelier);
  all.erase(end, all.end());
  std::sort(all.begin(), all.end(), likelier);
}

// The likeliest that together reach top_p of `total`, in any order.
std::vector<Candidate> keep_top_p(std::vector<Candidate> all, double top_p, double total) {
  const auto less = [](const Candidate& a, const Candidate& b) { return likelier(b, a); };
  std::make_heap(all.begin(), all.end(), less);
  double sum = 0;
  auto end = all.end();
  while (end != all.begin() && (end == all.end() || sum < top_p * total)) {
    std::pop_heap(all.begin(), end, less);
    sum += (--end)->weight;
  }
  return {end, all.end()};
}

std::int32_t draw(std::vector<Candidate> left, double uniform) {
  std::sort(left.begin(), left.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  double rest = uniform * sum_of(left);
  for (const Candidate& c : left)
    if ((rest -= c.weight) < 0) return c.id;
  return left.back().id;
}

// The id that `uniform` draws of logits by place, the largest of which is x[best]; `id` gives a
// place's id.
template <typename Id>
std::int32_t draw_of(std::span<const float> x, std::size_t best, const Sampling& s, double uniform,
                     const Id& id) {
  RowWeights weights(x, best, s);
  if (s.top_k > 0) {
    std::vector<Candidate> left = weights.at_least(0, id);
    keep_top_k(left, s.top_k);
    if (s.top_p < 1) left = keep_top_p(left, s.top_p, sum_of(left));
    return draw(std::move(left), uniform);
  }
  if (s.top_p >= 1) return id(weights.draw(uniform));
  // All that are lighter than this, together, are less than what top_p leaves out.
  const double least = (1 - s.top_p) * weights.total() / static_cast<double>(x.size()) / 2;
  return draw(keep_top_p(weights.at_least(least, id), s.top_p, weights.total()), uniform);
}

}  // namespace

RngKey sampling_key(std::uint64_t seed, std::uint64_t choice) {
  return key_from_seed(seed).child("serve").child(choice);
}

std::int64_t enough_top(const Sampling& s, std::size_t masked) {
  const bool penalties =
      s.repetition_penalty != 1 || s.presence_penalty != 0 || s.frequency_penalty != 0;
  if (penalties || !s.bias.empty() || (!s.greedy() && s.top_k <= 0)) return 0;
  const std::int64_t kept = s.greedy() ? 1 : std::min(s.top_k, kMostTop + 1);
  const std::int64_t enough =
      std::max<std::int64_t>(static_cast<std::int64_t>(masked) + kept, s.logprobs);
  return enough <= kMostTop ? enough : 0;
}

namespace {

// The reported ones, of a row whose likeliest are known.
ChosenToken logprobs_of(const TopLogits& top, std::size_t chosen, int count) {
  const double norm = static_cast<double>(top.logits[0]) + std::log(top.sum);
  const auto one = [&](std::size_t i) {
    return TokenLogprob{top.ids[i], static_cast<float>(top.logits[i] - norm)};
  };
  ChosenToken told{.id = top.ids[chosen], .logprob = one(chosen).logprob};
  const auto n = std::min(static_cast<std::size_t>(std::max(0, count)), top.ids.size());
  for (std::size_t i = 0; i < n; ++i) told.top.push_back(one(i));
  return told;
}

}  // namespace

ChosenToken choose_token(const TopLogits& top, const Sampling& s, const SamplingContext& c) {
  check(!top.ids.empty() && std::isfinite(top.logits[0]) && top.sum == top.sum,
        "the model's logits are not finite");
  std::vector<float> x;
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < top.ids.size(); ++i) {
    if (std::find(c.masked.begin(), c.masked.end(), top.ids[i]) != c.masked.end()) continue;
    x.push_back(top.logits[i]);
    ids.push_back(top.ids[i]);
    places.push_back(i);
  }
  check(!x.empty() && std::isfinite(x[0]), "the model's logits are not finite");
  std::size_t best = 0;
  if (!s.greedy()) {
    const std::int32_t id =
        draw_of(x, 0, s, random_uniform(sampling_key(s.seed, c.choice), c.output.size()),
                [&](std::size_t i) { return ids[i]; });
    best = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), id) - ids.begin());
  }
  return s.logprobs < 0 ? ChosenToken{.id = ids[best]} : logprobs_of(top, places[best], s.logprobs);
}

ChosenToken logprobs_of(std::span<const float> logits, std::int32_t id, int count) {
  const double largest = logits[place_of_largest(logits)];
  const double norm = log_sum_exp(logits, largest);
  const auto logprob = [&](std::int32_t i) {
    return static_cast<float>(logits[static_cast<std::size_t>(i)] - norm);
  };
  ChosenToken told{.id = id, .logprob = logprob(id)};
  if (count <= 0) return told;
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto n = std::min<std::ptrdiff_t>(count, std::ssize(order));
  std::partial_sort(order.begin(), order.begin() + n, order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      const float x = logits[static_cast<std::size_t>(a)],
                                  y = logits[static_cast<std::size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  for (std::ptrdiff_t i = 0; i < n; ++i)
    told.top.push_back(
        {order[static_cast<std::size_t>(i)], logprob(order[static_cast<std::size_t>(i)])});
  return told;
}

ChosenToken choose_token(std::span<const float> logits, const Sampling& s,
                         const SamplingContext& c) {
  std::vector<float> changed;
  std::span<const float> x = logits;
  const bool penalties =
      s.repetition_penalty != 1 || s.presence_penalty != 0 || s.frequency_penalty != 0;
  if (penalties || !s.bias.empty() || !c.masked.empty()) {
    static_cast<void>(place_of_largest(logits));
    changed.assign(logits.begin(), logits.end());
    for (const std::int32_t id : c.masked)
      if (id >= 0 && id < std::ssize(changed))
        changed[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
    for (const auto& [id, bias] : s.bias)
      changed[static_cast<std::size_t>(id)] += static_cast<float>(bias);
    penalize(changed, s, c);
    x = changed;
  }
  const std::size_t best = place_of_largest(x);
  auto id = static_cast<std::int32_t>(best);
  if (!s.greedy())
    id = draw_of(x, best, s, random_uniform(sampling_key(s.seed, c.choice), c.output.size()),
                 [](std::size_t i) { return static_cast<std::int32_t>(i); });
  return s.logprobs < 0 ? ChosenToken{.id = id} : logprobs_of(logits, id, s.logprobs);
}

void check_sampling(const Sampling& s, std::int64_t vocab) {
  const auto within = [](const char* name, double value, double least, double most) {
    check(value >= least && value <= most, name, " = ", value, ": expected ", least, " to ", most);
  };
  within("temperature", s.temperature, 0, 1000);
  check(s.top_k >= -1, "top_k = ", s.top_k, ": expected a count, or 0 or -1 for all");
  check(s.top_p > 0 && s.top_p <= 1, "top_p = ", s.top_p, ": expected more than 0 and at most 1");
  within("min_p", s.min_p, 0, 1);
  check(s.repetition_penalty > 0 && s.repetition_penalty <= 1000,
        "repetition_penalty = ", s.repetition_penalty, ": expected more than 0 and at most 1000");
  within("presence_penalty", s.presence_penalty, -2, 2);
  within("frequency_penalty", s.frequency_penalty, -2, 2);
  within("logprobs", s.logprobs, -1, 20);
  for (const auto& [id, bias] : s.bias) {
    check(id >= 0 && id < vocab, "logit_bias: token ", id, " is none of the ", vocab,
          " of the vocabulary");
    within("logit_bias", bias, -100, 100);
  }
}

}  // namespace trireme
