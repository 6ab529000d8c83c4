#include "recipes/train/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::int32_t kNoToken = -1;

bool are_finite(const std::vector<double>& logits) {
  return !logits.empty() &&
         std::all_of(logits.begin(), logits.end(), [](double x) { return std::isfinite(x); });
}

}  // namespace

std::int32_t choose(const std::vector<double>& logits, std::int64_t vocab, const SamplingOptions& o,
                    std::int64_t position) {
  check(vocab > 0 && vocab <= static_cast<std::int64_t>(logits.size()), "sample: ", vocab,
        " tokens but ", logits.size(), " logits");
  const auto end = logits.begin() + vocab;
  const double largest = *std::max_element(logits.begin(), end);
  check(std::isfinite(largest), "sample: the logits are not finite");
  if (o.temperature <= 0)
    return static_cast<std::int32_t>(std::find(logits.begin(), end, largest) - logits.begin());

  std::vector<std::int32_t> order(static_cast<std::size_t>(vocab));
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  const auto kept = o.top_k > 0 ? std::min(o.top_k, vocab) : vocab;
  std::partial_sort(
      order.begin(), order.begin() + kept, order.end(),
      [&](std::int32_t a, std::int32_t b) { return at(a) != at(b) ? at(a) > at(b) : a < b; });
  order.resize(static_cast<std::size_t>(kept));
  std::vector<double> weights;
  for (std::int32_t id : order) weights.push_back(std::exp((at(id) - largest) / o.temperature));
  const RngKey key =
      key_from_seed(o.seed).child("sample").child(static_cast<std::uint64_t>(o.request));
  double left = random_uniform(key, static_cast<std::uint64_t>(position)) *
                std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < order.size(); ++i)
    if ((left -= weights[i]) < 0) return order[i];
  return order.back();
}

std::vector<std::int32_t> sample(Engine& engine, Mesh& mesh, Backend& backend,
                                 std::vector<std::int32_t> prompt, std::int64_t count,
                                 std::int64_t window, std::int64_t vocab,
                                 const SamplingOptions& options) {
  check(!prompt.empty(), "sample: the prompt is empty");
  std::vector<std::int32_t> text;
  const int last = mesh.shape().pipeline - 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t seen =
        std::min<std::int64_t>(window, static_cast<std::int64_t>(prompt.size()));
    const std::vector<double> logits = engine.next_logits({prompt.end() - seen, prompt.end()});
    std::int32_t token = kNoToken;  // of a model that diverged: a sample is no reason to fail
    if (are_finite(logits)) token = choose(logits, vocab, options, i);
    Tensor shared = backend.allocate({1}, DType::kI32, MemoryKind::kWorkspace);
    backend.upload(&token, shared);
    mesh.pipeline().broadcast(shared, last).wait();
    backend.download(shared, &token);
    if (token == kNoToken || std::count(options.ends.begin(), options.ends.end(), token) > 0) break;
    prompt.push_back(token);
    text.push_back(token);
  }
  return text;
}

}  // namespace trireme
