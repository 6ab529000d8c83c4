// Weights in the order of the CPU's matrix tiles: a pass gives the bits that it gave before.
#include <gtest/gtest.h>

#include <numeric>

#include "framework/backend/infer_kernels.h"
#include "tests/parity/train_layout.h"

namespace trireme::parity {
namespace {

ModelOptions wide_enough(bool ties) {
  ModelOptions o = tiny_llama(1);
  o.hidden = 64;
  o.heads = 2;
  o.head_dim = 32;
  o.ffn = 96;
  o.vocab = 80;
  o.tie_embeddings = ties;
  return o;
}

// Of every position of two texts, whose first five and then last positions are a pass.
std::vector<float> logits_of(Engine& engine, Backend& backend) {
  KvCache cache(backend, engine.cache_options(4));
  const std::vector<std::int32_t> pages{0, 1, 2, 3};
  std::vector<float> all;
  for (const auto& [first, count] :
       {std::pair<std::int64_t, std::int64_t>{0, 5}, {5, 20}, {25, 1}}) {
    InferenceRows rows;
    for (std::int64_t text = 0; text < 2; ++text) {
      rows.sequences.push_back({text * count, count, first,
                                std::span(pages).subspan(static_cast<std::size_t>(2 * text), 2)});
      for (std::int64_t i = 0; i < count; ++i)
        rows.ids.push_back(static_cast<std::int32_t>((first + i) * (3 + text) % 80));
    }
    rows.logit_rows.resize(static_cast<std::size_t>(2 * count));
    std::iota(rows.logit_rows.begin(), rows.logit_rows.end(), 0);
    const Logits& got = engine.infer(cache, std::span(&rows, 1))[0];
    all.insert(all.end(), got.begin(), got.end());
  }
  return all;
}

TEST(TiledWeights, GiveThePassesOfAModelTheSameBits) {
  for (const bool ties : {false, true}) {
    Task task{.model = wide_enough(ties), .compute = DType::kBF16, .forward_only = true};
    task.backend = [](std::shared_ptr<MemoryLedger> ledger) {
      return make_cpu_backend(std::move(ledger), 2);
    };
    bool tiles = true;
    run_layout(task, {}, [&](Rank& rank) {
      const std::vector<float> before = logits_of(rank.engine, rank.backend);
      rank.engine.begin_inference();
      rank.engine.begin_inference();  // again: nothing more
      int tiled = 0;
      rank.engine.stage().visit([&](Parameter& p) { tiled += p.tiled() ? 1 : 0; });
      tiles = tiled > 0;
      // 4 products a layer, the embedding and, if it is another one, the head.
      const std::int64_t all = 4 * rank.engine.options().model.layers + (ties ? 1 : 2);
      EXPECT_EQ(tiled, tiles ? all : 0);
      EXPECT_EQ(logits_of(rank.engine, rank.backend), before);
    });
    if (!tiles) GTEST_SKIP() << "no matrix tiles here";
  }
}

}  // namespace
}  // namespace trireme::parity
