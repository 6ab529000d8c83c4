#include "recipes/cli/ini_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "framework/base/random.h"

namespace trireme {
namespace {

std::string value_of(const std::string& line) {
  IniFile file = read_ini("[a]\n" + line + "\n");
  EXPECT_TRUE(file.problems.empty()) << line;
  return file.entries.size() == 1 ? file.entries[0].value : "no entry";
}

std::string problem_of(const std::string& text) {
  IniFile file = read_ini(text);
  return file.problems.size() == 1
             ? std::to_string(file.problems[0].line) + ": " + file.problems[0].text
             : std::to_string(file.problems.size()) + " problems";
}

TEST(IniFile, KeysHaveSectionsAndLines) {
  IniFile file = read_ini("top.x = 1\n\n[ one ] ; c\n a=2\nb = 3 \r\n# c\n[two]\nb = 4");
  ASSERT_EQ(file.entries.size(), 4u);
  EXPECT_EQ(file.entries[0].key, "top.x");
  EXPECT_EQ(file.entries[1].key, "one.a");
  EXPECT_EQ(file.entries[1].line, 4);
  EXPECT_EQ(file.entries[2].value, "3");
  EXPECT_EQ(file.entries[3].key, "two.b");
  EXPECT_EQ(file.entries[3].line, 8);
}

TEST(IniFile, CommentsEndValuesOutsideQuotesOnly) {
  EXPECT_EQ(value_of("x = 1 # c"), "1");
  EXPECT_EQ(value_of("x = 1 ; c"), "1");
  EXPECT_EQ(value_of("x = \"a#b\""), "a#b");
  EXPECT_EQ(value_of("x = \"a # b\" ; c"), "a # b");
  EXPECT_EQ(value_of("x = 'a \"; b' # c"), "a \"; b");
  EXPECT_EQ(value_of("x = runs/a#b"), "runs/a#b");
  EXPECT_EQ(value_of("x = it's"), "it's");
  EXPECT_EQ(value_of("x ="), "");
  EXPECT_EQ(value_of("x = # c"), "");
  EXPECT_EQ(value_of("x = a = b"), "a = b");
  EXPECT_EQ(value_of(R"(x = "a \"b\" \\ \n")"), R"(a "b" \ \n)");
}

TEST(IniFile, BadLinesAreNamed) {
  EXPECT_EQ(problem_of("[a]\nword\n"), "2: expected [section] or key = value, got word");
  EXPECT_EQ(problem_of("[a\n"), "1: expected [section], got [a");
  EXPECT_EQ(problem_of("[]\n"), "1: expected [section], got []");
  EXPECT_EQ(problem_of("= 3\n"), "1: expected [section] or key = value, got = 3");
  EXPECT_EQ(problem_of("[a]\n\nx = \"open\n"), "3: x: the quote is not closed");
  EXPECT_EQ(problem_of("x = \"a\" b\n"), "1: x: text after the closing quote");
  EXPECT_EQ(problem_of(std::string("a\0b\n", 4)), "1: not a text file: it holds a zero byte");
}

TEST(IniFile, ByteOrderMarkIsSkipped) {
  EXPECT_EQ(read_ini("\xef\xbb\xbf[a]\nx=1\n").entries.at(0).key, "a.x");
}

// Whatever the text, each line that is not blank is an entry, a section or a problem, in its place.
TEST(IniFile, AnyTextIsTakenApart) {
  const std::string alphabet = "[]=#;\"'\\ \t\r\nab.\x80*-";
  RngKey key = key_from_seed(7);
  for (std::uint64_t round = 0; round < 3000; ++round) {
    std::string text;
    for (std::uint64_t i = 0; i < 40; ++i)
      text += alphabet[random_word(key.child(round), i) % alphabet.size()];
    int lines = static_cast<int>(std::count(text.begin(), text.end(), '\n')) + 1;
    IniFile file = read_ini(text);
    int last = 0;
    for (const auto& entry : file.entries) {
      EXPECT_GT(entry.line, last) << text;
      EXPECT_FALSE(entry.key.empty()) << text;
      last = entry.line;
    }
    EXPECT_LE(last, lines) << text;
  }
}

TEST(IniFile, QuotedValuesComeBack) {
  for (std::string value : {"plain", "a # b", "#a", " blanks ", "\"q\"", "back\\slash # \"", "it's",
                            "'x'", "a;b", "", "runs/a#b"})
    EXPECT_EQ(value_of("x = " + ini_quoted(value)), value);
}

}  // namespace
}  // namespace trireme
