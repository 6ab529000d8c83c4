// Model folders into checkpoints and back: killed at any call, once more, and in how little memory.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <fstream>
#include <functional>

#include "framework/base/error.h"
#include "framework/checkpoint/checkpoint_folder.h"
#include "framework/checkpoint/safetensors/safetensors_writer.h"
#include "recipes/cli/parse.h"
#include "recipes/huggingface/export.h"
#include "recipes/huggingface/folder.h"
#include "recipes/train/model_import.h"
#include "recipes/train/plan.h"
#include "recipes/train/run_start.h"
#include "tests/support/fault_count.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::Fault;
using testing::FaultyFiles;
using testing::sentence_of;
using testing::SimulatedCrash;
using testing::TemporaryFolder;

const std::string kLlama = "tests/golden/huggingface/llama";

Recipe recipe_of(const std::string& from, const std::string& run) {
  const auto files = real_files();
  RecipeInput input{.flags = {{"model.from", from},
                              {"train.folder", run},
                              {"batch.sequence", "8"},
                              {"precision.compute", "f32"}}};
  input.model_keys_of = [&](const std::string& folder) {
    return ModelKeys{folder + "/config.json", hf_model_of(*files, folder).keys};
  };
  Recipe recipe = parse_recipe(input);
  resolve_for_machine(recipe, {.cores = 1}, recipe.model.vocab);
  return recipe;
}

// Runs `work` in a process of its own that dies at the k-th call of its files: nothing is cleaned
// up then, and its lock is that of a dead process. True if it died.
bool dies_at(std::int64_t k, const std::function<void(Files&)>& work) {
  constexpr int kDead = 9;
  const pid_t child = fork();
  if (child == 0) {
    std::set_terminate([] { _exit(kDead); });  // a destructor that meets the end
    FaultyFiles files({.fault = Fault::kCrash, .at = k});
    try {
      work(files);
    } catch (const SimulatedCrash&) {
      _exit(kDead);
    } catch (...) {
      _exit(1);
    }
    _exit(files.fired() > 0 ? kDead : 0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kDead));
  return WEXITSTATUS(status) != 0;
}

std::vector<std::string> names_below(Files& files, const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& name : files.list(folder)) {
    names.push_back(name);
    if (files.status(path_join(folder, name)).kind == FileKind::kDirectory)
      for (const std::string& below : names_below(files, path_join(folder, name)))
        names.push_back(path_join(name, below));
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Import, ThatIsKilledAtAnyCallLeavesNothingHalfAndTheNextOneWorks) {
  test::FaultCount count{.row = "import", .what = "kills of an import"};
  const auto files = real_files();
  const TemporaryFolder quiet;
  const std::string whole = quiet / "run";
  import_model(*files, recipe_of(kLlama, whole), {});
  const std::vector<std::string> expected = names_below(*files, whole);
  for (std::int64_t k = 1;; ++k) {
    const TemporaryFolder folder;
    const std::string run = folder / "run";
    ++count.runs;
    if (!dies_at(k, [&](Files& with) { import_model(with, recipe_of(kLlama, run), {}); })) break;
    ++count.injected;
    const EarlierRun there = earlier_run(*files, run);
    if (!there.checkpoints.empty()) {  // it is visible, so it is whole
      EXPECT_TRUE(verify_checkpoint(*files, run + "/checkpoints/step-000000").empty()) << k;
      EXPECT_TRUE(files->exists(run + "/recipe.cfg")) << k;
    }
    const ImportedModel again = import_model(*files, recipe_of(kLlama, run), {});
    const bool good =
        verify_checkpoint(*files, again.place).empty() && names_below(*files, run) == expected;
    EXPECT_TRUE(good) << "killed at call " << k;
    count.lost += good ? 0 : 1;
  }
  EXPECT_GT(count.injected, 40);
  tell(count);
}

