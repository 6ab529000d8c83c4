#include "framework/data/token_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "framework/base/error.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::Fault;
using testing::FaultyFiles;
using testing::sentence_of;
using testing::SimulatedCrash;
using testing::TemporaryFolder;

constexpr char kTextHash[] = "0123456789abcdef0123456789abcdef";

std::vector<std::int32_t> some_ids(std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < count; ++i)
    ids.push_back(static_cast<std::int32_t>((i * 2654435761 + 17) % vocabulary));
  return ids;
}

void write_tokens(Files& files, const std::string& path, const std::vector<std::int32_t>& ids,
                  std::int64_t vocabulary) {
  TokenWriter writer(files, path, "bytes", vocabulary);
  writer.add(ids);
  writer.finish(kTextHash);
}

std::vector<std::int32_t> read_tokens(Files& files, const std::string& path) {
  const auto file = TokenFile::open(files, path);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file->count()));
  file->copy(0, file->count(), file->header().vocabulary, ids.data());
  return ids;
}

TEST(TokenFile, RoundTripsInTheNarrowestType) {
  const auto files = real_files();
  const TemporaryFolder folder;
  const struct {
    std::int64_t vocabulary, width;
  } cases[] = {{1, 1}, {256, 1}, {257, 2}, {65536, 2}, {65537, 4}, {1000000, 4}};
  for (const auto& c : cases)
    for (const std::int64_t count : {1, 5000}) {
      SCOPED_TRACE(c.vocabulary);
      auto ids = some_ids(count, c.vocabulary);
      ids.back() = static_cast<std::int32_t>(c.vocabulary - 1);
      write_tokens(*files, folder / "t.h5", ids, c.vocabulary);
      const auto file = TokenFile::open(*files, folder / "t.h5");
      EXPECT_EQ(file->header().width, c.width);
      EXPECT_EQ(file->header().vocabulary, c.vocabulary);
      EXPECT_EQ(file->header().tokenizer, "bytes");
      EXPECT_EQ(file->header().text_hash, kTextHash);
      EXPECT_EQ(read_tokens(*files, folder / "t.h5"), ids);
      EXPECT_EQ(files->list(folder.path()), std::vector<std::string>{"t.h5"});
    }
}

TEST(TokenFile, PiecesMakeTheSameBytesAsOneWrite) {
  const auto files = real_files();
  const TemporaryFolder folder;
  const auto ids = some_ids(700000, 50257);  // more than one buffer
  write_tokens(*files, folder / "one.h5", ids, 50257);
  TokenWriter writer(*files, folder / "pieces.h5", "bytes", 50257);
  for (std::size_t i = 0; i < ids.size(); i += 1009)
    writer.add({ids.begin() + static_cast<std::ptrdiff_t>(i),
                ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), i + 1009))});
  writer.finish(kTextHash);
  EXPECT_EQ(read_whole(*files, folder / "one.h5"), read_whole(*files, folder / "pieces.h5"));
  EXPECT_EQ(read_tokens(*files, folder / "pieces.h5"), ids);
}

TEST(TokenFile, TruncatedAnywhereIsASentence) {
  const auto files = real_files();
  const TemporaryFolder folder;
  write_tokens(*files, folder / "t.h5", some_ids(3000, 256), 256);
  const std::string whole = read_whole(*files, folder / "t.h5");
  const std::int64_t size = static_cast<std::int64_t>(whole.size());
  std::vector<std::int64_t> lengths = {0, 1, 7, 8, 9, 40, 47, 48, 49, size - 1, size - 2};
  for (std::int64_t i = 1; i < 40; ++i) lengths.push_back(size * i / 40);
  for (const std::int64_t length : lengths) {
    SCOPED_TRACE(length);
    write_whole_atomically(*files, folder / "cut.h5",
                           whole.substr(0, static_cast<std::size_t>(length)));
    const std::string sentence = sentence_of([&] { TokenFile::open(*files, folder / "cut.h5"); });
    EXPECT_NE(sentence.find("cut.h5"), std::string::npos) << sentence;
    EXPECT_TRUE(sentence.find("truncated") != std::string::npos || length <= 8) << sentence;
  }
}

TEST(TokenFile, EveryFlippedBitIsRefused) {
  const auto files = real_files();
  const TemporaryFolder folder;
  const auto ids = some_ids(300, 256);
  write_tokens(*files, folder / "t.h5", ids, 256);
  const std::string whole = read_whole(*files, folder / "t.h5");
  const auto file = files->open(folder / "flip.h5", OpenMode::kCreate);
  file->write(whole.data(), static_cast<std::int64_t>(whole.size()), 0);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (whole[i] == 0 && i % 16 != 0) continue;  // sample the long runs of zeros
    const char flipped = static_cast<char>(whole[i] ^ (1 << (i % 8)));
    file->write(&flipped, 1, static_cast<std::int64_t>(i));
    const std::string sentence = sentence_of([&] { TokenFile::open(*files, folder / "flip.h5"); });
    ASSERT_NE(sentence, "") << "byte " << i;
    file->write(&whole[i], 1, static_cast<std::int64_t>(i));
  }
  EXPECT_EQ(read_tokens(*files, folder / "flip.h5"), ids);
}

TEST(TokenFile, WhatIsNotOneIsNamed) {
  const auto files = real_files();
  const TemporaryFolder folder;
  write_whole_atomically(*files, folder / "empty", "");
  write_whole_atomically(*files, folder / "text", "In the beginning God created the heaven.\n");
  const auto sentence = [&](const std::string& name) {
    return sentence_of([&] { TokenFile::open(*files, name); });
  };
  EXPECT_EQ(sentence(folder / "empty"), "token file " + (folder / "empty") + " is empty");
  EXPECT_EQ(sentence(folder / "text"), "token file " + (folder / "text") +
                                           " is not an HDF5 file; make one with trireme tokenize");
  EXPECT_EQ(sentence(folder / "none"), "token file " + (folder / "none") + " does not exist");
  EXPECT_EQ(sentence(folder.path()),
            "token file " + folder.path() + " is not a file but a directory");
}

