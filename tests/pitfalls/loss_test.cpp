// Reported failures of scaling: gradients or losses divided per micro-batch, per stage, or by the
// wrong tokens; a loss that is another batch's.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "pipeline/runner.h"
#include "tests/pitfalls/curves.h"
#include "tests/support/tensors.h"
#include "tests/zero/toys.h"

namespace trireme::pitfalls {
namespace {

// A classifier whose loss for token 0 is exactly `first`, and for token 1 `second`: one channel,
// all weights 1, logits (0, h) with h = log(exp(loss) - 1), label 0.
struct TwoLosses {
  double first, second;
  Task task(std::int64_t batch) const {
    return {.model = {.family = Family::kMlp,
                      .layers = 1,
                      .hidden = 1,
                      .ffn = 1,
                      .vocab = 2,
                      .sequence = 1,
                      .activation = Activation::kRelu,
                      .bias = false,
                      .tie_embeddings = false},
            .global_batch = batch,
            .label_smoothing = 0};
  }
  Logical weights() const {
    const auto h = [](double loss) { return std::log(std::exp(loss) - 1); };
    return {{"embedding.table", {h(first), h(second)}},
            {"layers.0.mlp.up.weight", {1}},
            {"layers.0.mlp.down.weight", {1}},
            {"head.weight", {0, 1}}};
  }
};

// The reported loss of a batch of token 0 or 1 per sample; -1 = a sample that does not count.
double reported_loss(const TwoLosses& losses, const std::vector<std::int32_t>& batch,
                     const Layout& layout) {
  const SampleSource source = [&](std::int64_t first, std::int64_t count,
                                  std::vector<std::int32_t>& ids,
                                  std::vector<std::int32_t>& labels) {
    ids.clear();
    labels.clear();
    for (std::int64_t s = first; s < first + count; ++s) {
      const std::int32_t token = batch[static_cast<std::size_t>(s) % batch.size()];
      ids.push_back(std::max(token, 0));
      labels.push_back(token < 0 ? -1 : 0);
    }
  };
  double loss = 0;
  const Logical weights = losses.weights();
  run_layout(losses.task(static_cast<std::int64_t>(batch.size())), layout, [&](Rank& rank) {
    rank.engine.kept().load_values(parity::source_of(weights));
    const double result = rank.engine.train(0, source).loss;
    if (rank.first()) loss = result;
  });
  return loss;
}

TEST(Pitfall, P24_TheLossIsASumOverAllTokensDividedOnce) {
  // 20 over 10 tokens and 8 over 2 tokens: 2.3333, not the mean of means 3.0.
  const TwoLosses losses{2, 4};
  const std::vector<std::int32_t> in_micro_batches = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1};
  EXPECT_NEAR(reported_loss(losses, in_micro_batches, {.micro = 10}), 28.0 / 12, 1e-14);
  EXPECT_NEAR(reported_loss(losses, in_micro_batches, {.mesh = {.pipeline = 3}, .micro = 10}),
              28.0 / 12, 1e-14);
  const std::vector<std::int32_t> over_ranks = {0, 0, 0,  0,  0,  0,  0,  0,  0,  0,
                                                1, 1, -1, -1, -1, -1, -1, -1, -1, -1};
  EXPECT_NEAR(reported_loss(losses, over_ranks, {.mesh = {.data = 2}, .micro = 10}), 28.0 / 12,
              1e-14);
}

TEST(ZeroPitfall, P10_UnevenTokensAreNoMeanOfMeans) {
  const std::vector<std::int32_t> batch = {0, 0, 0, 1};  // 6 over 3 tokens, 1 over 1
  EXPECT_NEAR(reported_loss({2, 1}, batch, {.micro = 3}), 7.0 / 4, 1e-14);
  const std::vector<std::int32_t> over_ranks = {0, 0, 0, 1, -1, -1};
  EXPECT_NEAR(reported_loss({2, 1}, over_ranks, {.mesh = {.data = 2}, .micro = 3}), 7.0 / 4, 1e-14);
}

// Nothing to learn from is no step in a random direction, and no NaN.
TEST(Pitfall, P24_ABatchWithoutCountedTokensHasLossZero) {
  EXPECT_EQ(reported_loss({2, 4}, {-1, -1, -1, -1}, {.mesh = {.data = 2}}), 0.0);
}

// y = x + w, (R, 1) -> (R, 1).
class Shift : public Module {
 public:
  explicit Shift(const std::string& name) : w_(test::toy_spec(name, 1)) {}
  Var forward(const Context& ctx, const Var& x) override {
    Tensor in = x.value;
    if (in.dtype() == DType::kI32) {  // the first stage sees ids
      in = ctx.backend.allocate({x.value.elements(), 1}, DType::kF64, MemoryKind::kActivations);
      std::vector<std::int32_t> ids(static_cast<std::size_t>(x.value.elements()));
      ctx.backend.download(x.value, ids.data());
      upload_doubles(ctx.backend, std::vector<double>(ids.begin(), ids.end()), in);
    }
    Tensor y = ctx.backend.allocate(in.shape(), DType::kF64, MemoryKind::kActivations);
    ctx.backend.copy(in, y);
    ctx.backend.kernels()->add_bias(w_.value, y);
    Var out = make_var(y, ctx.tape != nullptr);
    if (ctx.tape)
      ctx.tape->record([this, &backend = ctx.backend, x = x.grad, slot = out.grad] {
        Tensor dy = slot->take();
        if (!dy) return;
        backend.train_kernels()->column_sum(dy, w_.grad, w_.accumulate());
        if (x) x->add(backend, dy);
      });
    return out;
  }
  void visit(const ParameterFn& fn) override { fn(w_); }

