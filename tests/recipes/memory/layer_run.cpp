#include "tests/recipes/memory/layer_run.h"

#include "framework/backend/reference_backend.h"
#include "framework/base/error.h"
#include "framework/comm/communicator.h"

namespace trireme::test {

namespace {

MemoryLedger::Entry activations(const MemoryLedger& ledger) {
  return ledger.entry(Tier::kDevice, MemoryKind::kActivations);
}

class WatchedBackend final : public ReferenceBackend {
 public:
  using ReferenceBackend::ReferenceBackend;
  std::vector<Taken> taken;

 protected:
  std::shared_ptr<Storage> do_allocate(std::int64_t bytes, MemoryKind kind) override {
    auto storage = ReferenceBackend::do_allocate(bytes, kind);
    if (kind == MemoryKind::kActivations) taken.push_back({bytes, activations(ledger()).current});
    return storage;
  }
};

// One rank's run of an entry.
class LayerRun {
 public:
  LayerRun(const LayerCase& layer, Communicator& tensor, Backend& backend,
           std::vector<Taken>* taken)
      : layer_(layer), backend_(backend), taken_(taken), list_(layer_list(layer.model)) {
    BuildContext build{.tensor = {&tensor}, .sequence_parallel = layer.use.sequence_parallel};
    if (layer.model.tie_embeddings && is_head()) embedding_ = list_.front().build(build);
    module_ = list_[entry()].build(build);
    module_->visit([&](Parameter& p) {
      p.value = backend.zeros(p.spec().shape, layer.use.compute, MemoryKind::kParameters);
      p.grad = backend.zeros(p.spec().shape, wide(), MemoryKind::kGradients);
    });
    target_.labels = ids(is_mlp() ? samples() : rows());
    target_.total = backend.zeros({1}, DType::kF64, MemoryKind::kWorkspace);
  }

  Trails run() {
    Trails trails;
    Tape tape;
    Context ctx{.backend = backend_,
                .tape = &tape,
                .samples = samples(),
                .tokens = layer_.model.sequence,
                .sequence_parallel = layer_.use.sequence_parallel,
                .remake_cheap_outputs = layer_.use.selective,
                .compute = layer_.use.compute,
                .target = is_head() ? &target_ : nullptr};
    if (layer_.use.dropout) ctx.rng = key_from_seed(3);
    for (const bool split : {false, true}) {
      Var x = input();
      const auto dx = x.grad;
      trails.forward = watch([&] { x = module_->forward(ctx, x); });
      x.value = Tensor();
      if (!is_head()) x.grad->add(backend_, output_gradient());
      if (!split) {
        trails.backward = watch([&] { tape.run_backward(); });
      } else {
        trails.backward_input = watch([&] { tape.run_backward_input(); });
        trails.backward_weight = watch([&] { tape.drain(); });
      }
    }
    ctx.tape = nullptr;
    Var x = input();
    trails.inference = watch([&] { x = module_->forward(ctx, x); });
    return trails;
  }

 private:
  std::size_t entry() const { return static_cast<std::size_t>(layer_.entry); }
  bool is_head() const { return entry() + 1 == list_.size(); }
  bool is_mlp() const { return layer_.model.family == Family::kMlp; }
  std::int64_t samples() const { return layer_.use.samples; }
  std::int64_t rows() const { return samples() * layer_.model.sequence; }
  DType wide() const { return accumulation_type(layer_.use.compute); }

  // Of another kind than what is watched: the list does not name it.
  Tensor ids(std::int64_t count) {
    return backend_.zeros({count}, DType::kI32, MemoryKind::kWorkspace);
  }
  Tensor stream(const Cut& cut, DType dtype) {
    const int shards = layer_.use.sequence_parallel ? layer_.use.tensor : 1;
    return backend_.zeros({samples() * cut.rows_per_sample / shards, cut.columns}, dtype,
                          MemoryKind::kActivations);
  }
  Var input() {
    if (layer_.entry == 0) return {ids(rows())};
    return make_var(stream(list_[entry() - 1].output, wide()), true);
  }
  Tensor output_gradient() {
    return stream(list_[entry()].output, layer_.use.narrow_gradient ? layer_.use.compute : wide());
  }

  Trail watch(const std::function<void()>& work) {
    backend_.ledger().reset_peaks();
    if (taken_) taken_->clear();
    work();
    const MemoryLedger::Entry after = activations(backend_.ledger());
    return {taken_ ? *taken_ : std::vector<Taken>(), after.peak, after.current};
  }

