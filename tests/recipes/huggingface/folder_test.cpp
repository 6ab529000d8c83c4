// Weights of model folders: found under every family's names, cut, transposed and converted; and
// folders that are not whole (rows 24 and 25 of the inference table, R23's index half).
#include "recipes/huggingface/folder.h"

#include <gtest/gtest.h>

#include <cstring>

#include "framework/base/error.h"
#include "framework/checkpoint/safetensors/safetensors_writer.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::sentence_of;

// Element i of a tensor is 100 x its number + i.
struct Stored {
  std::string name;
  std::vector<std::int64_t> shape;
  float first = 0;
};

class HfFolders : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::vector<Stored>& tensors) {
    std::vector<SafeTensor> headers;
    for (const Stored& t : tensors)
      headers.push_back({.name = t.name, .dtype = "F32", .shape = t.shape});
    SafetensorsWriter writer(*files_, folder_ / name, headers, {{"format", "pt"}});
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::vector<float> values;
      for (std::int64_t e = 0; e < headers[i].elements(); ++e)
        values.push_back(tensors[i].first + static_cast<float>(e));
      writer.write(values.data(), static_cast<std::int64_t>(values.size() * sizeof(float)));
    }
    writer.commit();
  }
  void config(const std::string& text) {
    write_whole_atomically(*files_, folder_ / "config.json", text);
  }
  void gpt2() {
    config(R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 2, "n_head": 1, "n_positions": 4,
               "vocab_size": 3})");
  }
  void llama() {
    config(R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 2,
               "num_attention_heads": 1, "intermediate_size": 3, "vocab_size": 3,
               "max_position_embeddings": 8})");
  }
  static std::vector<float> read(const HfFolder& folder, const std::string& name,
                                 const Shape& shape, const Rectangle& at) {
    std::vector<float> out(static_cast<std::size_t>(at.elements()));
    folder.read(name, shape, at, DType::kF32, out.data());
    return out;
  }

  std::unique_ptr<Files> files_ = real_files();
  testing::TemporaryFolder folder_;
};

TEST_F(HfFolders, Gpt2IsFusedAndTransposedWithAndWithoutPrefix) {
  gpt2();
  for (const std::string prefix : {"", "transformer."}) {
    write("model.safetensors", {{prefix + "wte.weight", {3, 2}, 100},
                                {prefix + "h.0.attn.c_attn.weight", {2, 6}, 200},
                                {prefix + "h.0.attn.c_attn.bias", {6}, 300},
                                {prefix + "h.0.attn.bias", {1, 1, 4, 4}, 0},
                                {prefix + "h.0.mlp.c_fc.weight", {2, 8}, 400}});
    const HfFolder folder(*files_, folder_.path());
    EXPECT_EQ(read(folder, "embedding.table", {3, 2}, {1, 0, 2, 2}),
              (std::vector<float>{102, 103, 104, 105}));
    EXPECT_EQ(read(folder, "embedding.table", {3, 2}, {0, 1, 3, 1}),
              (std::vector<float>{101, 103, 105}));
    // Stored (inputs, 3 x outputs): row 0 is q q k k v v of input 0.
    EXPECT_EQ(read(folder, "layers.0.attention.k.weight", {2, 2}, {0, 0, 2, 2}),
              (std::vector<float>{202, 208, 203, 209}));
    EXPECT_EQ(read(folder, "layers.0.attention.v.weight", {2, 2}, {1, 0, 1, 2}),
              (std::vector<float>{205, 211}));
    EXPECT_EQ(read(folder, "layers.0.attention.v.bias", {2}, {0, 0, 2, 1}),
              (std::vector<float>{304, 305}));
    EXPECT_EQ(read(folder, "head.weight", {3, 2}, {0, 0, 1, 2}), (std::vector<float>{100, 101}));
    EXPECT_EQ(sentence_of([&] {
                folder.expect_all_used({"embedding.table", "layers.0.attention.k.weight",
                                        "layers.0.attention.k.bias", "layers.0.mlp.up.weight"},
                                       true);
              }),
              "");
    EXPECT_NE(sentence_of([&] {
                folder.expect_all_used({"embedding.table"}, true);
              }).find("3 tensors are not part of this gpt2 model: h.0.attn.c_attn.bias"),
              std::string::npos);
    EXPECT_NE(sentence_of([&] {
                read(folder, "embedding.table", {4, 2}, {0, 0, 1, 2});
              }).find("is F32 (3, 2), but embedding.table of this model needs F32 (4, 2)"),
              std::string::npos);
    EXPECT_NE(sentence_of([&] {
                read(folder, "norm.weight", {2}, {0, 0, 2, 1});
              }).find("tensor \"ln_f.weight\" is missing, which is norm.weight"),
              std::string::npos);
  }
}

