// Samples as a run sees them, with what is learned marked.
#pragma once

#include <cstdint>
#include <string>

#include "framework/data/samples.h"
#include "framework/data/tokenizer.h"

namespace trireme {

struct TrainedMarks {
  std::string begin = "[[", end = "]]";
};

// The text of a training sample, safe for terminals: its tokens and the one behind them, which is
// its last label. Where all tokens of the file count, nothing is marked.
std::string marked_sample(const TokenDataset& data, std::int64_t sample, const Tokenizer& tokenizer,
                          const TrainedMarks& marks);
// Labels of the sample that count.
std::int64_t trained_labels(const TokenDataset& data, std::int64_t sample);
// The first training sample with any; 0 if the first thousand have none.
std::int64_t first_trained_sample(const TokenDataset& data);

}  // namespace trireme
