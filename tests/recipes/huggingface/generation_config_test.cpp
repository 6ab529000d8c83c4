#include "recipes/huggingface/generation_config.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

using Ids = std::vector<std::int32_t>;

class GenerationConfig : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& text) {
    files_->make_directories(base_);
    write_whole_atomically(*files_, path_join(base_, name), text);
  }
  // Empty if none was written.
  std::string written(const Ids& ends, const std::string& base) {
    files_->remove_all(to_);
    files_->make_directories(to_);
    write_generation_config(*files_, base, to_, ends);
    const std::string path = path_join(to_, "generation_config.json");
    return files_->exists(path) ? read_whole(*files_, path) : "";
  }

  TemporaryFolder folder_;
  std::unique_ptr<Files> files_ = real_files();
  const std::string base_ = folder_ / "base", to_ = folder_ / "to";
};

TEST_F(GenerationConfig, TheListWinsOverTheOneOfTheModel) {
  put("config.json", R"({"eos_token_id": 5})");
  EXPECT_EQ(end_ids_of(*files_, base_), (Ids{5}));
  put("generation_config.json", R"({"eos_token_id": [5, 7]})");
  EXPECT_EQ(end_ids_of(*files_, base_), (Ids{5, 7}));
  put("generation_config.json", R"({"eos_token_id": null})");
  EXPECT_EQ(end_ids_of(*files_, base_), (Ids{5}));
}

// Row 5 of the classes of holes: an id becomes one only if it is one.
TEST_F(GenerationConfig, WhatIsNoIdIsRefusedByName) {
  for (const char* bad : {"-1", "3.7", "1099511627776", "\"2\"", "[2, -1]", "1e30", "{}", "true"}) {
    put("generation_config.json", std::string("{\"eos_token_id\": ") + bad + "}");
    const std::string sentence = sentence_of([&] { end_ids_of(*files_, base_); });
    EXPECT_NE(sentence.find("generation_config.json: eos_token_id"), std::string::npos)
        << bad << ": " << sentence;
  }
  for (const char* bad : {"", "[1]", "{", "7"}) {
    put("generation_config.json", bad);
    EXPECT_NE(sentence_of([&] { end_ids_of(*files_, base_); }).find("generation_config.json"),
              std::string::npos)
        << bad;
  }
}

TEST_F(GenerationConfig, SaysHowTokensAreDrawn) {
  EXPECT_FALSE(drawing_defaults_of(*files_, base_).temperature);  // no file
  put("generation_config.json", R"({"temperature": 0.6, "top_p": 0.9, "top_k": 50, "min_p": 0.1,
    "repetition_penalty": 1.1, "do_sample": true})");
  const DrawingDefaults all = drawing_defaults_of(*files_, base_);
  EXPECT_EQ(all.temperature, 0.6);
  EXPECT_EQ(all.top_p, 0.9);
  EXPECT_EQ(all.top_k, 50);
  EXPECT_EQ(all.min_p, 0.1);
  EXPECT_EQ(all.repetition_penalty, 1.1);
  put("generation_config.json", R"({"temperature": null, "top_k": 0})");
  EXPECT_FALSE(drawing_defaults_of(*files_, base_).temperature);
  EXPECT_EQ(drawing_defaults_of(*files_, base_).top_k, 0);
  put("generation_config.json", R"({"temperature": 0.6, "do_sample": false})");
  EXPECT_EQ(drawing_defaults_of(*files_, base_).temperature, 0.0);
  for (const auto& [name, bad] : {std::pair{"temperature", "-0.1"},
                                  {"temperature", "1e9"},
                                  {"temperature", "\"hot\""},
                                  {"top_p", "0"},
                                  {"top_p", "1.5"},
                                  {"min_p", "2"},
                                  {"top_k", "-2"},
                                  {"top_k", "2.5"},
                                  {"repetition_penalty", "0"},
                                  {"do_sample", "1"}}) {
    put("generation_config.json", join("{\"", name, "\": ", bad, "}"));
    const std::string sentence = sentence_of([&] { drawing_defaults_of(*files_, base_); });
    EXPECT_NE(sentence.find(join("generation_config.json: ", name)), std::string::npos)
        << bad << ": " << sentence;
  }
}

TEST_F(GenerationConfig, WhatHasAllEndsIsCopiedAsItIs) {
  const std::string text = "{ \"eos_token_id\":[7,  2] }";
  put("generation_config.json", text);
  EXPECT_EQ(written({2}, base_), text);
  EXPECT_EQ(written({}, base_), text);
}

TEST_F(GenerationConfig, EndsThatAreMissingComeLast) {
  put("generation_config.json", R"({"do_sample": true, "eos_token_id": 2, "top_p": 0.9})");
  EXPECT_EQ(written({2, 9}, base_),
            "{\n  \"do_sample\": true,\n  \"eos_token_id\": [\n    2,\n    9\n  ],\n"
            "  \"top_p\": 0.9\n}\n");
}

TEST_F(GenerationConfig, AFolderWithoutOneGetsOne) {
  put("config.json", R"({"eos_token_id": [3]})");
  EXPECT_EQ(written({9}, base_), "{\n  \"eos_token_id\": [\n    3,\n    9\n  ]\n}\n");
  EXPECT_EQ(written({9}, ""), "{\n  \"eos_token_id\": [\n    9\n  ]\n}\n");
  EXPECT_EQ(written({}, ""), "");
}

}  // namespace
}  // namespace trireme::testing