TEST_F(HfFolders, ConvertsOnTheWay) {
  llama();
  const std::uint16_t halves[3] = {0x3f80, 0xc000, 0x3fc0};  // bf16: 1, -2, 1.5
  SafetensorsWriter writer(*files_, folder_ / "model.safetensors",
                           {{.name = "model.norm.weight", .dtype = "BF16", .shape = {3}}}, {});
  writer.write(halves, sizeof halves);
  writer.commit();
  const HfFolder folder(*files_, folder_.path());
  EXPECT_EQ(read(folder, "norm.weight", {3}, {0, 0, 3, 1}), (std::vector<float>{1, -2, 1.5}));
  std::uint16_t same[3];
  folder.read("norm.weight", {3}, {0, 0, 3, 1}, DType::kBF16, same);
  EXPECT_EQ(std::memcmp(same, halves, sizeof same), 0);
}

TEST_F(HfFolders, ShardsAreThoseOfTheIndexAndNoOthers) {
  llama();
  write("a.safetensors", {{"model.norm.weight", {2}, 10}});
  write("b.safetensors", {{"lm_head.weight", {3, 2}, 20}});
  write("stray.safetensors", {{"model.norm.weight", {2}, 99}});
  const auto index = [&](const std::string& map) {
    write_whole_atomically(*files_, folder_ / "model.safetensors.index.json",
                           R"({"metadata": {"total_size": 32}, "weight_map": )" + map + "}");
  };
  index(R"({"model.norm.weight": "a.safetensors", "lm_head.weight": "b.safetensors"})");
  const HfFolder folder(*files_, folder_.path());
  EXPECT_EQ(read(folder, "norm.weight", {2}, {0, 0, 2, 1}), (std::vector<float>{10, 11}));
  EXPECT_EQ(read(folder, "head.weight", {3, 2}, {2, 0, 1, 2}), (std::vector<float>{24, 25}));

  const auto error = [&] { return sentence_of([&] { HfFolder again(*files_, folder_.path()); }); };
  const auto has = [&](const std::string& part) {
    const std::string sentence = error();
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
  };
  index(R"({"model.norm.weight": "c.safetensors", "lm_head.weight": "d.safetensors"})");
  has("are missing: c.safetensors, d.safetensors");
  index(R"({"model.norm.weight": "a.safetensors", "other": "b.safetensors"})");
  has("tensor \"other\" is not in b.safetensors");
  index(R"({"model.norm.weight": "b.safetensors", "lm_head.weight": "b.safetensors"})");
  has("tensor \"model.norm.weight\" is not in b.safetensors");
  for (const std::string name :
       {"../a.safetensors", "/a.safetensors", "x/../a", "..", "", "a\\\\b"}) {
    index("{\"model.norm.weight\": \"" + name + "\"}");
    has("is no plain file name");
  }
  index("[]");
  has("an object is expected");
  // A whole file beside them is what `transformers` reads.
  write("model.safetensors", {{"model.norm.weight", {2}, 30}});
  EXPECT_EQ(read(HfFolder(*files_, folder_.path()), "norm.weight", {2}, {0, 0, 2, 1}),
            (std::vector<float>{30, 31}));
  files_->remove(folder_ / "model.safetensors");
  files_->remove(folder_ / "model.safetensors.index.json");
  has("neither model.safetensors nor model.safetensors.index.json; not read: a.safetensors, "
      "b.safetensors");
  files_->remove(folder_ / "config.json");
  has("there is no config.json");
}

// Either name of a tied pair may be there, or both with the same values; a head that is tied and
// differs is refused: what it means depends on whom one asks.
TEST_F(HfFolders, TiedHeadsAreOneTable) {
  const std::string names[] = {"model.embed_tokens.weight", "lm_head.weight"};
  for (const bool tied : {true, false}) {
    config(std::string(R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 2,
               "num_attention_heads": 1, "intermediate_size": 3, "vocab_size": 3,
               "max_position_embeddings": 8, "tie_word_embeddings": )") +
           (tied ? "true}" : "false}"));
    const auto used = [&] {
      const HfFolder folder(*files_, folder_.path());
      return sentence_of([&] {
        folder.expect_all_used({"embedding.table", "head.weight"}, tied);
        read(folder, "embedding.table", {3, 2}, {0, 0, 3, 2});
        read(folder, "head.weight", {3, 2}, {0, 0, 3, 2});
      });
    };
    write("model.safetensors", {{names[0], {3, 2}, 10}});
    EXPECT_EQ(used(), "");
    write("model.safetensors", {{names[0], {3, 2}, 10}, {names[1], {3, 2}, 10}});
    EXPECT_EQ(used(), "");
    write("model.safetensors", {{names[1], {3, 2}, 10}});
    EXPECT_EQ(used().find("is missing") != std::string::npos, !tied);
    write("model.safetensors", {{names[0], {3, 2}, 10}, {names[1], {3, 2}, 11}});
    EXPECT_EQ(used().find("lm_head.weight and model.embed_tokens.weight differ; set "
                          "tie_word_embeddings to false") != std::string::npos,
              tied)
        << used();
  }
}

}  // namespace
}  // namespace trireme
