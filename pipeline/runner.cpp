#include "pipeline/runner.h"

#include <algorithm>

#include "framework/base/error.h"

namespace trireme {

namespace {

// Sends that may be unfinished before the next one of the same direction waits for the oldest.
constexpr std::size_t kSendsInFlight = 2;

bool is_backward(Action::Kind kind) {
  return kind == Action::Kind::kBackward || kind == Action::Kind::kBackwardInput ||
         kind == Action::Kind::kBackwardWeight;
}

}  // namespace

Runner::Runner(Backend& backend, Communicator& pipeline, std::vector<Chunk> chunks)
    : backend_(backend), pipeline_(pipeline), chunks_(std::move(chunks)) {}

void Runner::run(const ActionList& actions, std::span<const MicroBatch> micros,
                 const RunnerOptions& options, std::optional<RngKey> rng) {
  micros_ = micros;
  options_ = options;
  rng_ = rng;
  trains_ = std::any_of(actions.begin(), actions.end(),
                        [](const Action& a) { return is_backward(a.kind); });
  const double begin = clock_ ? clock_() : 0.0;
  spans_.clear();
  output_ = Tensor();
  for (const Action& action : actions) {
    check(action.micro >= 0 && static_cast<std::size_t>(action.micro) < micros.size() &&
              action.chunk >= 0 && static_cast<std::size_t>(action.chunk) < chunks_.size(),
          "pipeline: ", text_of(action), " but there are ", micros.size(), " micro-batches and ",
          chunks_.size(), " chunks");
    pipeline_.set_place(options_.label + ", " + text_of(action));
    act(action);
  }
  sent_forward_.clear();  // waits
  sent_backward_.clear();
  check(in_flight_.empty() && inputs_.empty() && gradients_.empty() && outputs_.empty() &&
            input_gradients_.empty(),
        "pipeline: the schedule left work undone");
  if (!clock_) return;
  end_ = clock_();
  seconds_ = end_ - begin;
}

void Runner::act(const Action& action) {
  if (is_communication(action.kind)) return communicate(action);
  await(action);
  const double begin = clock_ ? clock_() : 0.0;
  switch (action.kind) {
    case Action::Kind::kForward:
      forward(action);
      break;
    case Action::Kind::kBackwardWeight: {
      const auto it = in_flight_.find({action.micro, action.chunk});
      if (it == in_flight_.end()) fail("pipeline: ", text_of(action), " before its input half");
      it->second->tape.drain();
      in_flight_.erase(it);
      break;
    }
    default:
      backward(action);
  }
  if (clock_) spans_.push_back({action, begin, clock_()});
}

// Waits for what the computation needs, so that its span holds computing alone.
void Runner::await(const Action& action) {
  const Key key{action.micro, action.chunk};
  auto& expected = action.kind == Action::Kind::kForward ? inputs_ : gradients_;
  const auto it = expected.find(key);
  if (it != expected.end()) it->second.pending.wait();
}

Context Runner::context_for(const Action& action) const {
  const MicroBatch& micro = micros_[static_cast<std::size_t>(action.micro)];
  Context ctx{.backend = backend_,
              .rng = rng_,
              .samples = micro.samples,
              .tokens = options_.tokens,
              .first_sample = micro.first_sample,
              .document_starts = micro.document_starts,
              .sequence_parallel = options_.sequence_parallel,
              .remake_cheap_outputs = options_.remake_cheap_outputs,
              .compute = options_.compute,
              .inference = micro.inference};
  if (is_last(action.chunk) && micro.target.labels) ctx.target = &micro.target;
  return ctx;
}

Tensor Runner::boundary(const Cut& cut, int micro) const {
  const std::int64_t rows = micros_[static_cast<std::size_t>(micro)].samples * cut.rows_per_sample;
  const int shards = options_.sequence_parallel ? options_.row_shards : 1;
  return backend_.allocate({rows / shards, cut.columns}, accumulation_type(options_.compute),
                           MemoryKind::kActivations);
}

// The ids, or what came from the previous virtual stage.
Tensor Runner::input_of(const Action& action) {
  if (is_first(action.chunk)) return micros_[static_cast<std::size_t>(action.micro)].ids;
  const auto it = inputs_.find({action.micro, action.chunk});
  if (it == inputs_.end()) fail("pipeline: ", text_of(action), " before its input came");
  Tensor x = std::move(it->second.tensor);
  inputs_.erase(it);
  return x;
}

void Runner::forward(const Action& action) {
  const Key key{action.micro, action.chunk};
  auto work = std::make_unique<InFlight>(context_for(action));
  if (!trains_) work->context.tape = nullptr;
  Var x = make_var(input_of(action), trains_ && !is_first(action.chunk));
  work->input = x.grad;
  work->input_shape = x.value.shape();
  for (Module* entry : chunks_[static_cast<std::size_t>(action.chunk)].entries)
    x = entry->forward(work->context, x);
  if (is_last(action.chunk)) {
    if (!trains_ && action.micro == 0) output_ = x.value;
  } else if (pipeline_.size() == 1) {
    inputs_[{action.micro, action.chunk + 1}].tensor = x.value;
  } else {
    outputs_[key] = x.value;
  }
  if (!trains_) return;
  x.value = Tensor();  // the tape keeps what backward needs
  work->output = std::move(x);
  in_flight_[key] = std::move(work);
}

void Runner::backward(const Action& action) {
  const Key key{action.micro, action.chunk};
  const auto it = in_flight_.find(key);
  if (it == in_flight_.end()) fail("pipeline: ", text_of(action), " before its forward");
  InFlight& work = *it->second;
  if (!is_last(action.chunk)) {
    const auto gradient = gradients_.find(key);
    if (gradient == gradients_.end())
      fail("pipeline: ", text_of(action), " before its gradient came");
    if (work.output.grad) work.output.grad->add(backend_, std::move(gradient->second.tensor));
    gradients_.erase(gradient);
  }
  work.output = Var();
  const bool split = action.kind == Action::Kind::kBackwardInput;
  split ? work.tape.run_backward_input() : work.tape.run_backward();
  if (!is_first(action.chunk)) {  // always sent, zeros if nothing upstream of the loss reached it
    Tensor dx = work.input->take();
    const DType wide = accumulation_type(options_.compute);
    if (!dx) dx = backend_.zeros(work.input_shape, wide, MemoryKind::kActivations);
    if (dx.dtype() != wide) {
      Tensor converted = backend_.allocate(dx.shape(), wide, MemoryKind::kActivations);
      backend_.kernels()->cast(dx, converted);
      dx = converted;
    }
    if (pipeline_.size() == 1)
      gradients_[{action.micro, action.chunk - 1}].tensor = dx;
    else
      input_gradients_[key] = dx;
  }
  if (!split) in_flight_.erase(it);
}

void Runner::hand_on(std::deque<Message>& sent, Tensor tensor, int peer) {
  if (sent.size() >= kSendsInFlight) sent.pop_front();  // waits
  Pending pending = pipeline_.send(tensor, peer);
  sent.push_back({std::move(tensor), std::move(pending)});
}

void Runner::communicate(const Action& action) {
  const Key key{action.micro, action.chunk};
  const int peer = peer_of(action, pipeline_.rank(), pipeline_.size());
  const Chunk& chunk = chunks_[static_cast<std::size_t>(action.chunk)];
  switch (action.kind) {
    case Action::Kind::kRecvForward: {
      Message& message = inputs_[key];
      message.tensor = boundary(chunk.input, action.micro);
      message.pending = pipeline_.recv(message.tensor, peer);
      break;
    }
    case Action::Kind::kRecvBackward: {
      Message& message = gradients_[key];
      message.tensor = boundary(chunk.output, action.micro);
      message.pending = pipeline_.recv(message.tensor, peer);
      break;
    }
    case Action::Kind::kSendForward: {
      const auto it = outputs_.find(key);
      if (it == outputs_.end()) fail("pipeline: ", text_of(action), " before its forward");
      hand_on(sent_forward_, std::move(it->second), peer);
      outputs_.erase(it);
      break;
    }
    default: {
      const auto it = input_gradients_.find(key);
      if (it == input_gradients_.end()) fail("pipeline: ", text_of(action), " before its backward");
      hand_on(sent_backward_, std::move(it->second), peer);
      input_gradients_.erase(it);
    }
  }
}

}  // namespace trireme
