#include "recipes/memory/traced_layer.h"

#include <map>
#include <utility>

#include "framework/base/error.h"
#include "recipes/memory/paper_backend.h"

namespace trireme {

namespace {

class Tracer {
 public:
  Tracer(const ForecastRank& rank, int entry, const TracedUse& use)
      : rank_(rank), entry_(rank.plan.entries[static_cast<std::size_t>(entry)]), use_(use) {
    entry_.module->visit([&](Parameter& p) {
      p.value = aside(p.spec().shape, use.layer.compute);
      if (p.spec().trainable) p.grad = aside(p.spec().shape, rank.options.stage.gradients);
    });
  }
  ~Tracer() {
    entry_.module->visit([](Parameter& p) {
      p.value = p.grad = Tensor();
      p.reset_written();
    });
  }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  void infer(LayerMemory& memory) {
    const Context ctx = context(nullptr);
    Var x = input(false);
    const Var y = entry_.module->forward(ctx, std::exchange(x, Var()));
    memory.inference = steps(y.value, "output");
    forget();
  }

  // With backward in one, or in halves.
  void train(LayerMemory& memory, bool split) {
    Tape tape;
    const Context ctx = context(&tape);
    Var x = input(use_.input_wants_grad);
    const std::shared_ptr<GradSlot> slot = x.grad;
    Var y = entry_.module->forward(ctx, std::exchange(x, Var()));
    memory.forward = steps(y.value, "output");
    const int dy = give_gradient(y);
    y = Var();
    forget();  // its output is the input of somebody else, who gives it back
    split ? tape.run_backward_input() : tape.run_backward();
    Tensor dx = slot ? slot->take() : Tensor();
    std::vector<MemoryStep>& backward = split ? memory.backward_input : memory.backward;
    backward = steps(dx, "input gradient");
    if (dx && PaperBackend::number_of(dx) == dy) rename(backward, dx.bytes());
    if (split) {
      tape.drain();
      memory.backward_weight = steps({}, "");
    }
    dx = Tensor();
    forget();
  }

 private:
  bool head() const { return use_.kind == EntryKind::kHead; }

  // What the list does not tell of.
  Tensor aside(const Shape& shape, DType dtype) {
    return backend_.allocate(shape, dtype, MemoryKind::kParameters);
  }

  Context context(Tape* tape) {
    const ModelOptions& model = rank_.options.model;
    Context ctx{.backend = backend_,
                .tape = tape,
                .samples = use_.layer.samples,
                .tokens = model.sequence,
                .sequence_parallel = use_.layer.sequence_parallel,
                .remake_cheap_outputs = use_.layer.selective,
                .compute = use_.layer.compute};
    if (use_.layer.dropout) ctx.rng = RngKey{};
    if (!head()) return ctx;
    const std::int64_t labels = model.family == Family::kDecoder ? model.sequence : 1;
    target_ = {.labels = aside({use_.layer.samples * labels}, DType::kI32),
               .total = aside({1}, DType::kF64)};
    ctx.target = &target_;
    return ctx;
  }

  Var input(bool wants_grad) {
    if (use_.kind == EntryKind::kEmbedding) {
      ids_ = aside({use_.layer.samples * rank_.options.model.sequence}, DType::kI32);
      return {ids_};
    }
    const Cut cut = layer_list(rank_.options.model)[entry_.layer - 1].output;
    const std::int64_t shards = use_.layer.sequence_parallel ? use_.layer.tensor : 1;
    Var x =
        make_var(backend_.allocate({use_.layer.samples * cut.rows_per_sample / shards, cut.columns},
                                   accumulation_type(use_.layer.compute), MemoryKind::kActivations),
                 wants_grad);
    forget();
    names_[PaperBackend::number_of(x.value)] = "input";
    return x;
  }

  // Puts the gradient of the output into its slot; the number of its storage, 0 if nobody wants it.
  int give_gradient(const Var& y) {
    if (head() || !y.grad) return 0;
    const LayerUse& layer = use_.layer;
    const DType wide = accumulation_type(layer.compute);
    Tensor dy = backend_.allocate(y.value.shape(), layer.narrow_gradient ? layer.compute : wide,
                                  MemoryKind::kActivations);
    const int number = PaperBackend::number_of(dy);
    names_[number] = "output gradient";
    y.grad->add(backend_, std::move(dy));
    return number;
  }

  void forget() { backend_.events(); }

  // Since the last call; `named`, if there is one, under that name.
  std::vector<MemoryStep> steps(const Tensor& named, const std::string& name) {
    const bool loss = head() && name == "output";
    if (named && !loss) names_[PaperBackend::number_of(named)] = name;
    std::vector<MemoryStep> result;
    for (const PaperEvent& event : backend_.events()) {
      if (event.kind == MemoryKind::kParameters) continue;
      const auto known = names_.find(event.tensor);
      result.push_back({.take = event.take,
                        .tensor = known == names_.end() ? "tensors, partly frozen" : known->second,
                        .formula = "told by the layer",
                        .bytes = event.bytes,
                        .kind = event.kind});
    }
    return result;
  }

  // The gradient that came went on: nothing was taken.
  static void rename(std::vector<MemoryStep>& list, std::int64_t bytes) {
    list.push_back({.take = false, .tensor = "output gradient", .formula = "", .bytes = bytes});
    list.push_back({.take = true, .tensor = "input gradient", .formula = "", .bytes = bytes});
  }

  const ForecastRank& rank_;
  const EntryPlan& entry_;
  TracedUse use_;
  PaperBackend backend_;
  LossTarget target_;
  Tensor ids_;
  std::map<int, std::string> names_;
};

}  // namespace

LayerMemory traced_memory(const ForecastRank& rank, int entry, const TracedUse& use) {
  LayerMemory memory;
  Tracer(rank, entry, use).infer(memory);
  Tracer(rank, entry, use).train(memory, false);
  Tracer(rank, entry, use).train(memory, true);
  return memory;
}

}  // namespace trireme
