// The interpreter of schedules: who sees what, what lives how long, what is refused. Training
// through it is tested in tests/parity.
#include "pipeline/runner.h"

#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "tests/support/ranks.h"
#include "tests/support/tensors.h"

namespace trireme::test {
namespace {

// ids (R) -> (R, 1) on the first stage, else x -> x + 1; backward hands on what comes.
class Step : public Module {
 public:
  Var forward(const Context& ctx, const Var& x) override {
    std::vector<double> values;
    if (x.value.dtype() == DType::kI32) {
      std::vector<std::int32_t> ids(static_cast<std::size_t>(x.value.elements()));
      ctx.backend.download(x.value, ids.data());
      values.assign(ids.begin(), ids.end());
    } else {
      values = download_doubles(ctx.backend, x.value);
    }
    for (double& v : values) v += 1;
    Var y = make_var(
        tensor(ctx.backend, {static_cast<std::int64_t>(values.size()), 1}, DType::kF64, values),
        ctx.tape != nullptr);
    taped += ctx.tape != nullptr;
    drew += ctx.rng.has_value();
    first_samples.push_back(ctx.first_sample);
    if (ctx.tape)
      ctx.tape->record([this, &backend = ctx.backend, kept = y.value, x = x.grad, y = y.grad] {
        Tensor dy = y->take();
        if (dy) gradients.push_back(values_of(backend, dy));
        if (dy && x) x->add(backend, std::move(dy));
      });
    return y;
  }

  int taped = 0, drew = 0;
  std::vector<std::int64_t> first_samples;
  std::vector<std::vector<double>> gradients;

 private:
  static std::vector<double> values_of(Backend& backend, const Tensor& x) {
    return download_doubles(backend, x);
  }
};

// Hands the gradient 10 * (first row's value) down, or nothing at all.
class Last : public Module {
 public:
  explicit Last(bool silent) : silent_(silent) {}
  Var forward(const Context& ctx, const Var& x) override {
    if (ctx.tape && !silent_)
      ctx.tape->record([&backend = ctx.backend, value = x.value, x = x.grad] {
        std::vector<double> dx = download_doubles(backend, value);
        for (double& v : dx) v *= 10;
        x->add(backend, tensor(backend, value.shape(), DType::kF64, dx));
      });
    return x;
  }

 private:
  bool silent_;
};

struct Stage {
  Step step;
  Last last;
  explicit Stage(bool silent = false) : last(silent) {}
  Chunk chunk(bool is_last) {
    const Cut cut{.rows_per_sample = 1, .columns = 1};
    Chunk c{.entries = {&step}, .input = cut, .output = cut};
    if (is_last) c.entries.push_back(&last);
    return c;
  }
};

std::vector<MicroBatch> micro_batches(Backend& backend, int count) {
  std::vector<MicroBatch> micros;
  for (int i = 0; i < count; ++i)
    micros.push_back({.samples = 2, .first_sample = 2 * i, .ids = ids(backend, {i, 100 + i})});
  return micros;
}

const RunnerOptions kOptions{.tokens = 1, .compute = DType::kF64};

TEST(Runner, GradientsMeetTheirMicroBatch) {
  for (ScheduleKind kind :
       {ScheduleKind::kGPipe, ScheduleKind::kOneFOneB, ScheduleKind::kZeroBubbleH1})
    on_ranks(3, [&](Communicator& world, Backend& backend) {
      Stage stage;
      Runner runner(backend, world, {stage.chunk(world.rank() == 2)});
      const std::vector<MicroBatch> micros = micro_batches(backend, 4);
      const Schedule all = make_schedule(kind, 3, 4, 1);
      runner.run(all[static_cast<std::size_t>(world.rank())], micros, kOptions, key_from_seed(1));
      EXPECT_EQ(stage.step.taped, 4);
      EXPECT_EQ(stage.step.drew, 4);
      EXPECT_EQ(stage.step.first_samples, (std::vector<std::int64_t>{0, 2, 4, 6}));
      ASSERT_EQ(stage.step.gradients.size(), 4U);
      const bool reversed = kind == ScheduleKind::kGPipe;  // last micro-batch first
      for (int i = 0; i < 4; ++i) {
        const double id = reversed ? 3 - i : i;
        EXPECT_EQ(stage.step.gradients[static_cast<std::size_t>(i)],
                  (std::vector<double>{10 * (id + 3), 10 * (id + 103)}));
      }
    });
}

TEST(Runner, AStageAlwaysSendsAGradient) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    Stage stage(true);  // nothing reaches the last stage's input
    Runner runner(backend, world, {stage.chunk(world.rank() == 1)});
    runner.run(one_f_one_b(2, 2, world.rank()), micro_batches(backend, 2), kOptions);
    EXPECT_EQ(stage.step.drew, 0);
    if (world.rank() == 0) {
      EXPECT_EQ(stage.step.gradients, (std::vector<std::vector<double>>{{0, 0}, {0, 0}}));
    } else {
      EXPECT_TRUE(stage.step.gradients.empty());
    }
  });
}

