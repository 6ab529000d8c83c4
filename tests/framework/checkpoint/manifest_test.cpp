// The commit record: what it says comes back, and nothing else is believed.
#include "framework/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "framework/base/error.h"
#include "framework/base/storage/content_hash.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::sentence_of;

StoredPiece piece(const std::string& tensor, Shape shape, Rectangle at, std::int64_t offset) {
  StoredPiece stored;
  stored.piece = {{{tensor, "value"}, shape, DType::kF32}, at};
  stored.dataset = dataset_path(stored.piece);
  stored.offset = offset;
  stored.hashes = {0x0123456789abcdef};
  return stored;
}

Manifest example() {
  Manifest manifest;
  manifest.run = "run \"1\"\n";
  manifest.step = 500;
  manifest.layout = "data 2";
  manifest.recipe = "[train]\n\tsteps = 3\\4 # \xc3\xa9\n";
  manifest.set_integer("steps_taken", 498);
  manifest.set_number("loss_scale", 65536);
  StoredFile first{"ranks-0.h5", 20000, 0xfedcba9876543210, {}};
  first.pieces = {piece("w", {4, 6}, {0, 0, 4, 2}, 4096), piece("b", {6}, {0, 0, 6, 1}, 8192)};
  StoredFile second{"ranks-1.h5", 9000, 7, {piece("w", {4, 6}, {0, 2, 4, 4}, 4096)}};
  manifest.files = {first, second};
  return manifest;
}

// As a stranger who can compute hashes would write it.
std::string sealed(const std::string& body) {
  ContentHash hash;
  hash.update(body.data(), static_cast<std::int64_t>(body.size()));
  return "{\n\"hash\": \"" + hash.hex() + "\",\n" + body;
}
std::string body_of(const std::string& text) { return text.substr(46); }

std::string refusal(const std::string& text) {
  return sentence_of([&] { decode_manifest(text, "m.json"); });
}

// With `from` replaced, and the hash made to fit.
std::string edited(const std::string& from, const std::string& to) {
  std::string body = body_of(encode(example()));
  const auto at = body.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) body.replace(at, from.size(), to);
  return refusal(sealed(body));
}

TEST(ManifestTest, ComesBackWhole) {
  const Manifest before = example();
  const std::string text = encode(before);
  EXPECT_EQ(text, sealed(body_of(text)));
  const Manifest after = decode_manifest(text, "m.json");
  EXPECT_EQ(encode(after), text);
  EXPECT_EQ(after.run, before.run);
  EXPECT_EQ(after.recipe, before.recipe);
  EXPECT_EQ(after.scalars, before.scalars);
  ASSERT_EQ(after.files.size(), 2u);
  EXPECT_EQ(after.files[0].rest_hash, 0xfedcba9876543210u);
  EXPECT_EQ(after.files[0].pieces[0].hashes, before.files[0].pieces[0].hashes);
  EXPECT_EQ(after.files[1].pieces[0].dataset, "/w/value/0,2");
  EXPECT_EQ(decode_manifest(encode(Manifest{}), "m.json").files.size(), 0u);
}

TEST(ManifestTest, EveryFlippedBitIsNoticed) {
  const std::string text = encode(example());
  for (std::size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      ASSERT_NE(refusal(damaged).find("m.json is damaged"), std::string::npos) << i << " " << bit;
    }
  for (std::size_t length = 0; length < text.size(); ++length)
    ASSERT_NE(refusal(text.substr(0, length)), "");
  EXPECT_NE(refusal(text + "\n"), "");
}

TEST(ManifestTest, NumbersKeepEveryBit) {
  Manifest manifest;
  for (const double x :
       {0.0, -0.0, 1.0, -1.5, 0.1, 1e-310, std::numeric_limits<double>::max(),
        std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity()}) {
    manifest.set_number("x", x);
    EXPECT_EQ(manifest.number("x"), x) << manifest.scalars["x"];
    EXPECT_EQ(std::signbit(manifest.number("x")), std::signbit(x));
  }
  manifest.set_number("x", std::nan(""));
  EXPECT_TRUE(std::isnan(manifest.number("x")));
  manifest.scalars["x"] = "-65536.5";
  EXPECT_EQ(manifest.number("x"), -65536.5);
  for (const std::int64_t n : {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1},
                               std::numeric_limits<std::int64_t>::max()}) {
    manifest.set_integer("n", n);
    EXPECT_EQ(manifest.integer("n"), n);
  }
}

TEST(ManifestTest, NumbersAreReadWholeOrNot) {
  Manifest manifest;
  manifest.step = 3;
  EXPECT_EQ(sentence_of([&] { manifest.integer("n"); }),
            "checkpoint of step 3: \"n\" is missing among its scalars");
  for (const std::string text :
       {"", " 5", "5 ", "+5", "0x5", "5.0", "1e3", "9223372036854775808"}) {
    manifest.scalars["n"] = text;
    EXPECT_EQ(sentence_of([&] { manifest.integer("n"); }),
              "checkpoint of step 3: \"n\" is \"" + text + "\", not an integer");
  }
  for (const std::string text : {"", " 5", "5 ", "+5", "0x", "0x-1", "--1", "1,5", "-", "0xg"}) {
    manifest.scalars["n"] = text;
    EXPECT_NE(sentence_of([&] { manifest.number("n"); }), "") << text;
  }
}

