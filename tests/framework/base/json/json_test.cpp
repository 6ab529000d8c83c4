// JSON of strangers: what is read, what is refused and with which sentence, what is written.
#include "framework/base/json/json.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"

namespace trireme {
namespace {

std::string refusal(const std::string& text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, "x.json", limits);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Json, ReadsEveryKindAndKeepsOrder) {
  const Json json = parse_json(
      R"({"z": null, "a": [true, -3, 2.5, "\u00e9\n"], "b": {"deep": {}}, "big": 9223372036854775807})",
      "x.json");
  EXPECT_EQ(json.object("x")[0].first, "z");
  EXPECT_TRUE(json.at("z", "x").is_null());
  const Json::Array& list = json.at("a", "x").array("a");
  EXPECT_TRUE(list[0].boolean("a"));
  EXPECT_EQ(list[1].integer("a"), -3);
  EXPECT_EQ(list[1].number("a"), -3.0);
  EXPECT_EQ(list[2].number("a"), 2.5);
  EXPECT_EQ(list[3].text("a"), "\xc3\xa9\n");
  EXPECT_EQ(json.at("big", "x").integer("big"), INT64_MAX);
  EXPECT_EQ(json.find("none"), nullptr);
}

// model_max_length of many tokenizer_config.json is 10^30 written out.
TEST(Json, AnIntegerOutsideSixtyFourBitsIsADouble) {
  const Json json = parse_json("[1000000000000000019884624838656, 18446744073709551615]", "x");
  EXPECT_EQ(json.array("x")[0].number("n"), 1e30);
  EXPECT_EQ(json.array("x")[1].number("n"), 18446744073709551615.0);
  EXPECT_THROW(json.array("x")[1].integer("n"), Error);
}

TEST(Json, RefusesWithPlaceAndReason) {
  EXPECT_EQ(refusal("{\n  \"a\": 1,\n  oops}").rfind("x.json:3:3: syntax error", 0), 0u)
      << refusal("{\n  \"a\": 1,\n  oops}");
  for (const char* bad :
       {"", " ", "{", "[1,]", "{\"a\" 1}", "[1] 2", "// c\n1", "NaN", "[Infinity]", "'a'", "\"\t\"",
        "\"\\ud800\"", "\"\xff\"", "1e999", "01", "+1", ".5", "tru", "\"abc"})
    EXPECT_NE(refusal(bad), "") << bad;
  // The parser below takes a NUL byte for the end.
  EXPECT_EQ(refusal(std::string("{}\n \0 {}", 8)), "x.json:2:2: a NUL byte is no JSON");
  EXPECT_EQ(refusal(std::string("\0", 1)), "x.json:1:1: a NUL byte is no JSON");
  EXPECT_EQ(refusal(R"({"m": {"a": 1, "b": 2, "a": 3}})"),
            "x.json: the key \"a\" comes twice in one object in m");
}

TEST(Json, LimitsComeBeforeMemory) {
  EXPECT_EQ(refusal(std::string(100'000, '[')), "x.json: more than 64 levels of nesting");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(refusal(objects).rfind("x.json: more than 64 levels of nesting in a.a", 0), 0u);
  EXPECT_EQ(refusal("[1, 2, 3]", {.values = 4}), "");
  EXPECT_EQ(refusal("[1, 2, 3, 4]", {.values = 4}), "x.json: more than 4 values");
  EXPECT_EQ(refusal("[[[]]]", {.depth = 3}), "");
  EXPECT_NE(refusal("[[[[]]]]", {.depth = 3}), "");
  EXPECT_EQ(refusal("[1, 2]", {.bytes = 5}), "x.json: 6 bytes of JSON; at most 5 are read");
}

TEST(Json, WrongKindIsASentence) {
  const Json json = parse_json(R"({"heads": "12", "layers": 3.0})", "x");
  const auto text = [](const auto& ask) {
    try {
      ask();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(text([&] { json.at("heads", "x").integer("config.json: heads"); }),
            "config.json: heads: an integer is expected, here is the string \"12\"");
  EXPECT_EQ(text([&] { json.at("layers", "x").integer("layers"); }),
            "layers: an integer is expected, here is 3.0");
  EXPECT_EQ(text([&] { json.at("hidden", "config.json"); }),
            "config.json: \"hidden\" is missing; there is heads, layers");
}

TEST(Json, WritesWhatItReads) {
  const std::string text =
      R"({"a": [1, -2.5, 1e+300, 3.0, "q\"\\\n\u0001é"], "b": {}, "c": [], "d": null, "e": false})";
  const Json json = parse_json(text, "x");
  EXPECT_EQ(to_text(json), text);
  EXPECT_EQ(parse_json(to_text(json, 2), "x"), json);
  EXPECT_EQ(to_text(parse_json(R"({"a": [1, {}]})", "x"), 2),
            "{\n  \"a\": [\n    1,\n    {}\n  ]\n}");
  EXPECT_THROW(to_text(Json(1.0 / 0.0)), Error);
}

}  // namespace
}  // namespace trireme
