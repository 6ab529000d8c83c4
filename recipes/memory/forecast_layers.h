// The layers of a rank on paper: the published lists replayed for each use, and the streams between
// them. Internal to forecast.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "recipes/memory/forecast_rank.h"
#include "recipes/memory/layer_memory.h"
#include "recipes/memory/tally.h"

namespace trireme {

class PaperLayers {
 public:
  PaperLayers(const ForecastRank& rank, Tally& tally);

  // With a tape, or without one. The input of a recomputed segment's first entry is not given back
  // here: `holds_input`.
  void forward(int entry, int micro, bool holds_input);
  void inference(int entry, int micro, bool holds_input);
  // Whole, or the halves of a split one.
  void backward(int entry, int micro, bool holds_input);
  void backward_input(int entry, int micro, bool holds_input);
  void backward_weight(int entry, int micro);
  // Does only the weight half of a split backward let go of the input?
  bool keeps_input_for_weights(int entry, int micro);

  std::int64_t input_bytes(int entry, int micro);
  std::int64_t output_bytes(int entry, int micro);
  void take_stream(std::int64_t bytes) { tally_.take(stream_, bytes); }
  void give_stream(std::int64_t bytes) { tally_.give(stream_, bytes); }
  void take_gradient(std::int64_t bytes) { tally_.take(gradient_, bytes); }
  void give_gradient(std::int64_t bytes) { tally_.give(gradient_, bytes); }
  // Does anything in this entry or below it, on this rank, want a gradient of its output?
  bool output_wanted(int entry) const;
  // Is the gradient that this entry hands on narrower than the stream?
  bool narrow_gradient(int entry) const { return narrow_[static_cast<std::size_t>(entry)]; }

 private:
  struct Step {
    bool take = true, input = false;  // the give of "input"
    int label = 0;
    std::int64_t bytes = 0;
  };
  struct Lists {
    std::vector<Step> forward, backward, backward_input, backward_weight, inference;
    std::int64_t input = 0, output = 0;
  };
  using Key = std::tuple<int, EntryKind, bool, std::int64_t, bool>;

  EntryKind kind_of(int entry) const;
  void find_narrow_gradients();
  void find_wanted();
  bool is_traced(int entry) const;
  LayerUse use_of(int entry, int micro) const;
  const Lists& lists_of(int entry, int micro);
  std::vector<Step> compiled(const std::vector<MemoryStep>& steps, const std::string& kind);
  void replay(const std::vector<Step>& steps, bool holds_input);
  int label_of(const MemoryStep& step, const std::string& kind);

  const ForecastRank& rank_;
  Tally& tally_;
  int stream_, gradient_;
  std::vector<bool> narrow_,
      from_narrow_;           // the gradient handed on, and that which comes, by entry
  std::vector<bool> wanted_;  // is there a gradient of its input?
  std::map<Key, Lists> lists_;
};

}  // namespace trireme