// All with a hash that fits: what a program of ours could never have written.
TEST(ManifestTest, NothingPointsOutside) {
  EXPECT_EQ(edited("ranks-1.h5", "ranks-2.h5"), "");
  for (const std::string name : {"../x.h5", "/etc/passwd", "..", "a/b", "manifest.json", ""})
    EXPECT_NE(edited("ranks-1.h5", name), "") << name;
  EXPECT_NE(edited("ranks-1.h5", "ranks-0.h5").find("listed twice"), std::string::npos);
  EXPECT_NE(edited("\"tensor\": \"b\"", "\"tensor\": \"../b\""), "");
  EXPECT_NE(edited("\"offset\": 8192", "\"offset\": 19990"), "");
  EXPECT_NE(edited("\"offset\": 8192", "\"offset\": -4096"), "");
  EXPECT_NE(edited("\"offset\": 8192", "\"offset\": 4100"), "");  // inside another
  EXPECT_NE(edited("\"offset\": 8192", "\"offset\": 9223372036854775807"), "");
  EXPECT_NE(edited("\"offset\": 8192", "\"offset\": 9223372036854775808"), "");
  EXPECT_NE(edited("\"at\": [0, 0, 6, 1]", "\"at\": [1, 0, 6, 1]"), "");
  EXPECT_NE(edited("\"at\": [0, 0, 6, 1]", "\"at\": [0, 0, 9223372036854775807, 4]"), "");
  EXPECT_NE(edited("\"at\": [0, 0, 6, 1]", "\"at\": [0, 0, 0, 1]"), "");
  EXPECT_NE(edited("\"at\": [0, 0, 6, 1]", "\"at\": [0, 0, 6]"), "");
  EXPECT_NE(edited("\"shape\": [6]", "\"shape\": [4294967296, 4294967296]"), "");
  EXPECT_NE(edited("\"shape\": [6]", "\"shape\": [-6]"), "");
  EXPECT_NE(edited("\"shape\": [6]", "\"shape\": []"), "");
  EXPECT_NE(edited("\"shape\": [6]", "\"shape\": [6, 1, 1]"), "");
  EXPECT_NE(edited("\"bytes\": 9000", "\"bytes\": 4100"), "");
  EXPECT_NE(edited("\"bytes\": 9000", "\"bytes\": -1"), "");
  EXPECT_NE(edited("\"hashes\": \"0123456789abcdef\"", "\"hashes\": \"\""), "");
  EXPECT_NE(edited("\"dtype\": \"f32\"", "\"dtype\": \"f64\"").find("two shapes or types"),
            std::string::npos);
  EXPECT_NE(edited("\"step\": 500", "\"step\": -500"), "");
  EXPECT_NE(edited("\"format\": 1", "\"format\": 2").find("this program reads 1"),
            std::string::npos);
}

TEST(ManifestTest, OnlyItsOwnFormIsRead) {
  EXPECT_NE(edited("\"step\": 500", "\"step\":  500").find("not written as"), std::string::npos);
  EXPECT_NE(edited("\"step\": 500", "\"step\": 500, \"step\": 500"), "");
  EXPECT_NE(edited("\"step\": 500", "\"step\": 500, \"more\": 1"), "");
  EXPECT_NE(edited("\"step\": 500", "\"step\": 5e2"), "");
  EXPECT_NE(edited("\"step\": 500", "\"step\": 500.0"), "");
  EXPECT_NE(edited("\"step\": 500", "\"step\": \"500\""), "");
  EXPECT_NE(edited("\"step\": 500,", "").find("\"step\" is missing"), std::string::npos);
  EXPECT_NE(edited("\"rest\": \"fedcba9876543210\"", "\"rest\": \"FEDCBA9876543210\""), "");
  EXPECT_NE(edited("\"rest\": \"fedcba9876543210\"", "\"rest\": \"+edcba987654321x\""), "");
  EXPECT_NE(edited("\"layout\": \"data 2\"", "\"layout\": \"data \xff\""), "");
  EXPECT_NE(edited("\"layout\": \"data 2\"", "\"layout\": null"), "");
  EXPECT_NE(refusal(sealed("")), "");
  EXPECT_NE(refusal(sealed("}")), "");
  EXPECT_NE(refusal(sealed(std::string(100000, '['))), "");
  EXPECT_NE(
      refusal(sealed("\"format\": " + std::string(100000, '[') + std::string(100000, ']') + "}\n"))
          .find("8 levels of nesting"),
      std::string::npos);
}

TEST(ManifestTest, WhatIsNotUtf8IsRefusedAtTheSave) {
  Manifest manifest = example();
  manifest.recipe = "data.text = caf\xe9";
  EXPECT_NE(sentence_of([&] { encode(manifest); }).find("not UTF-8"), std::string::npos);
}

TEST(ManifestTest, CoverNamesTheFirstElement) {
  Manifest manifest = example();
  EXPECT_EQ(sentence_of([&] { check_cover(manifest, "here"); }), "");
  manifest.files[1].pieces.clear();
  EXPECT_EQ(sentence_of([&] { check_cover(manifest, "here"); }),
            "here: tensor \"w\" (value) of shape (4, 6): row 0, column 2 is in no piece");
  manifest = example();
  manifest.files[1].pieces[0].piece.at = {0, 1, 4, 5};
  EXPECT_EQ(sentence_of([&] { check_cover(manifest, "here"); }),
            "here: tensor \"w\" (value) of shape (4, 6): row 0, column 1 is in two pieces");
}

}  // namespace
}  // namespace trireme
