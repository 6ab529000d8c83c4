#include "tests/tensor_parallel/head_run.h"

#include "tensor_parallel/head.h"
#include "tests/support/ranks.h"
#include "tests/support/tensors.h"
#include "zero/optimizer.h"

namespace trireme::test {

HeadResult run_head(int ranks, const HeadCase& c) {
  HeadResult result{.table_rows =
                        std::vector<std::vector<double>>(static_cast<std::size_t>(ranks))};
  on_ranks(ranks, [&](Communicator& world, Backend& backend) {
    Mesh mesh(world, {.tensor = ranks});
    Head head({&mesh.tensor()},
              {.vocab = c.vocab, .columns = c.columns, .chunk_rows = c.chunk_rows}, nullptr);
    std::vector<Parameter*> parameters;
    head.visit([&](Parameter& p) { parameters.push_back(&p); });
    Unit unit("head", parameters, backend, mesh.data(),
              {.compute = DType::kF64, .gradients = DType::kF64});
    unit.load_values(
        [&](const Section& s, std::int64_t, std::span<double> out) {
          std::copy_n(c.table.begin() + s.global_row * c.columns, out.size(), out.begin());
        },
        {});
    Tape tape;
    LossTarget target{.labels = ids(backend, c.labels),
                      .seed = 1.0 / static_cast<double>(c.labels.size()),
                      .smoothing = c.smoothing,
                      .total = backend.zeros({1}, DType::kF64, MemoryKind::kWorkspace)};
    const Context ctx{.backend = backend,
                      .tape = &tape,
                      .tokens = static_cast<std::int64_t>(c.labels.size()),
                      .compute = DType::kF64,
                      .target = &target};
    const Var x = make_var(
        tensor(backend, {static_cast<std::int64_t>(c.labels.size()), c.columns}, DType::kF64, c.h),
        true);
    unit.begin_step(1);
    head.forward(ctx, x);
    tape.run_backward();
    unit.end_backward();
    unit.finish_reduction();
    result.table_rows[static_cast<std::size_t>(world.rank())] =
        values(backend, parameters[0]->grad);
    if (world.rank() > 0) return;
    result.loss = values(backend, target.total)[0] / static_cast<double>(c.labels.size());
    result.dh = values(backend, x.grad->take());
  });
  return result;
}

}  // namespace trireme::test
