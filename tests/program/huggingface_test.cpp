// Model folders in and out, as a user calls them: what is not trained comes out with the same bits
// under every layout, and folders that do not fit are refused before work begins.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/base/error.h"
#include "framework/base/random.h"
#include "framework/checkpoint/safetensors/safetensors_writer.h"
#include "tests/program/checkpoints/run_columns.h"
#include "tests/program/harness/served_program.h"

namespace trireme::testing {
namespace {

struct Stored {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string dtype = "BF16";
};

// Like the tiny recipe, so that nothing else need be told.
const std::string kConfig = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
  "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
  "intermediate_size": 24, "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 1e-05,
  "tie_word_embeddings": false, "hidden_act": "silu", "dtype": "bfloat16"})";

std::vector<Stored> llama_tensors(std::int64_t vocab = 256, bool tied = false) {
  std::vector<Stored> all = {{"model.embed_tokens.weight", {vocab, 16}},
                             {"model.norm.weight", {16}}};
  if (!tied) all.push_back({"lm_head.weight", {vocab, 16}});
  for (const std::string layer : {"model.layers.0.", "model.layers.1."})
    for (const Stored& t : std::vector<Stored>{{"input_layernorm.weight", {16}},
                                               {"post_attention_layernorm.weight", {16}},
                                               {"self_attn.q_proj.weight", {16, 16}},
                                               {"self_attn.k_proj.weight", {8, 16}},
                                               {"self_attn.v_proj.weight", {8, 16}},
                                               {"self_attn.o_proj.weight", {16, 16}},
                                               {"mlp.gate_proj.weight", {24, 16}},
                                               {"mlp.up_proj.weight", {24, 16}},
                                               {"mlp.down_proj.weight", {16, 24}}})
      all.push_back({layer + t.name, t.shape});
  return all;
}

class ModelFolders : public ::testing::Test {
 protected:
  void SetUp() override { make(llama_tensors(), kConfig); }

  void make(const std::vector<Stored>& tensors, const std::string& config) {
    files_->make_directories(from_);
    std::vector<SafeTensor> headers;
    for (const Stored& t : tensors)
      headers.push_back({.name = t.name, .dtype = t.dtype, .shape = t.shape});
    SafetensorsWriter writer(*files_, from_ + "/model.safetensors", headers, {{"format", "pt"}});
    const RngKey key = key_from_seed(3);
    std::uint64_t at = 0;
    for (const SafeTensor& t : headers) {
      const auto write = [&]<typename T>(T) {
        std::vector<T> values;
        for (std::int64_t i = 0; i < t.elements(); ++i)
          values.push_back(T(static_cast<float>(random_normal(key, at++) * 0.05)));
        writer.write(values.data(), static_cast<std::int64_t>(values.size() * sizeof(T)));
      };
      if (t.dtype == "F32") write(float{});
      if (t.dtype == "F16") write(Float16{});
      if (t.dtype == "BF16") write(BFloat16{});
    }
    writer.commit();
    write_file(from_ + "/config.json", config);
    write_file(from_ + "/tokenizer_config.json", "{\"chat_template\": \"x\"}");
  }

  // One step that changes nothing.
  Words still(const Words& more = {}) const {
    const Words flags = {"--model.from=" + from_, "--train.steps=1", "--train.checkpoint_every=1",
                         "--optimizer.lr=1e-300", "--optimizer.weight_decay=0"};
    Words line = {program(),
                  "train",
                  "--data.text=" + run_.text(),
                  "--device.kind=reference",
                  "--precision.compute=f32",
                  "--batch.global=4",
                  "--batch.micro=1",
                  "--batch.sequence=16",
                  "--train.folder=" + run_.folder(),
                  "--train.restart=true",
                  "--data.validation=0"};
    line.insert(line.end(), flags.begin(), flags.end());
    line.insert(line.end(), more.begin(), more.end());
    return line;
  }

