#include "recipes/train/memory_advice.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

Recipe decoder() {
  Recipe r;
  r.model.family = "llama";
  r.model.layers = 6;
  r.model.heads = 6;
  r.model.kv_heads = 2;
  r.model.ffn = 48;
  r.parallel.data = r.parallel.tensor = r.parallel.pipeline = 1;
  r.pipeline.chunks = 1;
  r.batch.micro = 4;
  r.recompute.mode = "none";
  r.pipeline.schedule = "gpipe";
  return r;
}

TEST(MemoryAdvice, CutsAModelWhoseStatesAreTooLarge) {
  Recipe r = decoder();
  EXPECT_EQ(
      advice_for_states(r),
      "Weights, gradients and optimizer states alone do not fit. Try parallel.pipeline = 2 or "
      "parallel.tensor = 2, or a larger device.memory.");
  r.parallel.pipeline = 8;
  r.parallel.tensor = 2;  // 3 and 4 do not divide 6 heads over 2 key/value heads
  EXPECT_NE(advice_for_states(r).find("Try parallel.tensor = 6,"), std::string::npos);
  r.parallel.tensor = 6;
  EXPECT_NE(advice_for_states(r).find("Try a smaller model,"), std::string::npos);
}

TEST(MemoryAdvice, SmallestChangeFirst) {
  Recipe r = decoder();
  r.parallel.pipeline = 2;
  EXPECT_NE(advice_for_activations(r).find("Try batch.micro = 2 (now 4)"), std::string::npos);
  r.batch.micro = 1;
  EXPECT_NE(advice_for_activations(r).find("Try recompute.mode = full (now none)"),
            std::string::npos);
  r.recompute.mode = "full";
  EXPECT_NE(advice_for_activations(r).find("Try pipeline.schedule = 1f1b"), std::string::npos);
  r.pipeline.schedule = "1f1b";
  EXPECT_NE(advice_for_activations(r).find("Try parallel.pipeline = 4 or parallel.tensor = 2"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
