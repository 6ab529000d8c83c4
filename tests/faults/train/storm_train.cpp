#include "tests/faults/train/storm_train.h"

#include <algorithm>
#include <filesystem>

#include "framework/base/error.h"
#include "recipes/train/gather.h"

namespace trireme::test {

parity::Task tiny_task() {
  return {.model = {.layers = 2,
                    .hidden = 8,
                    .heads = 4,
                    .kv_heads = 4,
                    .head_dim = 2,
                    .ffn = 16,
                    .vocab = 16,
                    .sequence = 4},
          .global_batch = 4};
}

StormRange& storm_range() {
  static StormRange range;
  return range;
}

std::int64_t threads_now() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

StormRun run_storm(const parity::Task& task, const parity::Layout& layout, Baton& baton,
                   const StormBody& body) {
  StormRun run;
  run.errors.resize(static_cast<std::size_t>(layout.mesh.ranks()));
  std::mutex mutex;
  std::vector<std::shared_ptr<MemoryLedger>> ledgers;
  parity::Task watched = task;
  watched.communicator = baton.options();
  watched.backend = [&](std::shared_ptr<MemoryLedger> ledger) {
    const std::scoped_lock lock(mutex);
    ledgers.push_back(ledger);
    return task.backend(std::move(ledger));
  };
  try {
    parity::run_layout(watched, layout, [&](parity::Rank& rank) {
      try {
        body(rank, run);
      } catch (const std::exception& error) {
        run.errors[static_cast<std::size_t>(rank.mesh.world().rank())] = error.what();
        throw;
      }
    });
  } catch (const Error& error) {
    run.thrown = error.what();
  }
  for (const auto& ledger : ledgers)
    for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk})
      run.bytes_left += ledger->current(tier);
  run.hash = baton.hash();
  run.count = baton.count();
  return run;
}

StormRun train_in_storm(const parity::Task& task, const parity::Layout& layout,
                        const StormPlan& plan) {
  Baton baton(layout.mesh.ranks(), plan);
  return train_in_storm(task, layout, baton);
}

StormRun train_in_storm(const parity::Task& task, const parity::Layout& layout, Baton& baton) {
  const SampleSource source = parity::random_samples(task.model, task.seed);
  parity::LogicalTensors weights;
  StormRun run = run_storm(task, layout, baton, [&](parity::Rank& rank, StormRun& seen) {
    for (int step = 0; step < task.steps; ++step) {
      const double loss = rank.engine.train(step, source).loss;
      if (rank.first()) seen.losses.push_back(loss);
      // As a run does after its steps: what each rank has to tell.
      const std::vector<std::string> told =
          gather_texts(rank.mesh.world(), rank.backend, join("step ", step, " loss ", loss));
      check(std::count(told.begin(), told.end(), told[0]) == std::ssize(told),
            "ranks are not at the same step with the same loss");
    }
    weights.add_weights(rank);
  });
  run.weights = weights.tensors();
  return run;
}

}  // namespace trireme::test
