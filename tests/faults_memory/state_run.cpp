#include "tests/faults_memory/state_run.h"

#include <exception>
#include <filesystem>

#include "framework/backend/reference_backend.h"
#include "framework/base/error.h"
#include "framework/checkpoint/checkpoint_reader.h"
#include "recipes/train/save_session.h"

namespace trireme::test {

namespace {

using parity::Rank;

ModelOptions smallest_model() {
  ModelOptions model = parity::tiny_llama(2);
  model.layers = 1;
  model.hidden = 8;
  model.head_dim = 2;
  model.ffn = 8;
  model.sequence = 4;
  return model;
}

std::int64_t open_descriptors() {
  std::int64_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

SaveRank save_rank(SaveSession& session, Rank& rank) {
  return {&session, rank.engine, rank.mesh, rank.backend, rank.backend};
}

Manifest head_of(std::int64_t step) { return {.run = "test", .step = step, .recipe = "[train]\n"}; }

class ForgetfulBackend final : public ReferenceBackend {
 public:
  using ReferenceBackend::ReferenceBackend;

 protected:
  std::shared_ptr<Storage> do_allocate(std::int64_t bytes, MemoryKind kind) override {
    ledger().add(Tier::kDevice, kind, 1);
    auto storage = ReferenceBackend::do_allocate(bytes, kind);
    ledger().remove(Tier::kDevice, kind, 1);
    return storage;
  }
};

}  // namespace

StateRun::StateRun(parity::Layout layout, bool forgets) : layout_(std::move(layout)) {
  task_.model = smallest_model();
  task_.global_batch = 2;
  task_.backend = [this,
                   forgets](std::shared_ptr<MemoryLedger> ledger) -> std::unique_ptr<Backend> {
    {
      const std::scoped_lock lock(mutex_);
      ledgers_.push_back(ledger);
    }
    if (forgets) return std::make_unique<ForgetfulBackend>(std::move(ledger));
    return make_reference_backend(std::move(ledger));
  };
  const auto files = real_files();
  SaveSession session(*files, folder_ / "a", 0, layout_.mesh.ranks());
  const SampleSource source = parity::random_samples(task_.model, task_.seed);
  parity::run_layout(task_, layout_, [&](Rank& rank) {
    rank.engine.train(0, source);
    save(save_rank(session, rank), head_of(1));
  });
  StateEnd end = nothing_said();
  attempt(end);
  quiet_ = end.loss;
  descriptors_ = open_descriptors();
  files->remove_all(folder_ / "a/step-000002");
}

StateEnd StateRun::nothing_said() const {
  return {.by_rank = std::vector<std::string>(static_cast<std::size_t>(layout_.mesh.ranks()))};
}

void StateRun::attempt(StateEnd& end) {
  const auto files = real_files();
  SaveSession session(*files, folder_ / "a", 0, layout_.mesh.ranks());
  const SampleSource source = parity::random_samples(task_.model, task_.seed);
  parity::run_layout(task_, layout_, [&](Rank& rank) {
    try {
      load(save_rank(session, rank), 1);
      const double mine = rank.engine.train(1, source).loss;
      if (rank.first()) end.loss = mine;
      save(save_rank(session, rank), head_of(2));
    } catch (const std::exception& error) {
      const Spared memory;
      end.by_rank[static_cast<std::size_t>(rank.mesh.world().rank())] = error.what();
      throw;
    }
  });
}

StateEnd StateRun::run(const MemoryFault& fault) {
  StateEnd end = nothing_said();
  std::exception_ptr thrown;
  ledgers_.clear();
  ledgers_.reserve(16);
  begin_failing(fault);
  try {
    attempt(end);
    end.ended = true;
  } catch (...) {
    thrown = std::current_exception();
  }
  end.memory = end_failing();
  if (end.ended) return end;
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    end.spoken = true;
    end.said = error.what();
  } catch (const std::exception& error) {
    end.said = error.what();
  }
  return end;
}

std::string StateRun::damage(const StateEnd& end) {
  for (const auto& ledger : ledgers_)
    for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk})
      if (ledger->current(tier) != 0)
        return join(ledger->current(tier), " bytes on the ", name_of(tier), " ledger");
  if (open_descriptors() != descriptors_)
    return join(open_descriptors(), " open descriptors, ", descriptors_, " before");
  const auto files = real_files();
  const std::string second = folder_ / "a/step-000002";
  if (end.ended && end.loss != quiet_) return join("loss ", end.loss, ", quiet ", quiet_);
  if (end.ended && !files->exists(second)) return "step 2 is not there";
  const bool tells_saved = end.said.find("is saved, but") != std::string::npos;
  if (tells_saved && !files->exists(second)) return "step 2 is told, but not there";
  for (const std::int64_t step : CheckpointFolder(*files, folder_ / "a").steps())
    for (const std::string& problem :
         verify_checkpoint(*files, CheckpointFolder(*files, folder_ / "a").folder_of(step)))
      return problem;
  files->remove_all(second);
  if (CheckpointFolder(*files, folder_ / "a").steps() != std::vector<std::int64_t>{1})
    return "step 1 is gone";
  return "";
}

}  // namespace trireme::test
