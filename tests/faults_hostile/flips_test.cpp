// R13, the token file's half: one bit flipped in 2,000 seeded places of a token file is an error
// that names the file, or the tokens are what they were.
#include <gtest/gtest.h>

#include <random>

#include "framework/base/error.h"
#include "framework/data/text_tokens.h"
#include "framework/data/token_file.h"
#include "tests/support/fault_count.h"
#include "tests/support/simulated_files.h"

namespace trireme {
namespace {

using testing::sentence_of;
using testing::SimulatedFiles;

constexpr char kPath[] = "tokens.h5";

std::vector<std::int32_t> tokens_of(Files& files, bool verify) {
  const auto file = TokenFile::open(files, kPath, verify);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file->count()));
  file->copy(0, file->count(), file->header().vocabulary, ids.data());
  return ids;
}

// Flips bits, half of them where something is (most of the structures is padding), and a third
// within the structures. The bug that may be planted: tokens that are not verified.
test::FaultCount flip(bool verify) {
  test::FaultCount count{.row = "R13", .what = "flipped bits of a token file"};
  SimulatedFiles files;
  std::string text;
  for (int i = 0; i < 700; ++i) text += std::to_string(i * 7919 % 1000) + " oars ";
  write_whole_atomically(files, "text", text);
  tokenize_file(files, "text", kPath, *byte_tokenizer());
  const std::vector<std::int32_t> quiet = tokens_of(files, true);
  const std::string bytes = read_whole(files, kPath);
  std::mt19937_64 random(13);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t within =
        i % 3 == 0 ? std::min<std::size_t>(bytes.size(), 4096) : bytes.size();
    std::size_t at = random() % within;
    if (i % 2 == 0)
      while (bytes[at] == 0) at = random() % within;
    const char flipped = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
    const auto file = files.open(kPath, OpenMode::kReadWrite);
    file->write(&flipped, 1, static_cast<std::int64_t>(at));
    bool equal = false;
    const std::string sentence = sentence_of([&] { equal = tokens_of(files, verify) == quiet; });
    ++count.runs;
    ++count.injected;
    if (sentence.empty() ? !equal : sentence.find(kPath) == sentence.npos) ++count.lost;
    file->write(&bytes[at], 1, static_cast<std::int64_t>(at));
  }
  EXPECT_EQ(tokens_of(files, true), quiet);
  return count;
}

TEST(TokenFileFlips, AreNamedOrHarmless) { test::tell(flip(true)); }

TEST(TokenFileFlips, WithoutVerifyingTheyAreFound) { EXPECT_GT(flip(false).lost, 100); }

}  // namespace
}  // namespace trireme