  std::string bytes_of(const std::string& folder) const {
    std::string all;
    const std::vector<std::string> shards = files_->list(folder);
    std::map<std::string, std::string> tensors;
    for (const std::string& name : shards) {
      if (!name.ends_with(".safetensors")) continue;
      const SafetensorsFile file(*files_, folder + "/" + name);
      for (const SafeTensor& t : file.tensors()) {
        std::string bytes(static_cast<std::size_t>(t.bytes), '\0');
        file.read(t, 0, t.bytes, bytes.data());
        tensors[t.name] = t.text() + bytes;
      }
    }
    for (const auto& [name, bytes] : tensors) all += name + bytes;
    return all;
  }

  std::unique_ptr<Files> files_ = real_files();
  TemporaryFolder folder_;
  TinyRun run_;
  std::string from_ = folder_ / "model";
};

TEST_F(ModelFolders, WhatIsNotTrainedComesOutBitEqualUnderEveryLayout) {
  const std::string original = bytes_of(from_);
  int made = 0;
  for (const Words& layout : std::vector<Words>{
           {},
           {"--parallel.data=2", "--zero.stage=3"},
           {"--parallel.tensor=2", "--parallel.pipeline=2", "--parallel.sequence=true"},
           {"--parallel.tensor=4"},
           {"--parallel.data=2", "--parallel.pipeline=2", "--zero.stage=1",
            "--offload.optimizer=host"}}) {
    const ProgramEnd end = run_to_end(still(layout));
    ASSERT_EQ(end.code, 0) << end.err;
    const std::string out = folder_ / ("out" + std::to_string(++made));
    const ProgramEnd exported =
        run_to_end({program(), "checkpoint", "export", run_.folder(), out, "--shard_size=10kB"});
    ASSERT_EQ(exported.code, 0) << exported.err;
    EXPECT_EQ(bytes_of(out), original) << ::testing::PrintToString(layout);
    EXPECT_TRUE(files_->exists(out + "/model.safetensors.index.json"));
    EXPECT_EQ(text_of_file(out + "/tokenizer_config.json"), "{\"chat_template\": \"x\"}");
    // What came out goes in again.
    EXPECT_EQ(run_to_end(still({"--model.from=" + out})).code, 0);
  }
}

// Whatever config.json says, each tensor keeps its own type: through a run, an import, and a run
// that began with an import.
TEST_F(ModelFolders, MixedTypesComeOutAsTheyWere) {
  std::vector<Stored> tensors = llama_tensors();
  const std::string types[] = {"F32", "BF16", "F16"};
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].dtype = types[i % 3];
  make(tensors, kConfig);
  const std::string original = bytes_of(from_), imported = folder_ / "imported";
  const auto expect_out = [&](const std::string& run, const std::string& name) {
    const ProgramEnd end = run_to_end({program(), "checkpoint", "export", run, folder_ / name});
    ASSERT_EQ(end.code, 0) << end.err;
    EXPECT_EQ(bytes_of(folder_ / name), original) << name;
    EXPECT_NE(end.out.find(" in f32 and f16 and bf16, peak memory "), std::string::npos) << end.out;
    EXPECT_EQ(text_of_file(folder_ / name + "/tokenizer_config.json"),
              "{\"chat_template\": \"x\"}");
    EXPECT_NE(text_of_file(folder_ / name + "/config.json").find("bfloat16"), std::string::npos);
  };
  ASSERT_EQ(run_to_end(still({"--parallel.tensor=2"})).code, 0);
  expect_out(run_.folder(), "by_run");
  ASSERT_EQ(run_to_end({program(), "checkpoint", "import", from_, imported}).code, 0);
  expect_out(imported, "by_import");
  const ProgramEnd on = run_to_end(still({"--model.from=" + imported}));
  ASSERT_EQ(on.code, 0) << on.err;
  expect_out(run_.folder(), "by_both");
  const ProgramEnd narrow = run_to_end({program(), "checkpoint", "export", run_.folder(),
                                        folder_ / "narrow", "--dtype", "f16", "--json"});
  ASSERT_EQ(narrow.code, 0) << narrow.err;
  EXPECT_NE(narrow.out.find("\"dtype\": \"f16\", \"peak_bytes\": "), std::string::npos)
      << narrow.out;
  const SafetensorsFile file(*files_, folder_ / "narrow/model.safetensors");
  for (const SafeTensor& tensor : file.tensors()) EXPECT_EQ(tensor.dtype, "F16") << tensor.name;
  EXPECT_NE(text_of_file(folder_ / "narrow/config.json").find("float16\""), std::string::npos);
}