TEST(Import, OnceMoreIsComparedAndAnotherModelRefused) {
  const auto files = real_files();
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  import_model(*files, recipe_of(kLlama, run), {});
  const std::string manifest = read_whole(*files, run + "/checkpoints/step-000000/manifest.json");
  const std::string recipe = read_whole(*files, run + "/recipe.cfg");
  EXPECT_EQ(import_model(*files, recipe_of(kLlama, run), {}).place,
            run + "/checkpoints/step-000000");
  EXPECT_EQ(read_whole(*files, run + "/checkpoints/step-000000/manifest.json"), manifest);
  const auto refused = [&](const std::string& from, const std::string& part) {
    const std::string sentence =
        sentence_of([&] { import_model(*files, recipe_of(from, run), {}); });
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
  };
  refused("tests/golden/huggingface/mistral", " has an import of another model, with model.");
  // The same shapes, one other bit.
  const std::string changed = folder / "changed";
  files->make_directories(changed);
  write_whole_atomically(*files, changed + "/config.json",
                         read_whole(*files, kLlama + "/config.json"));
  std::string weights = read_whole(*files, kLlama + "/model.safetensors");
  weights.back() = static_cast<char>(weights.back() ^ 1);
  write_whole_atomically(*files, changed + "/model.safetensors", weights);
  refused(changed, "is there already, whole, and differs");
  EXPECT_EQ(read_whole(*files, run + "/checkpoints/step-000000/manifest.json"), manifest);
  EXPECT_EQ(read_whole(*files, run + "/recipe.cfg"), recipe);
  EXPECT_EQ(files->list(run + "/checkpoints").size(), 2u);  // and `latest`
}

TEST(Import, ThatIsAskedToEndLeavesNothing) {
  const auto files = real_files();
  const TemporaryFolder folder;
  int told = 0;
  const auto stop = [&](std::int64_t done, std::int64_t all) {
    EXPECT_LE(done, all);
    check(++told < 3, "asked to end");
  };
  EXPECT_EQ(sentence_of([&] { import_model(*files, recipe_of(kLlama, folder / "run"), stop); }),
            "asked to end");
  EXPECT_TRUE(files->list(folder / "run/checkpoints").empty());
  import_model(*files, recipe_of(kLlama, folder / "run"), {});
  const Recipe recipe = recipe_of(kLlama, folder / "run");
  const CheckpointReader checkpoint(*files, folder / "run/checkpoints/step-000000");
  told = 0;
  EXPECT_EQ(sentence_of([&] {
              export_model(*files, checkpoint, recipe, folder / "out",
                           {.base = kLlama, .progress = stop});
            }),
            "asked to end");
  EXPECT_EQ(files->list(folder.path()), std::vector<std::string>{"run"});
}

// A killed process leaves the folder that it was making; the next one for the same place clears up.
TEST(Export, ThatIsKilledAtAnyCallLeavesNothingUnderItsNameAndTheNextOneWorks) {
  test::FaultCount count{.row = "export", .what = "kills of an export"};
  const auto files = real_files();
  const TemporaryFolder source;
  const Recipe recipe = recipe_of(kLlama, source / "run");
  const std::string place = import_model(*files, recipe, {}).place;
  const auto write = [&](Files& with, const std::string& out) {
    const CheckpointReader checkpoint(*files, place);
    export_model(with, checkpoint, recipe, out, {.dtype = DType::kBF16, .base = kLlama});
  };
  write(*files, source / "quiet/");  // a name as a shell completes it
  const std::vector<std::string> expected = names_below(*files, source / "quiet");
  const std::string weights = read_whole(*files, source / "quiet/model.safetensors");
  for (std::int64_t k = 1;; ++k) {
    const TemporaryFolder folder;
    ++count.runs;
    if (!dies_at(k, [&](Files& with) { write(with, folder / "out"); })) break;
    ++count.injected;
    bool good = true;
    if (files->exists(folder / "out")) {  // it has its name, so it is whole
      good = names_below(*files, folder / "out") == expected;
    } else {
      write(*files, folder / "out");
      good = files->list(folder.path()) == std::vector<std::string>{"out"};
    }
    good = good && read_whole(*files, folder / "out/model.safetensors") == weights;
    EXPECT_TRUE(good) << "killed at call " << k;
    count.lost += good ? 0 : 1;
  }
  EXPECT_GT(count.injected, 20);
  tell(count);
}