TEST(Runner, ForwardOnlyRecordsNothingAndGivesTheOutput) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    Stage stage, second;
    Runner runner(backend, world, {stage.chunk(false), second.chunk(world.rank() == 1)});
    runner.run(forward_only(2, 3, 2, world.rank()), micro_batches(backend, 3), kOptions);
    EXPECT_EQ(stage.step.taped + second.step.taped, 0);
    if (world.rank() == 1) {
      EXPECT_EQ(values(backend, runner.output()), (std::vector<double>{4, 104}));
    }
  });
}

// 1F1B holds as many micro-batches as there are stages ahead, GPipe all of them.
TEST(Runner, ActivationsDieWithTheirBackward) {
  const auto peak = [](ScheduleKind kind, int micros) {
    std::int64_t most = 0;
    on_ranks(1, [&](Communicator& world, Backend& backend) {
      Stage stage;
      Runner runner(backend, world, {stage.chunk(true)});
      const auto batch = micro_batches(backend, micros);
      backend.ledger().reset_peaks();
      const std::int64_t before = backend.ledger().current(Tier::kDevice);
      runner.run(make_schedule(kind, 1, micros, 1)[0], batch, kOptions);
      most = backend.ledger().peak(Tier::kDevice) - before;
      EXPECT_EQ(backend.ledger().current(Tier::kDevice), before);
    });
    return most;
  };
  EXPECT_EQ(peak(ScheduleKind::kOneFOneB, 8), peak(ScheduleKind::kOneFOneB, 2));
  EXPECT_EQ(peak(ScheduleKind::kGPipe, 8) - peak(ScheduleKind::kGPipe, 4), 4 * 2 * 8);
}

TEST(Runner, SpansAreThoseOfComputations) {
  on_ranks(1, [](Communicator& world, Backend& backend) {
    Stage stage;
    Runner runner(backend, world, {stage.chunk(true)});
    runner.run(one_f_one_b(1, 2, 0), micro_batches(backend, 2), kOptions);
    EXPECT_TRUE(runner.spans().empty());
    double now = 0;
    runner.set_clock([&] { return now += 1; });
    runner.run(one_f_one_b(1, 2, 0), micro_batches(backend, 2), kOptions);
    ASSERT_EQ(runner.spans().size(), 4U);
    EXPECT_EQ(runner.spans()[1].action.kind, Action::Kind::kBackward);
    double end = 0;
    for (const ActionSpan& span : runner.spans()) {
      EXPECT_GT(span.begin, end);
      EXPECT_GT(span.end, span.begin);
      end = span.end;
    }
  });
}

TEST(Runner, RefusesListsThatDoNotFit) {
  using Kind = Action::Kind;
  const std::vector<std::pair<ActionList, std::string>> cases = {
      {{{Kind::kForward, 1, 0}}, "there are 1 micro-batches and 1 chunks"},
      {{{Kind::kForward, 0, 1}}, "there are 1 micro-batches and 1 chunks"},
      {{{Kind::kBackward, 0, 0}}, "before its forward"},
      {{{Kind::kBackwardWeight, 0, 0}}, "before its input half"},
      {{{Kind::kForward, 0, 0}, {Kind::kBackwardInput, 0, 0}}, "left work undone"}};
  for (const auto& [actions, expected] : cases)
    on_ranks(1, [&](Communicator& world, Backend& backend) {
      Stage stage;
      Runner runner(backend, world, {stage.chunk(true)});
      try {
        runner.run(actions, micro_batches(backend, 1), kOptions);
        ADD_FAILURE() << "accepted: " << expected;
      } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find(expected), std::string::npos) << e.what();
      }
    });
}

}  // namespace
}  // namespace trireme::test
