#include "recipes/cli/keys.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "recipes/cli/values.h"
#include "tests/recipes/cli/recipe_helpers.h"

namespace trireme::testing {
namespace {

bool is_whole(KeyType type) {
  return type == KeyType::kCount || type == KeyType::kSize || type == KeyType::kCounts;
}
bool is_numeric(KeyType type) { return is_whole(type) || type == KeyType::kNumber; }

std::string as_text(const Key& key, double value) {
  return is_whole(key.type) ? std::to_string(static_cast<std::int64_t>(value)) : number_text(value);
}

// Every row of the table, one test each: names and numbers are taken from the table itself.
class EveryKey : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Key& key() const { return keys()[GetParam()]; }
  std::string problem(const std::string& text) const {
    Recipe recipe = default_recipe();
    return assign(key(), text, recipe);
  }
  std::string refused(const std::string& text) const {
    return key().full_name() + " = " + text + ": expected " + expected(key());
  }
};

TEST_P(EveryKey, DefaultIsSupportedAndStaysItself) {
  Recipe recipe = default_recipe();
  EXPECT_EQ(problem(std::string(key().initial)), "");
  EXPECT_EQ(problem(text_of(key(), recipe)), "");
}

TEST_P(EveryKey, BelowTheLeastIsRefused) {
  if (!is_numeric(key().type)) return;
  double below = is_whole(key().type) ? key().min - 1
                 : key().above_min    ? key().min
                                      : std::nextafter(key().min, -1e300);
  if (below == 0 && !key().zero_word.empty()) below = -1;
  EXPECT_EQ(problem(as_text(key(), below)), refused(as_text(key(), below)));
}

TEST_P(EveryKey, AboveTheMostIsRefused) {
  if (!is_numeric(key().type)) return;
  std::string above = "1e300";
  if (key().max < 9e15)
    above = is_whole(key().type)
                ? as_text(key(), key().max + 1)
                : number_text(key().below_max ? key().max : std::nextafter(key().max, 1e300));
  EXPECT_EQ(problem(above), refused(above));
}

TEST_P(EveryKey, BothEndsAreLegal) {
  if (!is_numeric(key().type)) return;
  for (double end : {key().min, key().max}) {
    if ((end == key().min && key().above_min) || (end == key().max && key().below_max)) continue;
    std::string said = problem(as_text(key(), end));
    EXPECT_EQ(said.find("expected"), std::string::npos) << said;
  }
}

TEST_P(EveryKey, WrongTypeIsRefused) {
  if (key().type == KeyType::kText || key().type == KeyType::kPath) {
    EXPECT_EQ(problem("two\nlines"), refused("two\nlines"));
    return;
  }
  for (std::string text : {"wrong", "1.5.2", "nan", "-", "12 apples", "0x10", "1,,2"})
    EXPECT_EQ(problem(text), refused(text));
  if (is_whole(key().type)) {
    EXPECT_EQ(problem("1.5"), refused("1.5"));
  }
  if (is_numeric(key().type)) {
    EXPECT_EQ(problem("inf"), refused("inf"));
  }
}

TEST_P(EveryKey, KnownValuesAreSupportedOrRefusedAsLater) {
  for (auto value : key().values) {
    bool supported =
        key().supported.empty() ||
        std::find(key().supported.begin(), key().supported.end(), value) != key().supported.end();
    std::string said = problem(std::string(value));
    if (supported)
      EXPECT_EQ(said, "");
    else
      EXPECT_NE(said.find("is not supported yet; legal values: "), std::string::npos) << said;
  }
}

TEST_P(EveryKey, RowIsComplete) {
  EXPECT_FALSE(key().help.empty());
  EXPECT_EQ(key().help.back(), '.');
  EXPECT_EQ(find_key(key().full_name()), &key());
  auto all = sections();
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const KeySection& section) {
    return section.name == key().section;
  }));
  EXPECT_EQ(key().type == KeyType::kChoice, !key().values.empty());
}

INSTANTIATE_TEST_SUITE_P(Table, EveryKey, ::testing::Range(std::size_t{0}, keys().size()),
                         [](const auto& at) {
                           std::string name = keys()[at.param].full_name();
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(Keys, TwentyFiveAreCommon) {
  EXPECT_EQ(std::count_if(keys().begin(), keys().end(), [](const Key& key) { return key.common; }),
            25);
}

TEST(Keys, EnvironmentNamesAreDistinct) {
  std::set<std::string> names;
  for (const Key& key : keys()) EXPECT_TRUE(names.insert(key.environment()).second);
}

TEST(Keys, EveryKeyOfTheContractIsThere) {
  std::vector<std::pair<std::string, std::vector<std::string>>> contract{
      {"model",
       {"family",
        "layers",
        "hidden",
        "heads",
        "kv_heads",
        "head_dim",
        "ffn",
        "vocab",
        "norm",
        "norm_eps",
        "qk_norm",
        "bias",
        "activation",
        "position",
        "positions",
        "rope_theta",
        "rope_scaling",
        "window",
        "scale_embeddings",
        "tie_embeddings",
        "dropout",
        "from"}},
      {"data",
       {"text", "tokens", "tokenizer", "loss_on", "skip_bad", "reset_attention_mask", "validation",
        "shuffle", "skip"}},
      {"batch", {"global", "micro", "sequence"}},
      {"parallel", {"data", "tensor", "pipeline", "sequence", "launch", "threads", "timeout"}},
      {"pipeline", {"schedule", "chunks", "partition"}},
      {"recompute", {"mode", "every", "partition"}},
      {"zero", {"stage", "reshard", "shard_ranks", "overlap", "max_live_parameters"}},
      {"offload",
       {"optimizer", "gradients", "parameters", "activations", "kv_cache", "slots", "resident",
        "folder"}},
      {"precision",
       {"compute", "gradients", "loss_scale", "initial_loss_scale", "loss_scale_window",
        "loss_scale_hysteresis", "min_loss_scale"}},
      {"optimizer",
       {"name", "lr", "beta1", "beta2", "eps", "momentum", "weight_decay", "clip", "schedule",
        "warmup", "min_lr", "label_smoothing"}},
      {"train",
       {"steps", "seed", "folder", "log_every", "evaluate_every", "sample_every", "sample_prompts",
        "sample_tokens", "checkpoint_every", "async_checkpoint", "keep", "export", "resume",
        "restart", "max_skipped", "check_replicas", "trace"}},
      {"device", {"kind", "memory"}}};
  for (const auto& [section, names] : contract)
    for (const auto& name : names) EXPECT_TRUE(find_key(section + "." + name)) << section << name;
}

// Each key's text reaches its own member: no two rows share one, and none is bound to a neighbour.
TEST(Keys, RowsAreBoundToDistinctMembers) {
  Recipe recipe;
  std::set<const void*> members;
  for (const Key& key : keys())
    members.insert(
        std::visit([&](auto at) { return static_cast<const void*>(&at(recipe)); }, key.at));
  EXPECT_EQ(members.size(), keys().size());
}

}  // namespace
}  // namespace trireme::testing