// 259 rows are 260 over two and four tensor ranks; a tied head is on the first and the last stage,
// and not in the files.
TEST_F(ModelFolders, VocabularyRowsAreTheFoldersWhateverThePadding) {
  int made = 0;
  for (const bool tied : {false, true}) {
    std::string config = kConfig;
    config.replace(config.find("\"vocab_size\": 256"), 17, "\"vocab_size\": 259");
    if (tied) config.replace(config.find("embeddings\": false"), 18, "embeddings\": true");
    files_->remove_all(from_);
    make(llama_tensors(259, tied), config);
    const std::string original = bytes_of(from_);
    for (const Words& layout : std::vector<Words>{{"--parallel.tensor=2", "--parallel.pipeline=2"},
                                                  {"--parallel.tensor=4", "--zero.stage=1"}}) {
      const ProgramEnd end =
          run_to_end(still(layout + Words{"--train.export=hf", "--data.tokenizer=bytes"}));
      ASSERT_EQ(end.code, 0) << end.err;
      EXPECT_EQ(bytes_of(run_.folder() + "/model"), original) << tied << " " << ++made;
    }
  }
}

TEST_F(ModelFolders, ARunBeginsWithTheFoldersLossAndGoesOnWithoutTheFolder) {
  const ProgramEnd one = run_to_end(still({"--train.steps=2"}));
  ASSERT_EQ(one.code, 0) << one.err;
  const auto losses = column(run_.folder(), "loss");
  ASSERT_EQ(run_to_end(still({"--train.steps=2", "--parallel.data=2", "--parallel.tensor=2"})).code,
            0);
  EXPECT_NEAR(std::stod(column(run_.folder(), "loss")[0]), std::stod(losses[0]), 1e-5);
  files_->remove_all(from_);
  const ProgramEnd on = run_to_end(
      {program(), "train", run_.folder() + "/recipe.cfg", "--resume", "--train.steps=3"});
  EXPECT_EQ(on.code, 0) << on.err;
  const ProgramEnd anew =
      run_to_end({program(), "train", run_.folder() + "/recipe.cfg", "--restart"});
  EXPECT_EQ(anew.code, 1);
  EXPECT_NE(anew.err.find("there is no config.json"), std::string::npos) << anew.err;
}

