// Interprets one stage's schedule: a tape per micro-batch and chunk, messages to neighbours,
// nothing decided here.
//
// GPipe semantics (arXiv 1811.06965): micro-batches of one mini-batch, gradients added, one update;
// the result does not depend on schedule or stages beyond rounding. Activations of a micro-batch
// live from its forward to its backward; a chunk's output dies once it is sent.
//
// Legend: R rows of a micro-batch (this rank's share of them with sequence parallelism), C columns
// at a cut.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/nn/module.h"
#include "pipeline/schedule.h"

namespace trireme {

// What one rank feeds into, and asks of, a micro-batch.
struct MicroBatch {
  std::int64_t samples = 0;
  std::int64_t first_sample = 0;  // global index
  Tensor document_starts = {};  // (samples * tokens) i32 or undefined, of every stage; see Context
  Tensor ids;                   // (samples * tokens) i32; used by the first virtual stage
  LossTarget target;  // used by the last one; labels undefined = generate: logits instead of a loss
  InferencePass* inference = nullptr;  // this stage's, with a cache; see Context
};

// The matrix that crosses a cut: rows per sample and columns. With sequence parallelism the rows
// are cut over tensor ranks.
struct Cut {
  std::int64_t rows_per_sample = 0, columns = 0;
};

struct Chunk {
  std::vector<Module*> entries;
  Cut input, output;  // unused where there is no neighbour
};

struct RunnerOptions {
  std::int64_t tokens = 0;  // per sample
  DType compute = DType::kF32;
  bool sequence_parallel = false;
  int row_shards = 1;  // tensor ranks, when sequence_parallel
  bool remake_cheap_outputs = false;
  std::string label;  // of the step, for messages: "step 12"
};

// Called after each computation: the action and its seconds on the given clock.
struct ActionSpan {
  Action action;
  double begin = 0, end = 0;
};
using Clock = std::function<double()>;

class Runner {
 public:
  // Chunk c of stage s is virtual stage c * stages + s. All arguments must outlive the runner.
  Runner(Backend& backend, Communicator& pipeline, std::vector<Chunk> chunks);

  // One pass over `actions`, which must fit the chunks and the number of micro-batches. A list
  // without backward actions records nothing. `rng` turns dropout on.
  void run(const ActionList& actions, std::span<const MicroBatch> micros,
           const RunnerOptions& options, std::optional<RngKey> rng = {});

  // The last virtual stage's output of micro-batch 0 of a forward-only run (logits).
  const Tensor& output() const { return output_; }

  // Collects spans when a clock is set.
  void set_clock(Clock clock) { clock_ = std::move(clock); }
  const std::vector<ActionSpan>& spans() const { return spans_; }
  // Of the last run, on that clock, waits included.
  double seconds() const { return seconds_; }
  double end() const { return end_; }

 private:
  using Key = std::pair<int, int>;  // micro-batch, chunk
  struct InFlight {                 // of one micro-batch in one chunk
    Tape tape;
    std::shared_ptr<GradSlot> input;
    Var output;
    Shape input_shape;
    Context context;
    explicit InFlight(Context ctx) : context(std::move(ctx)) { context.tape = &tape; }
  };
  struct Message {
    Tensor tensor;
    Pending pending;
  };

  void act(const Action& action);
  void await(const Action& action);
  void forward(const Action& action);
  void backward(const Action& action);
  void communicate(const Action& action);
  Context context_for(const Action& action) const;
  Tensor input_of(const Action& action);
  void hand_on(std::deque<Message>& sent, Tensor tensor, int peer);
  Tensor boundary(const Cut& cut, int micro) const;
  int virtual_stage(int chunk) const { return chunk * pipeline_.size() + pipeline_.rank(); }
  bool is_first(int chunk) const { return virtual_stage(chunk) == 0; }
  bool is_last(int chunk) const {
    return virtual_stage(chunk) + 1 == pipeline_.size() * static_cast<int>(chunks_.size());
  }

  Backend& backend_;
  Communicator& pipeline_;
  std::vector<Chunk> chunks_;
  Clock clock_;
  std::vector<ActionSpan> spans_;
  double seconds_ = 0, end_ = 0;
  Tensor output_;

  // Of the pass that runs.
  std::span<const MicroBatch> micros_;
  RunnerOptions options_;
  std::optional<RngKey> rng_;
  bool trains_ = false;
  std::map<Key, std::unique_ptr<InFlight>> in_flight_;
  std::map<Key, Message> inputs_, gradients_;        // received, or handed over locally
  std::map<Key, Tensor> outputs_, input_gradients_;  // to be sent
  std::deque<Message> sent_forward_, sent_backward_;
};

}  // namespace trireme
