#include "tests/recipes/train/background/flight.h"

#include <algorithm>

#include "recipes/cli/keys.h"

namespace trireme::testing {

using namespace parity;

Sessions::Sessions(Files& files, const std::string& folder, int ranks) {
  all_.push_back(std::make_unique<SaveSession>(files, folder, 0, ranks));
}

Sessions::Sessions(const std::vector<Files*>& files, const std::string& folder) {
  for (std::size_t rank = 0; rank < files.size(); ++rank)
    all_.push_back(std::make_unique<SaveSession>(*files[rank], folder, static_cast<int>(rank), 1));
}

SaveRank Sessions::rank(Rank& rank) {
  return {&of(rank.mesh.world().rank()), rank.engine, rank.mesh, rank.backend, rank.backend};
}

bool Landing::none_failed() const {
  return std::all_of(sentences.begin(), sentences.end(),
                     [](const std::string& sentence) { return sentence.empty(); });
}

namespace {

Recipe recipe_of(const Flight& flight) {
  Recipe recipe = default_recipe();
  recipe.train.steps = flight.steps;
  recipe.train.checkpoint_every = flight.every;
  recipe.train.async_checkpoint = flight.background;
  recipe.train.keep = 100;
  recipe.batch.global = flight.task.global_batch;
  recipe.precision.compute = "f64";
  return recipe;
}

struct Pilot {
  const Flight& flight;
  const Recipe& recipe;
  Sessions& sessions;
  Landing& landing;

  void fly(Rank& rank) const {
    const int own = rank.mesh.world().rank();
    const CheckpointInputs inputs{.session = &sessions.of(own)};
    Checkpointing checkpoints(inputs, recipe, sessions.rank(rank));
    if (flight.from > 0) load(sessions.rank(rank), flight.from);
    RunCounts counts{.steps = flight.from};
    const SampleSource source = random_samples(flight.task.model, flight.task.seed);
    bool stopped = false;
    for (std::int64_t step = flight.from; step < flight.steps && !stopped; ++step) {
      Wishes wishes = checkpoints.wishes();
      wishes.stop = flight.stop_after == step + 1 && own == 0 ? 1 : 0;
      const EngineStep result = rank.engine.train(step, source, wishes);
      if (own == 0) landing.losses.push_back(result.loss);
      counts.steps = step + 1;
      stopped = result.optimizer.wishes.stop > 0;
      checkpoints.after_step(counts, result.optimizer.wishes, nullptr);
      std::int64_t& most = landing.snapshots[static_cast<std::size_t>(own)];
      most = std::max(most, rank.backend.ledger().current(Tier::kHost));
    }
  }
};

}  // namespace

Landing fly(const Flight& flight, Sessions& sessions) {
  const auto ranks = static_cast<std::size_t>(flight.layout.mesh.ranks());
  Landing landing;
  landing.sentences.resize(ranks);
  landing.snapshots.resize(ranks);
  const Recipe recipe = recipe_of(flight);
  const Pilot pilot{flight, recipe, sessions, landing};
  run_layout(flight.task, flight.layout, [&](Rank& rank) {
    try {
      pilot.fly(rank);
    } catch (const std::exception& error) {
      landing.sentences[static_cast<std::size_t>(rank.mesh.world().rank())] = error.what();
    }
  });
  return landing;
}

std::map<std::string, std::string> contents_of(Files& files, const std::string& folder) {
  std::map<std::string, std::string> all;
  for (const std::string& name : files.list(folder)) {
    const std::string path = path_join(folder, name);
    if (files.status(path).kind == FileKind::kDirectory) {
      for (auto& [below, bytes] : contents_of(files, path))
        all[path_join(name, below)] = std::move(bytes);
    } else {
      all[name] = read_whole(files, path);
    }
  }
  return all;
}

}  // namespace trireme::testing
