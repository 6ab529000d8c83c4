#include "recipes/cli/parse.h"

#include "tests/recipes/cli/recipe_helpers.h"

namespace trireme::testing {
namespace {

TEST(Parse, DefaultsAreLegalAndResolved) {
  Recipe recipe = parse("");
  EXPECT_EQ(recipe.model.family, "gpt2");
  EXPECT_EQ(recipe.model.kv_heads, 6);
  EXPECT_EQ(recipe.model.head_dim, 64);
  EXPECT_EQ(recipe.model.ffn, 4 * 384);
  EXPECT_EQ(recipe.model.norm, "layer");
  EXPECT_EQ(recipe.pipeline.chunks, 1);
  EXPECT_EQ(recipe.parallel.launch, "threads");
  EXPECT_EQ(recipe.optimizer.lr, 3e-4);
  EXPECT_EQ(recipe.optimizer.decay, 100);
}

TEST(Parse, LlamaResolvesToItsParts) {
  Recipe recipe = parse("[model]\nfamily = llama\nhidden = 768\nheads=12\n");
  EXPECT_EQ(recipe.model.norm, "rms");
  EXPECT_EQ(recipe.model.activation, "swiglu");
  EXPECT_EQ(recipe.model.position, "rotary");
  EXPECT_EQ(recipe.model.ffn, 2048);
}

TEST(Parse, FlagOverEnvironmentOverFileOverDefault) {
  std::string file = "[train]\nsteps = 10\nseed = 20\nlog_every = 30\n";
  Recipe recipe = parse(file, {"--train.steps=12"},
                        {{"TRIREME_TRAIN_STEPS", "11"}, {"TRIREME_TRAIN_SEED", "21"}});
  EXPECT_EQ(recipe.train.steps, 12);
  EXPECT_EQ(recipe.train.seed, 21);
  EXPECT_EQ(recipe.train.log_every, 30);
  EXPECT_EQ(recipe.train.max_skipped, 10);
}

TEST(Parse, LastFlagHolds) {
  EXPECT_EQ(parse("", {"--train.steps=1", "--train.steps", "2"}).train.steps, 2);
}

TEST(Parse, NumbersOfEveryWriting) {
  Recipe recipe = parse(
      "[train]\nsteps = 1e3\n[batch]\nsequence = 2k\n[device]\nmemory = 64MiB\n"
      "[optimizer]\nlr = 1e-3\n");
  EXPECT_EQ(recipe.train.steps, 1000);
  EXPECT_EQ(recipe.batch.sequence, 2000);
  EXPECT_EQ(recipe.device.memory, 64 << 20);
  EXPECT_EQ(recipe.optimizer.lr, 1e-3);
  EXPECT_EQ(parse("[train]\nsteps = 25k\n").train.steps, 25000);
  EXPECT_EQ(parse("[device]\nmemory = 2GiB\n").device.memory, std::int64_t{2} << 30);
  EXPECT_EQ(parse("[device]\nmemory = 1e6\n").device.memory, 1000000);
  EXPECT_EQ(parse("[device]\nmemory = unlimited\n").device.memory, 0);
}

TEST(Parse, BoolsOfEveryWriting) {
  for (std::string word : {"true", "on", "yes", "1"})
    EXPECT_TRUE(parse("[parallel]\nsequence = " + word + "\n").parallel.sequence) << word;
  for (std::string word : {"false", "off", "no", "0"})
    EXPECT_FALSE(parse("[data]\nshuffle = " + word + "\n").data.shuffle) << word;
  EXPECT_TRUE(parse("", {"--parallel.sequence"}).parallel.sequence);
  EXPECT_FALSE(parse("", {"--data.shuffle", "off"}).data.shuffle);
}

TEST(Parse, UnknownKeyNamesPlaceAndNearest) {
  EXPECT_EQ(refusal("# comment\n[optimzer]\nlr = 1\n"),
            "a.cfg:3: unknown key \"optimzer.lr\"; nearest: optimizer.lr");
  EXPECT_EQ(refusal("", {"--steps=3"}),
            "flag --steps: unknown key \"steps\"; nearest: train.steps");
  EXPECT_EQ(refusal("", {}, {{"TRIREME_TRAIN_STPES", "3"}}),
            "environment TRIREME_TRAIN_STPES: unknown key \"train.stpes\"; nearest: train.steps");
  EXPECT_EQ(refusal("[model]\nlr = 1\n"),
            "a.cfg:2: unknown key \"model.lr\"; nearest: optimizer.lr");
  EXPECT_EQ(refusal("[model]\nqqqqqqqqqqqqqqq = 1\n"),
            "a.cfg:2: unknown key \"model.qqqqqqqqqqqqqqq\"; trireme train --help lists the keys");
}

TEST(Parse, OtherVariablesAreNotOurs) {
  EXPECT_EQ(refusal("", {}, {{"TRIREME_ARCH", "x"}, {"PATH", "y"}, {"trireme_train_x", "z"}}), "");
}

TEST(Parse, AllProblemsAtOnceInOrder) {
  std::string text =
      "[model]\nlayers = many\nhidden\n[train]\nsteps = 0\nsteps = 5\n[optimzer]\nlr=1\n";
  EXPECT_EQ(
      refusal(text, {"--parallel.tensor=4", "--batch.micro"}, {{"TRIREME_DATA_SHUFFLE", "2"}}),
      "a.cfg:2: model.layers = many: expected a whole number, 1 to 100000\n"
      "a.cfg:3: expected [section] or key = value, got hidden\n"
      "a.cfg:5: train.steps = 0: expected a whole number, 1 or more (steps)\n"
      "a.cfg:6: train.steps is given twice; first in line 5\n"
      "a.cfg:8: unknown key \"optimzer.lr\"; nearest: optimizer.lr\n"
      "environment TRIREME_DATA_SHUFFLE: data.shuffle = 2: expected true, on, yes or 1, or "
      "false, off, no or 0\n"
      "flag --batch.micro: batch.micro needs a value: expected a whole number, 1 to "
      "16777216 (samples)\n"
      "flag --parallel.tensor: parallel.tensor = 4: 6 attention heads cannot be split over 4 "
      "tensor ranks; use 1, 2, 3 or 6");
}

TEST(Parse, LaterFeaturesAreRefusedByName) {
  EXPECT_EQ(refusal("", {"--device.kind=cuda"}),
            "flag --device.kind: device.kind = cuda is not supported yet; legal values: reference "
            "or cpu");
  EXPECT_EQ(refusal("", {"--zero.stage=4"}),
            "flag --zero.stage: zero.stage = 4: expected a whole number, 0 to 3");
  for (std::string flag : {"--offload.kv_cache=disk"})
    EXPECT_NE(refusal("", {flag}).find("is not supported yet; legal values: "), std::string::npos)
        << flag << ": " << refusal("", {flag});
}

TEST(Parse, TheKeysOfTheAcceptanceHarnessWork) {
  Recipe recipe = parse(
      "[batch]\nglobal = 8\nmicro = 1\nsequence = 32\n[data]\ntext = x/../data/t.txt\n"
      "[device]\nkind = reference\n[model]\nfamily = llama\nlayers = 4\nhidden = 16\nheads = 4\n"
      "kv_heads = 2\nffn = 48\ndropout = 0.1\ntie_embeddings = true\n[optimizer]\nname = adamw\n"
      "lr = 0.001\n[precision]\ncompute = f64\n[train]\nsteps = 3\nseed = 1\nfolder = /t/run\n"
      "[parallel]\ndata = 2\npipeline = 2\ntensor = 2\nsequence = true\n[pipeline]\n"
      "schedule = interleaved\nchunks = 2\n[recompute]\nmode = full\n");
  EXPECT_EQ(recipe.model.head_dim, 4);
  EXPECT_EQ(recipe.micro_batches(), 4);
  EXPECT_EQ(recipe.parallel.ranks(), 8);
}

}  // namespace
}  // namespace trireme::testing
