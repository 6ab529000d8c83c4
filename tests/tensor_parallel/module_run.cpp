#include "tests/tensor_parallel/module_run.h"

#include <cmath>

#include "framework/backend/host_values.h"
#include "framework/nn/recompute.h"
#include "tests/support/tensors.h"
#include "zero/optimizer.h"
#include "zero/sharded.h"

namespace trireme::test {

namespace {

std::int64_t columns_of(const Shape& shape) { return shape.dims() < 2 ? 1 : shape[1]; }

// Element (i, j) of a logical tensor is a function of its name and place.
void draw(const Section& s, std::int64_t columns, std::span<double> out) {
  const RngKey key = key_from_seed(11).child(s.name);
  for (std::int64_t i = 0; i < s.rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      out[static_cast<std::size_t>(i * columns + j)] =
          0.5 *
          random_normal(key, static_cast<std::uint64_t>((s.global_row + i) * columns_of(s.logical) +
                                                        s.global_column + j));
}

// Puts `value` into `slot`, which must be free or hold the same bits.
void put(double& slot, double value, const std::string& what) {
  check(std::isnan(slot) || slot == value, "copies of ", what, " differ: ", slot, " and ", value);
  slot = value;
}

class Collector {
 public:
  explicit Collector(ModuleResult& result) : result_(result) {}

  void gradients(Backend& backend, Module& module) {
    module.visit([&](Parameter& p) {
      const std::vector<double> values = download_doubles(backend, p.grad);
      const std::int64_t columns = columns_of(p.spec().shape);
      std::scoped_lock lock(mutex_);
      for (const Section& s : p.spec().sections) {
        auto& whole = result_.gradients
                          .try_emplace(s.name, static_cast<std::size_t>(s.logical.elements()), NAN)
                          .first->second;
        for (std::int64_t i = 0; i < s.rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j)
            put(whole[static_cast<std::size_t>((s.global_row + i) * columns_of(s.logical) +
                                               s.global_column + j)],
                values[static_cast<std::size_t>((s.local_row + i) * columns + j)], s.name);
      }
    });
  }

  void rows(std::vector<double>& whole, std::int64_t total, const std::vector<double>& part,
            std::size_t first) {
    std::scoped_lock lock(mutex_);
    whole.resize(static_cast<std::size_t>(total), NAN);
    for (std::size_t i = 0; i < part.size(); ++i) put(whole[first + i], part[i], "rows");
  }

 private:
  ModuleResult& result_;
  std::mutex mutex_;
};

// This rank's rows of a random (rows, columns) matrix.
Tensor own_rows(Backend& backend, std::int64_t rows, std::int64_t columns, std::uint64_t seed,
                int shards, int shard) {
  const std::vector<double> all = normals(rows * columns, seed);
  const auto share = static_cast<std::ptrdiff_t>(rows / shards * columns);
  return tensor(backend, {rows / shards, columns}, DType::kF64,
                {all.begin() + shard * share, all.begin() + (shard + 1) * share});
}

void backward(Tape& tape, bool split) {
  if (!split) return tape.run_backward();
  tape.run_backward_input();
  tape.drain();
}

}  // namespace

std::string text_of(const HowToRun& how) {
  return join(how.ranks, " ranks", how.sequence_parallel ? ", sequence-parallel" : "",
              how.split ? ", split" : "", how.recompute ? ", recomputed" : "",
              how.selective ? ", selective" : "");
}

ModuleResult run_module(const ModuleCase& module, const HowToRun& how) {
  ModuleResult result;
  Collector collect(result);
  const std::int64_t rows = module.samples * module.tokens;
  on_ranks(how.ranks, [&](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.tensor = how.ranks});
    KeepOnDevice store;
    ModulePtr built = module.build({&mesh.tensor()}, how.sequence_parallel);
    std::vector<Parameter*> parameters;
    built->visit([&](Parameter& p) { parameters.push_back(&p); });
    Unit unit("module", parameters, backend, mesh.data(),
              {.compute = DType::kF64, .gradients = DType::kF64});
    ModulePtr top = std::make_unique<Sharded>(std::move(built), std::vector<Unit*>{&unit});
    if (how.recompute) top = std::make_unique<Recompute>(std::move(top), store);
    ZeroOptimizer optimizer(
        {&unit}, backend, mesh,
        {.optimizer = {.kind = OptimizerKind::kSgd}, .kv_replicas = &mesh.kv_replicas(1)});
    optimizer.load_values(draw);

    Tape tape;
    const Context ctx{.backend = backend,
                      .tape = &tape,
                      .rng = module.rng,
                      .samples = module.samples,
                      .tokens = module.tokens,
                      .sequence_parallel = how.sequence_parallel,
                      .remake_cheap_outputs = how.selective,
                      .compute = DType::kF64};
    const int shards = how.sequence_parallel ? how.ranks : 1;
    const int shard = how.sequence_parallel ? world.rank() : 0;
    Var x = make_var(own_rows(backend, rows, module.inputs, 21, shards, shard), true);
    unit.begin_step(1);
    Var y = top->forward(ctx, x);
    collect.rows(result.y, rows * module.outputs, values(backend, y.value),
                 static_cast<std::size_t>(rows / shards * module.outputs * shard));
    y.grad->add(backend, own_rows(backend, rows, module.outputs, 22, shards, shard));
    y.value = Tensor();
    backward(tape, how.split);
    collect.rows(result.dx, rows * module.inputs, values(backend, x.grad->take()),
                 static_cast<std::size_t>(rows / shards * module.inputs * shard));
    const double norm = optimizer.step({}).grad_norm;
    collect.gradients(backend, *top);
    if (world.rank() == 0) result.norm = norm;
  });
  return result;
}

void expect_same_for_all(const ModuleCase& module, std::vector<int> ranks, bool sequence_parallel) {
  const ModuleResult serial = run_module(module, {});
  double squares = 0;
  for (const auto& [name, values] : serial.gradients)
    for (double v : values) squares += v * v;
  EXPECT_NEAR(serial.norm, std::sqrt(squares), 1e-12 * serial.norm);
  for (int t : ranks)
    for (int flags = 0; flags < 16; ++flags) {
      const HowToRun how{.ranks = t,
                         .sequence_parallel = (flags & 1) != 0,
                         .split = (flags & 2) != 0,
                         .recompute = (flags & 4) != 0,
                         .selective = (flags & 8) != 0};
      if ((how.sequence_parallel && !sequence_parallel) || (how.recompute && how.selective))
        continue;
      SCOPED_TRACE(text_of(how));
      const ModuleResult got = run_module(module, how);
      EXPECT_TRUE(close(got.y, serial.y, 1e-12));
      EXPECT_TRUE(close(got.dx, serial.dx, 1e-12));
      ASSERT_EQ(got.gradients.size(), serial.gradients.size());
      for (const auto& [name, values] : serial.gradients) {
        ASSERT_TRUE(got.gradients.contains(name)) << name;
        for (std::size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(got.gradients.at(name)[i], values[i], 1e-12 * serial.norm) << name << i;
      }
      EXPECT_NEAR(got.norm, serial.norm, 1e-12 * serial.norm);
    }
}

}  // namespace trireme::test
