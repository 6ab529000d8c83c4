// Texts that are long: no word is too long, and a text in parts has the ids of the whole.
#include <gtest/gtest.h>
#include <pthread.h>

#include <system_error>
#include <thread>

#include "framework/data/parallel_encoder.h"
#include "tests/framework/data/tokenizers/made_tokenizer.h"

namespace trireme {
namespace {

using testing::byte_level;
using testing::ids_of;
using testing::MadeTokenizer;
using Ids = std::vector<std::int32_t>;

TEST(LongWords, AHeapDoesWhatALoopDoes) {
  const auto tokenizer =
      byte_level({{"x", "x"}, {"xx", "xx"}, {"xxxx", "xxxx"}, {"y", "x"}, {"x", "y"}, {"xy", "x"}})
          .load();
  EXPECT_EQ(ids_of(*tokenizer, std::string(100000, 'x')).size(), 12500U);
  EXPECT_EQ(ids_of(*tokenizer, std::string(1000000, 'x')).size(), 125000U);
  // A word in the middle of a long one, where no merge joins it to its neighbours, is as if alone.
  std::string middle;
  for (int i = 0; i < 200; ++i) middle += (i * i / 7) % 3 == 0 ? 'y' : 'x';
  const Ids whole = ids_of(*tokenizer, middle);
  Ids expected{'z'};
  expected.insert(expected.end(), whole.begin(), whole.end());
  expected.push_back('z');
  EXPECT_EQ(ids_of(*tokenizer, "z" + middle + "z"), expected);
}

// Row 7 of the inference list, its own numbers.
TEST(LongWords, RealOnes) {
  for (const char* name : {"gpt2", "qwen3", "mistral"}) {
    const auto tokenizer = testing::real_tokenizer(name);
    if (!tokenizer) GTEST_SKIP() << "../shared/data/tokenizers/" << name << " is not there";
    for (const auto& [letter, length] : {std::pair{'x', 100000}, {'x', 1 << 20}, {'A', 43000}}) {
      const std::string text(static_cast<std::size_t>(length), letter);
      const Ids ids = ids_of(*tokenizer, text);
      if (std::string(name) != "mistral" && letter == 'x') {
        EXPECT_EQ(ids.size(), text.size() / 8) << name;
      }
      EXPECT_EQ(tokenizer->decode(ids), text);
    }
  }
}

std::string lines(std::size_t bytes) {
  std::string text;
  std::uint32_t state = 7;
  const std::vector<std::string> words{"the", "a b", " ",    "\n",   "\n\n", "x1\n2y", "é",
                                       "!\n", "<x>", "\r\n", "b\na", "  ",   "\t",     "e\u0301\n"};
  while (text.size() < bytes) {
    state = state * 1664525 + 1013904223;
    text += words[(state >> 16) % words.size()];
  }
  return text;
}

Ids in_parts(const Tokenizer& tokenizer, const std::string& text) {
  ParallelEncoder encoder(tokenizer, 3);
  Ids ids;
  for (std::size_t at = 0; at < text.size(); at += 700001)
    encoder.add(text.substr(at, 700001), ids);
  encoder.finish(ids);
  return ids;
}

TEST(Parts, HaveTheIdsOfTheWhole) {
  const std::string text = lines(3500000);
  MadeTokenizer bytes = byte_level({{"t", "h"}, {"th", "e"}, {"Ċ", "Ċ"}, {"Ġ", "a"}, {"Ġ", "Ġ"}});
  bytes.added = R"([{"id": 300, "content": "<x>", "rstrip": true, "lstrip": true},
                    {"id": 301, "content": "1\n2", "special": true, "normalized": false}])";
  bytes.pre_tokenizer = R"({"type": "ByteLevel", "add_prefix_space": true, "use_regex": true})";
  const auto made = bytes.load();
  EXPECT_GT(made->cut_before(text, 1 << 20), 0U);
  EXPECT_EQ(in_parts(*made, text), ids_of(*made, text));
  MadeTokenizer sentences{
      .vocab = R"({"▁": 0, "a": 1, "b": 2, "▁a": 3, "t": 4, "h": 5, "e": 6, "th": 7, "<0x0A>": 8})",
      .merges = R"(["▁ a", "t h"])",
      .normalizer = R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
          {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})"};
  const auto spm = sentences.load();
  EXPECT_GT(spm->cut_before(text, 1 << 20), 0U);
  EXPECT_EQ(in_parts(*spm, text), ids_of(*spm, text));
}

TEST(Parts, ATextWithoutACutStaysWhole) {
  const auto made = byte_level({{"x", "x"}}).load();
  const std::string text(3000000, 'x');
  EXPECT_EQ(made->cut_before(text, text.size()), 0U);
  EXPECT_EQ(in_parts(*made, text).size(), 1500000U);
}

// Threads started meanwhile would have stacks that no memory is large enough for.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, std::size_t{1} << 60);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

TEST(Parts, WithoutMoreThreadsTheCallerEncodesAll) {
  const auto made = byte_level({{"x", "x"}}).load();
  const std::string text = lines(3500000);
  const NoThreads none;
  EXPECT_THROW(std::thread([] {}).join(), std::system_error);
  EXPECT_EQ(in_parts(*made, text), ids_of(*made, text));
}

}  // namespace
}  // namespace trireme
