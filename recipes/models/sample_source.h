// Where an engine's samples come from: samples [first, first + count) of some order, and, if
// attention and positions are to begin anew with each document, where those begin.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace trireme {

class SampleSource {
 public:
  using Ids = std::vector<std::int32_t>;
  // ids (count, T), labels (count, T) or (count); vectors are resized.
  using Fill = std::function<void(std::int64_t first, std::int64_t count, Ids& ids, Ids& labels)>;
  // (count, T): see Context::document_starts.
  using Starts = std::function<void(std::int64_t first, std::int64_t count, Ids& starts)>;

  SampleSource() = default;
  template <typename F>
  requires std::invocable<const F&, std::int64_t, std::int64_t, Ids&, Ids&> SampleSource(
      F fill, Starts starts = {})  // NOLINT: any such function is a source
      : fill_(std::move(fill)), starts_(std::move(starts)) {}

  void operator()(std::int64_t first, std::int64_t count, Ids& ids, Ids& labels) const {
    fill_(first, count, ids, labels);
  }
  // Empty: samples are attended to whole.
  const Starts& document_starts() const { return starts_; }

 private:
  Fill fill_;
  Starts starts_;
};

}  // namespace trireme