TEST_F(ModelFolders, WhatDoesNotFitIsRefused) {
  const auto refused = [&](const Words& flags, int code, const std::string& part) {
    const ProgramEnd end = run_to_end(still(flags));
    EXPECT_EQ(end.code, code) << end.err;
    EXPECT_NE(end.err.find(part), std::string::npos) << end.err;
  };
  refused({"--model.layers=3"}, 2, "model.layers = 3 contradicts " + from_ + "/config.json, which");
  refused({"--model.from=" + (folder_ / "none")}, 2, "there is no such folder\n");
  refused({"--model.from=" + folder_.path()}, 2, "there is no config.json");
  refused({"--model.from=owner/name"}, 2, "hf download owner/name --local-dir FOLDER does it");
  std::vector<Stored> tensors = llama_tensors();
  tensors.pop_back();
  make(tensors, kConfig);
  refused({}, 1, "tensor \"model.layers.1.mlp.down_proj.weight\" is missing");
  const std::string weights = from_ + "/model.safetensors";
  write_file(weights, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
  refused({}, 1, weights + ": it is a pointer of Git LFS, not the file itself");
  files_->remove(weights);
  write_file(from_ + "/pytorch_model.bin", "x");
  refused({}, 1, "not read: pytorch_model.bin; of what transformers reads it makes the former");
  tensors = llama_tensors();
  tensors.push_back({"model.layers.2.input_layernorm.weight", {16}});
  make(tensors, kConfig);
  refused({}, 1, "1 tensors are not part of this llama model: model.layers.2.input_layernorm");
  tensors = llama_tensors();
  tensors[1].shape = {15};
  make(tensors, kConfig);
  refused({"--parallel.data=2"}, 1, "is BF16 (15), but norm.weight of this model needs BF16 (16)");
  write_file(from_ + "/config.json", kConfig.substr(0, kConfig.size() - 1) + ", \"novel\": 1}");
  refused({}, 2, "\"novel\": 1 is not known");
}

// A request, then the command line, then the folder, then the program say how tokens are drawn.
TEST_F(ModelFolders, GenerationConfigSaysHowTokensAreDrawn) {
  const Words flags = {"--data.tokenizer=bytes", "--precision.compute=f32",
                       "--device.kind=reference"};
  const auto text = [&](const Words& more) {
    Words line = {program(), "generate", from_, "--prompt=ab", "--tokens=12", "--json"};
    line.insert(line.end(), flags.begin(), flags.end());
    line.insert(line.end(), more.begin(), more.end());
    const ProgramEnd end = run_to_end(line);
    EXPECT_EQ(end.code, 0) << end.err;
    return end.out.substr(end.out.find("\"tokens\""));
  };
  const std::string hot = text({}), greedy = text({"--temperature=0"});
  EXPECT_NE(hot, greedy);
  write_file(from_ + "/generation_config.json", R"({"do_sample": false, "eos_token_id": null})");
  EXPECT_EQ(text({}), greedy);
  EXPECT_EQ(text({"--temperature=0.8"}), hot);
  ServedProgram server(from_, flags);
  ASSERT_TRUE(server.ready()) << server.end().err;
  const auto answered = [&](const std::string& body) {
    const test::Answer answer = test::ask(server.port(), test::post("/v1/completions", body));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.body.substr(answer.body.find("\"text\""),
                              answer.body.find("\"logprobs\"") - answer.body.find("\"text\""));
  };
  const std::string plain = answered(R"({"prompt": "ab", "max_tokens": 12, "seed": 1})");
  EXPECT_EQ(answered(R"({"prompt": "ab", "max_tokens": 12, "seed": 1, "temperature": 0})"), plain);
  EXPECT_NE(answered(R"({"prompt": "ab", "max_tokens": 12, "seed": 1, "temperature": 1})"), plain);
  const test::Answer props = test::ask(server.port(), test::get("/props"));
  EXPECT_NE(props.body.find("\"temperature\": 0.0"), std::string::npos) << props.body;
  EXPECT_EQ(server.end().code, 0);
  write_file(from_ + "/generation_config.json", R"({"top_p": 7})");
  const ProgramEnd bad = run_to_end({program(), "generate", from_, "--data.tokenizer=bytes"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_NE(bad.err.find("top_p = 7: expected a number from"), std::string::npos) << bad.err;
}

// The environment is heard by commands that open a model, too: under a flag, over the recipe.
TEST_F(ModelFolders, TheEnvironmentIsHeard) {
  const auto end_with = [&](const std::string& name, const std::string& value,
                            const Words& more = {}) {
    Words line = {program(),
                  "generate",
                  from_,
                  "--data.tokenizer=bytes",
                  "--prompt=ab",
                  "--tokens=2",
                  "--device.kind=reference"};
    line.insert(line.end(), more.begin(), more.end());
    return run_to_end(line, {.environment = {{name, value}}});
  };
  const ProgramEnd bad = end_with("TRIREME_INFERENCE_WEIGHTS", "int9");
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("environment TRIREME_INFERENCE_WEIGHTS: inference.weights = int9"),
            std::string::npos)
      << bad.err;
  EXPECT_EQ(end_with("TRIREME_INFERENCE_WEIGHTS", "int9", {"--inference.weights=full"}).code, 2);
  const ProgramEnd streamed = end_with("TRIREME_OFFLOAD_PARAMETERS", "host");
  EXPECT_EQ(streamed.code, 0) << streamed.err;
  EXPECT_NE(streamed.err.find("host"), std::string::npos) << streamed.err;
  EXPECT_EQ(end_with("TRIREME_OFFLOAD_PARAMETERS", "host", {"--offload.parameters=none"})
                .err.find("streamed"),
            std::string::npos);
}

// Bytes are no tokens of a model with other ones.
TEST_F(ModelFolders, AFolderWithoutItsTokenizerIsNotTrainedOnBytes) {
  std::string config = kConfig;
  config.replace(config.find("\"vocab_size\": 256"), 17, "\"vocab_size\": 300");
  make(llama_tensors(300), config);
  const auto refused = [&](const std::string& part) {
    const ProgramEnd end = run_to_end(still());
    EXPECT_EQ(end.code, 1) << end.err;
    EXPECT_NE(end.err.find(part), std::string::npos) << end.err;
  };
  refused("data.tokenizer = " + from_ + ": the folder has no tokenizer.json");
  write_file(from_ + "/tokenizer.model", "x");
  refused("but a tokenizer.model, of which transformers' AutoTokenizer makes one");
  EXPECT_EQ(run_to_end(still({"--data.tokenizer=bytes"})).code, 0);
  const std::string imported = folder_ / "imported", out = folder_ / "out";
  EXPECT_EQ(run_to_end({program(), "checkpoint", "import", from_, imported}).code, 0);
  EXPECT_EQ(run_to_end({program(), "checkpoint", "export", imported, out}).code, 0);
  EXPECT_EQ(bytes_of(out), bytes_of(from_));
}

// A model of bytes, such as one that began here, needs no tokenizer to be said.
TEST_F(ModelFolders, BytesAreTheTokensOfAModelThatHasNoOthers) {
  const Words ask = {"--prompt=ab", "--tokens=2", "--device.kind=reference", "--json"};
  const ProgramEnd said =
      run_to_end(Words{program(), "generate", from_, "--data.tokenizer=bytes"} + ask);
  const ProgramEnd plain = run_to_end(Words{program(), "generate", from_} + ask);
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.out, said.out);
}

// Nobody else is kept from the model by a template that is none.
TEST_F(ModelFolders, ABrokenTemplateIsForConversationsAlone) {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte)
    vocab += join(byte > 0 ? ", " : "", "\"<0x", "0123456789ABCDEF"[byte / 16],
                  "0123456789ABCDEF"[byte % 16], ">\": ", byte);
  write_file(from_ + "/tokenizer.json", R"({"version": "1.0", "model": {"type": "BPE",)"
                                        R"( "byte_fallback": true, "merges": [], "vocab": {)" +
                                            vocab + "}}}");
  write_file(from_ + "/tokenizer_config.json", R"({"chat_template": "{% for x in %}"})");
  const Words flags = {"--device.kind=reference"};
  const auto generate = [&](const Words& more) {
    return run_to_end(Words{program(), "generate", from_, "--prompt=ab", "--tokens=2"} + flags +
                      more);
  };
  EXPECT_EQ(generate({}).code, 0) << generate({}).err;
  const std::string problem = "chat template:1: a value is expected";
  const ProgramEnd asked = generate({"--chat"});
  EXPECT_EQ(asked.code, 1);
  EXPECT_NE(asked.err.find(problem), std::string::npos) << asked.err;
  const ProgramEnd chat = run_to_end(Words{program(), "chat", from_} + flags);
  EXPECT_EQ(chat.code, 1);
  EXPECT_NE(chat.err.find("chat: " + from_ + ": " + problem), std::string::npos) << chat.err;
  ServedProgram server(from_, flags);
  ASSERT_TRUE(server.ready()) << server.end().err;
  const auto status = [&](const char* path, const char* body, const std::string& part) {
    const test::Answer answer = test::ask(server.port(), test::post(path, body));
    EXPECT_NE(answer.body.find(part), std::string::npos) << answer.body;
    return answer.status;
  };
  EXPECT_EQ(status("/v1/completions", R"({"prompt": "ab", "max_tokens": 2})", "choices"), 200);
  EXPECT_EQ(status("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "a"}]})",
                   "a chat template that cannot be used (" + from_),
            400);
  EXPECT_NE(server.end().err.find("/v1/completions only: " + from_), std::string::npos);
}