 private:
  Parameter w_;
};

// The objective seed * label * x; notes which label met which value.
class Objective : public Module {
 public:
  Var forward(const Context& ctx, const Var& x) override {
    const auto label = [&] {
      std::int32_t value = 0;
      ctx.backend.download(ctx.target->labels, &value);
      return static_cast<double>(value);
    };
    seen.emplace_back(label(), download_doubles(ctx.backend, x.value)[0]);
    ctx.tape->record([&backend = ctx.backend, slope = ctx.target->seed * label(), x = x.grad] {
      Tensor dx = backend.allocate({1, 1}, DType::kF64, MemoryKind::kActivations);
      backend.kernels()->fill(dx, slope);
      x->add(backend, dx);
    });
    return x;
  }
  std::vector<std::pair<double, double>> seen;
};

// One step of two pipeline stages of one Shift each, a sample per micro-batch; id and label are
// `labels`. Returns the gradient of each stage's shift; `seen` are the pairs that the objective
// saw.
std::vector<double> shift_gradients(const std::vector<std::int32_t>& labels, ScheduleKind schedule,
                                    std::vector<std::pair<double, double>>* seen = nullptr) {
  std::vector<double> gradients(2);
  test::on_ranks(2, [&](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.pipeline = 2});
    Shift shift(join("shift", world.rank()));
    Objective objective;
    std::vector<Parameter*> parameters;
    shift.visit([&](Parameter& p) { parameters.push_back(&p); });
    Unit unit("shift", parameters, backend, mesh.data(),
              {.compute = DType::kF64, .gradients = DType::kF64});
    upload_doubles(backend, std::vector<double>{1.0}, parameters[0]->value);
    const Cut cut{.rows_per_sample = 1, .columns = 1};
    std::vector<Module*> entries = {&shift};
    if (world.rank() == 1) entries.push_back(&objective);
    Runner runner(backend, mesh.pipeline(), {{.entries = entries, .input = cut, .output = cut}});
    std::vector<MicroBatch> micros;
    const double mean = 1.0 / static_cast<double>(labels.size());
    for (std::int32_t label : labels)
      micros.push_back({.samples = 1,
                        .ids = test::ids(backend, {label}),
                        .target = {.labels = test::ids(backend, {label}), .seed = mean}});
    unit.begin_step(static_cast<std::int64_t>(labels.size()));
    const Schedule all = make_schedule(schedule, 2, static_cast<int>(labels.size()), 1);
    runner.run(all[static_cast<std::size_t>(world.rank())], micros,
               {.tokens = 1, .compute = DType::kF64});
    for (std::size_t i = 0; i < labels.size(); ++i) unit.end_backward();
    unit.finish_reduction();
    gradients[static_cast<std::size_t>(world.rank())] =
        download_doubles(backend, parameters[0]->grad)[0];
    if (seen && world.rank() == 1) *seen = objective.seen;
  });
  return gradients;
}

