#include <gtest/gtest.h>

#include "framework/data/tokenizers/unicode.h"
#include "framework/data/tokenizers/word_patterns.h"

namespace trireme {
namespace {

using Words = std::vector<std::string>;

Words cut(const KnownPattern& pattern, const std::string& text) {
  Words words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = pattern.match(unicode_classes(), text, at);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

const KnownPattern& known(const std::string& whose) {
  const std::string regex =
      whose == "Qwen 2"
          ? R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
          : R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  return *find_word_pattern(regex);
}

TEST(WordPatterns, Llama3CutsAsTheRegularExpressionDoes) {
  const KnownPattern& a = llama3_pattern();
  EXPECT_EQ(cut(a, "x'ſy"), (Words{"x", "'ſ", "y"}));
  EXPECT_EQ(cut(a, "हिन्दी"), (Words{"ह", "िन", "्द", "ी"}));
  EXPECT_EQ(cut(a, "Ⅷ½²"), (Words{"Ⅷ½²"}));
  EXPECT_EQ(cut(a, "1٣४5"), (Words{"1٣४", "5"}));
  EXPECT_EQ(cut(a, "a\u3000\u3000b"), (Words{"a", "\u3000", "\u3000b"}));
  EXPECT_EQ(cut(a, "a \r\n b"), (Words{"a", " \r\n", " b"}));
  EXPECT_EQ(cut(a, "I'LL don'T 'x"), (Words{"I", "'LL", " don", "'T", " '", "x"}));
  EXPECT_EQ(cut(a, "!!\n\n  \n a"), (Words{"!!\n\n", "  \n", " a"}));
  EXPECT_EQ(cut(a, "a  "), (Words{"a", "  "}));
}

TEST(WordPatterns, BlanksAreThoseOfUnicode) {
  for (const char* blank : {"\x0B", "\u0085", "\u00A0", "\u2003", "\u2028"})
    EXPECT_EQ(cut(llama3_pattern(), std::string("!") + blank + "X").size(), 2U);
  for (const char* none : {"\x1C", "\u180E", "\u200B", "\uFEFF"})
    EXPECT_EQ(cut(llama3_pattern(), std::string("!") + none)[0], std::string("!") + none);
}

TEST(WordPatterns, Gpt2KnowsNoCaseAndGivesBackOneBlank) {
  const KnownPattern& g = gpt2_pattern();
  EXPECT_EQ(cut(g, "x'ſy"), (Words{"x", "'", "ſy"}));
  EXPECT_EQ(cut(g, "हिन्दी").size(), 6U);
  EXPECT_EQ(cut(g, "a\n\nb"), (Words{"a", "\n", "\n", "b"}));
  EXPECT_EQ(cut(g, "it's IT'S 12 345!"), (Words{"it", "'s", " IT", "'", "S", " 12", " 345", "!"}));
  EXPECT_EQ(cut(g, "  a   "), (Words{" ", " a", "   "}));
}

TEST(WordPatterns, QwenTakesDigitsOneByOneAndNemoCutsAtCapitals) {
  EXPECT_EQ(cut(known("Qwen 2"), "a12"), (Words{"a", "1", "2"}));
  EXPECT_EQ(cut(known("Nemo"), "camelCase HTMLParser"), (Words{"camel", "Case", " HTMLParser"}));
  EXPECT_EQ(cut(known("Nemo"), "ABC x/\n"), (Words{"ABC", " x", "/\n"}));
}

TEST(WordPatterns, WrongBytesAreSymbols) {
  EXPECT_EQ(cut(gpt2_pattern(), "a\xFF\xC3 b"), (Words{"a", "\xFF\xC3", " b"}));
}

TEST(WordPatterns, OthersAreUnknown) { EXPECT_EQ(find_word_pattern("\\w+"), nullptr); }

}  // namespace
}  // namespace trireme
