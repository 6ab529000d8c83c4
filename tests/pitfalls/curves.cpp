#include "tests/pitfalls/curves.h"

#include <algorithm>

#include "framework/backend/host_values.h"

namespace trireme::pitfalls {

namespace {

// The choice of the last stage, told to the others.
std::int32_t shared_choice(Rank& rank, const std::vector<double>& logits) {
  std::int32_t choice = 0;
  if (!logits.empty())
    choice =
        static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  Tensor told = rank.backend.allocate({1}, DType::kI32, MemoryKind::kWorkspace);
  rank.backend.upload(&choice, told);
  rank.mesh.pipeline().broadcast(told, rank.mesh.shape().pipeline - 1).wait();
  rank.backend.download(told, &choice);
  return choice;
}

}  // namespace

Greedy greedy(Rank& rank, std::vector<std::int32_t> prompt, int count, std::int64_t window) {
  Greedy result{.tokens = std::move(prompt)};
  for (int i = 0; i < count; ++i) {
    const auto size = static_cast<std::int64_t>(result.tokens.size());
    const std::vector<std::int32_t> context(
        result.tokens.begin() + std::max<std::int64_t>(0, size - window), result.tokens.end());
    const std::vector<double> logits = rank.engine.next_logits(context);
    result.logits.insert(result.logits.end(), logits.begin(), logits.end());
    result.tokens.push_back(shared_choice(rank, logits));
  }
  return result;
}

}  // namespace trireme::pitfalls