constexpr ScheduleKind kSchedules[] = {ScheduleKind::kGPipe, ScheduleKind::kOneFOneB,
                                       ScheduleKind::kZeroBubbleH1};

TEST(ZeroPitfall, P8_MicroBatchGradientsAreAMeanOnEveryStage) {
  for (ScheduleKind schedule : kSchedules)
    EXPECT_EQ(shift_gradients({1, 2, 3, 4}, schedule), (std::vector<double>{2.5, 2.5}));
}

TEST(Pitfall, P24_FourUnitGradientsMeanOne) {
  for (ScheduleKind schedule : kSchedules)
    EXPECT_EQ(shift_gradients({1, 1, 1, 1}, schedule), (std::vector<double>{1, 1}));
}

TEST(Pitfall, P25_LabelsMeetTheirOwnMicroBatch) {
  for (ScheduleKind schedule : kSchedules) {
    std::vector<std::pair<double, double>> seen;
    shift_gradients({0, 1, 2, 3, 4, 5, 6}, schedule, &seen);
    ASSERT_EQ(seen.size(), 7U);
    for (const auto& [label, value] : seen) EXPECT_EQ(value, label + 2);  // both shifts are 1
  }
}

TEST(Pitfall, P25_AllRanksTellOneLoss) {
  const Task task{.model = parity::tiny_gpt2(), .global_batch = 4, .compute = DType::kF32};
  const SampleSource source = parity::random_samples(task.model, task.seed);
  std::mutex mutex;
  std::map<int, std::vector<double>> told;
  run_layout(task, {.mesh = kCube}, [&](Rank& rank) {
    for (int step = 0; step < 3; ++step) {
      const EngineStep result = rank.engine.train(step, source);
      std::scoped_lock lock(mutex);
      told[rank.mesh.world().rank()].push_back(result.loss);
      told[rank.mesh.world().rank()].push_back(result.optimizer.grad_norm);
    }
  });
  ASSERT_EQ(told.size(), 8U);
  for (const auto& [rank, losses] : told) EXPECT_EQ(losses, told[0]) << rank;
}

// Schedules themselves, with their makespans 12 and 15, are tested in tests/pipeline.
TEST(Pitfall, P22_FewerMicroBatchesThanStages) {
  for (std::int64_t batch : {1, 2}) {
    const Task task{.model = parity::tiny_llama(2), .global_batch = batch};
    const parity::Curve serial = parity::train(task, {});
    for (ScheduleKind schedule : kSchedules) {
      const Layout layout{.mesh = {.pipeline = 4}, .schedule = schedule};
      EXPECT_LE(parity::distance(serial, parity::train(task, layout)), 1e-12);
    }
  }
}

TEST(Pitfall, P26_TheNumberOfMicroBatchesDoesNotMatter) {
  for (const ModelOptions& model : {parity::tiny_gpt2(), parity::tiny_mlp()}) {
    const Task task{.model = model, .global_batch = 8};
    const parity::Curve whole = parity::train(task, {.micro = 8}), cut = parity::train(task, {});
    EXPECT_LE(parity::distance(whole, cut), 1e-12);
  }
}

}  // namespace
}  // namespace trireme::pitfalls
