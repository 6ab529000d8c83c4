#include "recipes/serve/stream_growth.h"

#include <algorithm>

namespace trireme {

ServeOptions grown_for(const WeightStreamShape& shape, std::int64_t pages, const ChosenByUser& user,
                       ServeOptions o) {
  std::int64_t bytes = 0;
  for (const StreamedPart& part : shape.parts)
    if (!part.resident) bytes += part.own.size() * size_of(shape.dtype);
  if (bytes == 0) return o;
  constexpr std::int64_t kMost = 1024, kPrompt = 512;
  if (!user.sequences) o.sequences = std::clamp(pages / pages_for(kGrowTokens), o.sequences, kMost);
  if (user.budget) o.sequences = std::min(o.sequences, o.budget);
  if (!user.budget) o.budget = std::max(o.budget, o.sequences + kPrompt);
  o.grow_seconds = std::min(0.5, static_cast<double>(bytes) / 1e9 / 20);
  return o;
}

}  // namespace trireme