  const LayerCase& layer_;
  Backend& backend_;
  std::vector<Taken>* taken_;
  std::vector<LayerSpec> list_;
  ModulePtr embedding_, module_;
  LossTarget target_;
};

void put(MemoryLedger& ledger, const MemoryStep& step) {
  if (step.take)
    ledger.add(Tier::kDevice, step.kind, step.bytes);
  else
    ledger.remove(Tier::kDevice, step.kind, step.bytes);
}

Trail listed(MemoryLedger& ledger, const std::vector<MemoryStep>& steps) {
  Trail trail;
  ledger.reset_peaks();
  for (const MemoryStep& step : steps) {
    put(ledger, step);
    if (step.take && !step.formula.starts_with("as "))
      trail.taken.push_back({step.bytes, activations(ledger).current});
  }
  trail.peak = activations(ledger).peak;
  trail.held = activations(ledger).current;
  return trail;
}

}  // namespace

std::string text_of(const LayerCase& layer) {
  const LayerUse& u = layer.use;
  return join(layer_list(layer.model)[static_cast<std::size_t>(layer.entry)].name, " of ",
              layer.model.family == Family::kMlp ? "mlp" : "decoder", ", ", name_of(u.compute),
              ", samples ", u.samples, ", tensor ", u.tensor,
              u.sequence_parallel ? ", sequence-parallel" : "", u.selective ? ", selective" : "",
              u.dropout ? ", dropout" : "", u.narrow_gradient ? ", narrow gradient" : "");
}

EntryKind kind_of(const ModelOptions& model, int entry) {
  if (entry == 0) return EntryKind::kEmbedding;
  return entry > model.layers ? EntryKind::kHead : EntryKind::kBlock;
}

std::vector<Trails> real_trails(const LayerCase& layer, const BackendMaker& maker) {
  std::vector<Trails> all(static_cast<std::size_t>(layer.use.tensor));
  run_thread_ranks(layer.use.tensor, {.timeout_seconds = 60}, [&](Communicator& world) {
    const auto ledger = std::make_shared<MemoryLedger>();
    auto watched = std::make_unique<WatchedBackend>(ledger);
    std::vector<Taken>* taken = maker ? nullptr : &watched->taken;
    const std::unique_ptr<Backend> other = maker ? maker(ledger) : nullptr;
    Backend& backend = other ? *other : *watched;
    world.attach(backend);
    all[static_cast<std::size_t>(world.rank())] = LayerRun(layer, world, backend, taken).run();
    world.barrier();
  });
  return all;
}

Trails listed_trails(const LayerCase& layer) {
  const LayerMemory memory =
      layer_memory(layer.model, kind_of(layer.model, layer.entry), layer.use);
  const auto list = layer_list(layer.model);
  const auto at = static_cast<std::size_t>(layer.entry);
  const int shards = layer.use.sequence_parallel ? layer.use.tensor : 1;
  const auto stream = [&](const Cut& cut, DType dtype) {
    return MemoryStep{.bytes = layer.use.samples * cut.rows_per_sample / shards * cut.columns *
                               size_of(dtype)};
  };
  const DType wide = accumulation_type(layer.use.compute);
  Trails trails;
  for (const bool split : {false, true}) {
    MemoryLedger ledger;
    if (layer.entry > 0) put(ledger, stream(list[at - 1].output, wide));
    trails.forward = listed(ledger, memory.forward);
    if (at + 1 < list.size()) {
      ledger.remove(Tier::kDevice, MemoryKind::kActivations, bytes_of(memory.forward, "output"));
      put(ledger, stream(list[at].output, layer.use.narrow_gradient ? layer.use.compute : wide));
    }
    if (!split) {
      trails.backward = listed(ledger, memory.backward);
    } else {
      trails.backward_input = listed(ledger, memory.backward_input);
      trails.backward_weight = listed(ledger, memory.backward_weight);
    }
  }
  MemoryLedger ledger;
  if (layer.entry > 0) put(ledger, stream(list[at - 1].output, wide));
  trails.inference = listed(ledger, memory.inference);
  return trails;
}

void replay(MemoryLedger& ledger, const std::vector<MemoryStep>& steps) {
  for (const MemoryStep& step : steps) put(ledger, step);
}

std::int64_t bytes_of(const std::vector<MemoryStep>& steps, const std::string& taken) {
  for (const MemoryStep& step : steps)
    if (step.take && step.tensor == taken) return step.bytes;
  fail("no tensor ", taken, " is taken");
}

}  // namespace trireme::test