// Rows R11 and R12: a call that fails is a sentence, and the next one works; short counts change no
// byte.
TEST(Transfers, EveryFailingCallIsASentence) {
  test::FaultCount count{.row = "R11", .what = "failing calls of imports and exports"};
  const auto files = real_files();
  const TemporaryFolder source;
  import_model(*files, recipe_of(kLlama, source / "run"), {});
  const std::vector<std::string> expected = names_below(*files, source / "run");
  const Recipe recipe = recipe_of(kLlama, source / "run");
  const auto write = [&](Files& with, const std::string& out) {
    const CheckpointReader checkpoint(*files, source / "run/checkpoints/step-000000");
    export_model(with, checkpoint, recipe, out, {.base = kLlama});
  };
  write(*files, source / "out");
  const std::string weights = read_whole(*files, source / "out/model.safetensors");
  bool more = true;
  for (std::int64_t k = 1; more; k += 3) {
    more = false;
    for (const Fault fault : {Fault::kIoError, Fault::kDiskFull}) {
      const TemporaryFolder folder;
      const std::string run = folder / "run", out = folder / "out";
      FaultyFiles in({.fault = fault, .at = k}), away({.fault = fault, .at = k});
      const std::string no_import =
          sentence_of([&] { import_model(in, recipe_of(kLlama, run), {}); });
      const std::string no_export = sentence_of([&] { write(away, out); });
      more = more || in.fired() > 0 || away.fired() > 0;
      count.runs += 2;
      count.injected += in.fired() + away.fired();
      const bool visible = files->exists(run) && !earlier_run(*files, run).checkpoints.empty();
      if (visible) {
        EXPECT_TRUE(verify_checkpoint(*files, run + "/checkpoints/step-000000").empty());
      } else {
        EXPECT_NE(no_import, "") << k;
      }
      // A lock whose removal failed is this process's, which lives.
      for (const std::string& name : visible ? files->list(run) : std::vector<std::string>{})
        if (name.find("lock") != std::string::npos) files->remove(path_join(run, name));
      if (!no_import.empty()) import_model(*files, recipe_of(kLlama, run), {});
      if (!files->exists(out)) {
        EXPECT_NE(no_export, "") << k;
        EXPECT_EQ(files->list(folder.path()), std::vector<std::string>{"run"}) << k;
        write(*files, out);
      }
      const bool good = names_below(*files, run) == expected &&
                        read_whole(*files, out + "/model.safetensors") == weights;
      EXPECT_TRUE(good) << k << ": " << no_import << "; " << no_export;
      count.lost += good ? 0 : 1;
    }
  }
  EXPECT_GT(count.injected, 150);
  tell(count);
}

TEST(Transfers, ShortCountsChangeNoByte) {
  const auto files = real_files();
  const TemporaryFolder folder;
  const auto both = [&](Files& with, const std::string& name) {
    const Recipe recipe = recipe_of(kLlama, folder / name);
    const std::string place = import_model(with, recipe, {}).place;
    const CheckpointReader checkpoint(with, place);
    export_model(with, checkpoint, recipe, folder / name + "-out", {.base = kLlama});
    std::string all = read_whole(*files, place + "/ranks-0.h5");
    for (const char* file : {"model.safetensors", "config.json", "README.md"})
      all += read_whole(*files, folder / name + "-out/" + file);
    return all;
  };
  const std::string quiet = both(*files, "quiet");
  for (const Fault fault : {Fault::kOneByte, Fault::kHalf}) {
    FaultyFiles stutter({.fault = fault, .at = 1, .sticky = true});
    EXPECT_EQ(both(stutter, fault == Fault::kHalf ? "half" : "one"), quiet);
    EXPECT_GT(stutter.fired(), 100);
  }
}

std::int64_t resident() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
  return 0;
}

