#include <algorithm>
#include <cmath>

#include "framework/base/error.h"
#include "recipes/commands/generate.h"

namespace trireme {

std::vector<std::int32_t> generate_by_window(const OpenedModel& model,
                                             std::vector<std::int32_t> text, std::int64_t count,
                                             const Sampling& sampling,
                                             const std::function<void(std::int32_t)>& say) {
  const Recipe& recipe = model.source.recipe;
  const auto vocab =
      static_cast<std::size_t>(std::min(recipe.model.vocab, model.source.tokenizer->vocabulary()));
  const int last = model.mesh.shape().pipeline - 1;
  const std::size_t prompt = text.size();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<double> logits =
        model.engine.next_logits({text.end() - recipe.batch.sequence, text.end()});
    std::int32_t token = 0;
    if (!logits.empty()) {
      const std::vector<float> row(logits.begin(), logits.begin() + static_cast<long>(vocab));
      const std::span<const std::int32_t> all = text;
      token =
          choose_token(row, sampling, {.prompt = all.first(prompt), .output = all.subspan(prompt)})
              .id;
    }
    Tensor shared = model.backend.allocate({1}, DType::kI32, MemoryKind::kWorkspace);
    model.backend.upload(&token, shared);
    model.mesh.pipeline().broadcast(shared, last).wait();
    model.backend.download(shared, &token);
    text.push_back(token);
    say(token);
  }
  return {text.begin() + static_cast<long>(prompt), text.end()};
}

}  // namespace trireme