TEST(TokenFile, IdsOutsideTheVocabularyAreNamedWithTheirPosition) {
  const auto files = real_files();
  const TemporaryFolder folder;
  TokenWriter writer(*files, folder / "t.h5", "bytes", 300);
  writer.add({1, 2});
  EXPECT_EQ(
      sentence_of([&] {
        writer.add({3, 300});
      }),
      "write " + (folder / "t.h5") + ": id 300 at position 3 is outside the vocabulary of 300");
  EXPECT_NE(sentence_of([&] { writer.add({-1}); }).find("id -1"), std::string::npos);
  writer.add({299, 4});
  writer.finish(kTextHash);
  const auto file = TokenFile::open(*files, folder / "t.h5");
  std::int32_t ids[4];
  EXPECT_EQ(sentence_of([&] { file->copy(1, 3, 200, ids); }),
            "token file " + (folder / "t.h5") +
                ": id 299 at position 2 is outside the vocabulary of 200 (ids 0 to 199)");
  EXPECT_NE(sentence_of([&] { file->copy(1, 4, 300, ids); }).find("it has 4"), std::string::npos);
  EXPECT_NE(sentence_of([&] { file->copy(-1, 1, 300, ids); }), "");
}

TEST(TokenFile, NothingIsLeftOfAnUnfinishedWriter) {
  const auto files = real_files();
  const TemporaryFolder folder;
  {
    TokenWriter writer(*files, folder / "t.h5", "bytes", 256);
    writer.add({1, 2, 3});
  }
  EXPECT_TRUE(files->list(folder.path()).empty());
  TokenWriter writer(*files, folder / "t.h5", "bytes", 256);
  EXPECT_NE(sentence_of([&] { writer.finish(kTextHash); }).find("no tokens"), std::string::npos);
}

// At every call of a write, under every fault: an error or the right file, and the visible file is
// never torn.
void write_under(Fault fault, bool sticky) {
  const auto plain = real_files();
  const auto before = some_ids(50, 256);
  const auto after = some_ids(80, 256);
  std::int64_t fired = 0;
  for (std::int64_t k = 1;; ++k) {
    SCOPED_TRACE(::testing::Message() << "call " << k);
    ASSERT_LT(k, 500);
    const TemporaryFolder folder;
    write_tokens(*plain, folder / "t.h5", before, 256);
    FaultyFiles faulty({.fault = fault, .at = k, .sticky = sticky});
    bool crashed = false;
    std::string failure;
    try {
      failure = sentence_of([&] { write_tokens(faulty, folder / "t.h5", after, 256); });
    } catch (const SimulatedCrash&) {
      crashed = true;
      faulty.lose_unsynced();
    }
    const auto now = read_tokens(*plain, folder / "t.h5");
    EXPECT_TRUE(now == before || now == after);
    if (failure.empty() && !crashed) {
      EXPECT_EQ(now, after);
    }
    fired += faulty.fired();
    if (k > faulty.calls()) break;
  }
  EXPECT_GT(fired, 0);
}

TEST(TokenFile, WritingSurvivesEveryFaultAtEveryCall) {
  for (const Fault fault : {Fault::kIoError, Fault::kDiskFull, Fault::kInterrupted, Fault::kHalf,
                            Fault::kOneByte, Fault::kCrash}) {
    SCOPED_TRACE(static_cast<int>(fault));
    write_under(fault, false);
  }
  write_under(Fault::kDiskFull, true);
}

TEST(TokenFile, ReadingUnderEveryFaultIsRightOrASentence) {
  const TemporaryFolder folder;
  const auto ids = some_ids(500, 256);
  write_tokens(*real_files(), folder / "t.h5", ids, 256);
  for (const Fault fault : {Fault::kIoError, Fault::kInterrupted, Fault::kOneByte, Fault::kHalf})
    for (const bool sticky : {false, true}) {
      std::int64_t fired = 0;
      for (std::int64_t k = 1;; ++k) {
        SCOPED_TRACE(::testing::Message() << static_cast<int>(fault) << " call " << k);
        ASSERT_LT(k, 200);
        FaultyFiles faulty({.fault = fault, .at = k, .sticky = sticky});
        std::vector<std::int32_t> got;
        const std::string failure =
            sentence_of([&] { got = read_tokens(faulty, folder / "t.h5"); });
        if (failure.empty()) {
          EXPECT_EQ(got, ids);
        }
        if (fault == Fault::kIoError && faulty.fired() > 0) {
          EXPECT_NE(failure.find("Input/output error"), std::string::npos) << failure;
        }
        fired += faulty.fired();
        if (k > faulty.calls()) break;
      }
      EXPECT_GT(fired, 0);
    }
}

TEST(TokenFile, ManyThreadsReadAndWriteAtOnce) {
  const TemporaryFolder folder;
  const auto ids = some_ids(2000, 256);
  std::vector<std::string> failures(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < failures.size(); ++t)
    threads.emplace_back([&, t] {
      const auto files = real_files();
      failures[t] = sentence_of([&] {
        for (int i = 0; i < 5; ++i) {
          write_tokens(*files, folder / "t.h5", ids, 256);
          check(read_tokens(*files, folder / "t.h5") == ids, "other tokens came back");
        }
      });
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, std::vector<std::string>(4));
  EXPECT_EQ(real_files()->list(folder.path()), std::vector<std::string>{"t.h5"});
}

}  // namespace
}  // namespace trireme