TEST_F(ModelFolders, ImportedExportedInspectedAndStartedFrom) {
  const std::string imported = folder_ / "imported", out = folder_ / "out";
  const auto checkpoint = [&](const Words& words) {
    const ProgramEnd end = run_to_end(Words{program(), "checkpoint"} + words);
    EXPECT_EQ(end.code, 0) << end.err;
    return end.out;
  };
  EXPECT_NE(checkpoint({"import", from_, imported}).find("step-000000: "), std::string::npos);
  EXPECT_NE(checkpoint({"verify", imported}).find(": good"), std::string::npos);
  EXPECT_NE(checkpoint({"inspect", imported}).find("layers.1.mlp.gate.weight"), std::string::npos);
  checkpoint({"export", imported, out});
  EXPECT_EQ(bytes_of(out), bytes_of(from_));

  // What a run starts from: the folder or its import, under other layouts.
  const auto losses = [&](const Words& more) {
    const ProgramEnd end =
        run_to_end(still(Words{"--train.steps=3", "--optimizer.lr=1e-2"} + more));
    EXPECT_EQ(end.code, 0) << end.err;
    return column(run_.folder(), "loss");
  };
  const Words direct = losses({});
  EXPECT_EQ(losses({"--model.from=" + imported}), direct);
  const Words cut = losses({"--model.from=" + imported + "/checkpoints/step-000000",
                            "--parallel.tensor=2", "--parallel.data=2", "--zero.stage=3"});
  ASSERT_EQ(cut.size(), direct.size());
  for (std::size_t i = 0; i < cut.size(); ++i)
    EXPECT_NEAR(std::stod(cut[i]), std::stod(direct[i]), 1e-5);
  // A run is a start, too: its own last step.
  const ProgramEnd next =
      run_to_end(still({"--model.from=" + run_.folder(), "--train.folder=" + (folder_ / "next")}));
  ASSERT_EQ(next.code, 0) << next.err;
  EXPECT_NE(column(folder_ / "next", "loss")[0], direct[0]);

  const auto refused = [&](const Words& words, int code, const std::string& part) {
    const ProgramEnd end = run_to_end(words);
    EXPECT_EQ(end.code, code) << end.err;
    EXPECT_NE(end.err.find(part), std::string::npos) << end.err;
  };
  EXPECT_NE(checkpoint({"import", from_, imported + "/"}).find("step-000000: "), std::string::npos);
  refused({program(), "checkpoint", "import", from_, run_.folder()}, 1, "has a run with steps");
  refused({program(), "checkpoint", "import", run_.folder(), folder_ / "x"}, 2, "no config.json");
  refused({program(), "checkpoint", "import", from_, folder_ / "x", "--model.layers=3"}, 2,
          "contradicts");
  refused(still({"--train.folder=" + imported, "--train.restart=false", "--resume"}), 2,
          "has the weights of an import");
  std::vector<Stored> tensors = llama_tensors();
  tensors.pop_back();
  make(tensors, kConfig);
  refused({program(), "checkpoint", "import", from_, folder_ / "x"}, 1, "is missing");
  EXPECT_FALSE(files_->exists(folder_ / "x/checkpoints/step-000000"));
}

TEST_F(ModelFolders, ExportRefusesWhatItCannotDo) {
  ASSERT_EQ(run_to_end(still()).code, 0);
  const auto refused = [&](const Words& words, int code, const std::string& part) {
    const ProgramEnd end = run_to_end(Words{program(), "checkpoint", "export"} + words);
    EXPECT_EQ(end.code, code) << end.err;
    EXPECT_NE(end.err.find(part), std::string::npos) << end.err;
  };
  refused({run_.folder(), from_}, 1, "it is there already; a new or empty folder is expected");
  refused({run_.folder(), folder_ / "o", "--dtype=f8"}, 2, "f32, bf16 or f16 is expected");
  refused({run_.folder(), folder_ / "o", "--shard_size=many"}, 2, "a size is expected");
  EXPECT_FALSE(files_->exists(folder_ / "o"));
}

}  // namespace
}  // namespace trireme::testing