// 96 MiB of f32 (Llama) or 64 (GPT-2) in tensors of 16, stored as they come, or transposed and
// fused.
class LittleMemory : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr std::int64_t kHidden = 64, kWide = std::int64_t{1} << 16, kLayers = 2;
  static constexpr std::int64_t kTensor = kHidden * kWide * 4;

  void make(const std::string& folder) const {
    std::vector<SafeTensor> tensors;
    const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
      tensors.push_back({.name = name, .dtype = "F32", .shape = std::move(shape)});
    };
    const bool gpt2 = GetParam();
    add(gpt2 ? "wte.weight" : "model.embed_tokens.weight", {32, kHidden});
    if (gpt2) add("wpe.weight", {8, kHidden});
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const std::string layer = join(gpt2 ? "h." : "model.layers.", i, ".");
      if (gpt2) {
        for (const char* norm : {"ln_1", "ln_2"})
          for (const char* part : {".weight", ".bias"}) add(join(layer, norm, part), {kHidden});
        add(layer + "attn.c_attn.weight", {kHidden, 3 * kHidden});
        add(layer + "attn.c_attn.bias", {3 * kHidden});
        add(layer + "attn.c_proj.weight", {kHidden, kHidden});
        add(layer + "attn.c_proj.bias", {kHidden});
        add(layer + "mlp.c_fc.weight", {kHidden, kWide});
        add(layer + "mlp.c_fc.bias", {kWide});
        add(layer + "mlp.c_proj.weight", {kWide, kHidden});
        add(layer + "mlp.c_proj.bias", {kHidden});
        continue;
      }
      for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
        add(join(layer, norm, ".weight"), {kHidden});
      for (const char* linear : {"q", "k", "v", "o"})
        add(join(layer, "self_attn.", linear, "_proj.weight"), {kHidden, kHidden});
      for (const char* linear : {"gate", "up"})
        add(join(layer, "mlp.", linear, "_proj.weight"), {kWide, kHidden});
      add(layer + "mlp.down_proj.weight", {kHidden, kWide});
    }
    add(gpt2 ? "ln_f.weight" : "model.norm.weight", {kHidden});
    if (gpt2) add("ln_f.bias", {kHidden});
    const auto files = real_files();
    files->make_directories(folder);
    write_whole_atomically(
        *files, folder + "/config.json",
        gpt2
            ? join(R"({"model_type": "gpt2", "n_layer": )", kLayers,
                   R"(, "n_embd": 64, "n_head": 1, "n_positions": 8, "n_inner": )", kWide,
                   R"(, "vocab_size": 32})")
            : join(R"({"model_type": "llama", "num_hidden_layers": )", kLayers,
                   R"(, "hidden_size": 64, "num_attention_heads": 1, "intermediate_size": )", kWide,
                   R"(, "vocab_size": 32, "max_position_embeddings": 8,
                       "tie_word_embeddings": true})"));
    SafetensorsWriter writer(*files, folder + "/model.safetensors", tensors, {});
    std::vector<float> values;
    float next = 0;
    for (const SafeTensor& tensor : tensors) {
      values.resize(static_cast<std::size_t>(tensor.elements()));
      for (float& v : values) v = next++;
      writer.write(values.data(), tensor.elements() * 4);
    }
    writer.commit();
  }

  // The most that `work` holds beyond what was held before, looked at with every block.
  template <typename Work>
  static std::int64_t taken(const Work& work) {
    const std::int64_t before = resident();
    std::int64_t peak = before, looks = 0;
    work([&](std::int64_t, std::int64_t) { peak = std::max(peak, resident()), ++looks; });
    EXPECT_GT(looks, 15);
    return peak - before;
  }
};

// The bound of checkpoints: a shard, of which nothing is held here, and two of the largest tensor.
TEST_P(LittleMemory, IsTakenByImportAndExportWhateverTheModel) {
  const auto files = real_files();
  const TemporaryFolder folder;
  make(folder / "from");
  const Recipe recipe = recipe_of(folder / "from", folder / "run");
  std::string place;
  const std::int64_t import =
      taken([&](const auto& look) { place = import_model(*files, recipe, look).place; });
  const CheckpointReader checkpoint(*files, place);
  const std::int64_t out = taken([&](const auto& look) {
    export_model(*files, checkpoint, recipe, folder / "out",
                 {.base = folder / "from", .progress = look});
  });
  EXPECT_LE(import, 2 * kTensor);
  EXPECT_LE(out, 2 * kTensor);
  const SafetensorsFile a(*files, folder / "from/model.safetensors"),
      b(*files, folder / "out/model.safetensors");
  EXPECT_EQ(a.tensors().size(), b.tensors().size());
  for (const SafeTensor& tensor : a.tensors()) {
    const SafeTensor* const other = b.find(tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    std::vector<float> x(static_cast<std::size_t>(tensor.elements())), y(x.size());
    a.read(tensor, 0, tensor.bytes, x.data());
    b.read(*other, 0, other->bytes, y.data());
    EXPECT_EQ(x, y) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LittleMemory, ::testing::Values(false, true),
                         [](const auto& gpt2) { return gpt2.param ? "Gpt2" : "Llama"; });

}  // namespace
}  // namespace trireme
