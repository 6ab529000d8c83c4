#include "recipes/commands/trained_marks.h"

#include <algorithm>
#include <vector>

#include "recipes/report/printable.h"

namespace trireme {

namespace {

std::vector<std::int32_t> labels_of(const TokenDataset& data, std::int64_t sample,
                                    std::vector<std::int32_t>& ids) {
  std::vector<std::int32_t> labels;
  data.train().fill(sample, 1, ids, labels);
  return labels;
}

}  // namespace

std::string marked_sample(const TokenDataset& data, std::int64_t sample, const Tokenizer& tokenizer,
                          const TrainedMarks& marks) {
  const TokenFile& file = data.tokens();
  const std::int64_t begin = data.train().first_token(sample);
  std::vector<std::int32_t> ids;
  labels_of(data, sample, ids);
  ids.push_back(0);
  file.copy(begin + std::ssize(ids) - 1, 1, file.header().vocabulary, &ids.back());
  StreamingDecoder decoder(tokenizer);
  std::string text, run;
  bool inside = false;
  const auto close = [&](bool next) {
    text += printable(run) + (inside == next ? "" : next ? marks.begin : marks.end);
    run.clear();
    inside = next;
  };
  for (std::int64_t i = 0; i < std::ssize(ids); ++i) {
    const bool trained = i > 0 && file.header().masked && file.trained(begin + i);
    if (trained != inside) close(trained);
    run += decoder.push(ids[static_cast<std::size_t>(i)]);
  }
  run += decoder.finish();
  close(false);
  return text;
}

std::int64_t trained_labels(const TokenDataset& data, std::int64_t sample) {
  std::vector<std::int32_t> ids;
  const std::vector<std::int32_t> labels = labels_of(data, sample, ids);
  return std::count_if(labels.begin(), labels.end(), [](std::int32_t label) { return label >= 0; });
}

std::int64_t first_trained_sample(const TokenDataset& data) {
  constexpr std::int64_t kLookedAt = 1000;
  for (std::int64_t i = 0; i < std::min(kLookedAt, data.train().size()); ++i)
    if (trained_labels(data, i) > 0) return i;
  return 0;
}

}  // namespace trireme
