// Texts packed by gzip and zstd: the same text in any number of members and frames, and a sentence
// for whatever is cut off, damaged, or wants too much.
#include <gtest/gtest.h>
#include <zstd.h>

#include "framework/base/error.h"
#include "framework/data/text_stream.h"
#include "framework/data/text_tokens.h"
#include "tests/framework/data/gzip.h"
#include "tests/support/fault_count.h"
#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

// A frame with a checksum, as the program `zstd` writes it.
std::string zstd(const std::string& bytes) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), bytes.data(), bytes.size()));
  ZSTD_freeCCtx(context);
  return packed;
}

std::string some_text(int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i)
    text += "line " + std::to_string(i * 7919 % 1009) + " of a text that packs so so\n";
  return text;
}

class Packed : public ::testing::Test {
 protected:
  std::string unpacked(const std::string& bytes) {
    write_whole_atomically(*files_, folder_ / "t", bytes);
    TextStream stream(*files_, folder_ / "t");
    std::string text;
    for (std::string_view piece; !(piece = stream.next()).empty();) text += piece;
    EXPECT_EQ(stream.file_read(), std::ssize(bytes));
    return text;
  }
  std::string complaint(const std::string& bytes) {
    return sentence_of([&] { unpacked(bytes); });
  }

  const TemporaryFolder folder_;
  const std::unique_ptr<Files> files_ = real_files();
};

const std::string kSkipped("\x5a\x2a\x4d\x18\x03\x00\x00\x00xyz", 11);

TEST_F(Packed, AnyNumberOfFramesIsOneText) {
  const std::string one = some_text(90000), two = "and the end\n";  // several pieces
  EXPECT_EQ(unpacked(zstd(one)), one);
  EXPECT_EQ(unpacked(zstd(one) + zstd("") + zstd(two)), one + two);
  EXPECT_EQ(unpacked(kSkipped + zstd(two) + kSkipped + zstd(two)), two + two);
  EXPECT_EQ(unpacked(gzip(one) + gzip(two)), one + two);
  // What fills the buffer to the byte.
  for (const std::size_t size : {(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 1 << 21}) {
    const std::string text = some_text(60000).substr(0, size);
    EXPECT_EQ(unpacked(zstd(text)), text) << size;
    EXPECT_EQ(unpacked(gzip(text)), text) << size;
  }
}

TEST_F(Packed, RecordsAreTheSameHoweverPacked) {
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += "{\"text\": \"document " + std::to_string(i) + "\"}\n";
  const auto tokens = [&](const std::string& name, const std::string& bytes) {
    write_whole_atomically(*files_, folder_ / name, bytes);
    tokenize_file(*files_, folder_ / name, folder_ / "t.h5", *byte_tokenizer());
    return read_whole(*files_, folder_ / "t.h5");
  };
  const std::string plain = tokens("a.jsonl", lines);
  EXPECT_EQ(tokens("a.jsonl.gz", gzip(lines)), plain);
  EXPECT_EQ(tokens("a.jsonl.zst", zstd(lines)), plain);
  EXPECT_EQ(tokens("a.json.zst", zstd(lines)), plain);
}

TEST_F(Packed, WhatAsksForTooMuchIsRefused) {
  // Magic, no size, and a window of 256 MiB; a dictionary of number 7.
  const std::string magic("\x28\xb5\x2f\xfd", 4);
  EXPECT_NE(complaint(magic + std::string("\x00\x90\x01\x00\x00", 5)).find("above 128 MiB"),
            std::string::npos);
  EXPECT_NE(complaint(magic + std::string("\x21\x07\x01\x01\x00\x00", 6)).find("dictionary"),
            std::string::npos);
  const std::string bomb(std::size_t{65} << 20, 'a');
  for (const std::string& packed : {zstd(bomb), gzip(bomb)})
    EXPECT_NE(complaint(packed).find("unpacks to more than 1000 times its size"),
              std::string::npos);
  EXPECT_EQ(unpacked(zstd(bomb.substr(0, std::size_t{32} << 20))).size(), std::size_t{32} << 20);
  EXPECT_NE(complaint(zstd(std::string("a\0b", 3))).find("a NUL byte at offset 1"),
            std::string::npos);
}

// Cut at every byte, and each byte changed: a sentence, or (in what is skipped) the same text.
TEST_F(Packed, EveryCutAndEveryWrongByteIsNoticed) {
  test::FaultCount count{.row = "R25", .what = "texts packed by gzip and zstd, cut and changed"};
  const std::string text = some_text(60);
  for (const std::string& whole : {zstd(text), kSkipped + zstd(text), gzip(text)}) {
    const auto judge = [&](const std::string& damaged, const std::string& what) {
      ++count.runs;
      ++count.injected;
      try {
        if (unpacked(damaged) == text) return;
        ADD_FAILURE() << what << ": another text";
        ++count.lost;
      } catch (const Error& error) {
        EXPECT_TRUE(std::string_view(error.what()).starts_with("text ")) << error.what();
      }
    };
    for (std::size_t at = 1; at < whole.size(); ++at) {
      // Less than a magic number, or without the frames behind a skipped one, is a file of its own.
      if (at < 4 || whole.substr(0, at) == kSkipped) continue;
      ++count.runs;
      ++count.injected;
      const std::string sentence = complaint(whole.substr(0, at));
      EXPECT_NE(sentence.find("is cut off"), std::string::npos) << at << ": " << sentence;
      count.lost += sentence.empty();
    }
    // Without its magic number it is a plain text, with NUL bytes or not.
    for (std::size_t at = 4; at < whole.size(); ++at)
      for (const int bit : {0, 3, 7}) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
        judge(damaged, "byte " + std::to_string(at));
      }
    judge(whole + "x", "a byte behind");
  }
  test::tell(count);
}

}  // namespace
}  // namespace trireme::testing
