// The regular expressions that cut text into words before byte-pair encoding, matched by hand: one
// function for each that public models use, linear in the text, without recursion. They are found
// by their exact text; any other expression is refused. All of them match every text whole, so a
// text is nothing but a row of words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "framework/data/tokenizers/unicode.h"

namespace trireme {

// The end of the word that begins at `at`; `at` is inside the text, and the result is beyond it.
// Bytes that are no UTF-8 are taken one at a time, as symbols.
using WordPattern = std::size_t (*)(const UnicodeClasses& classes, std::string_view text,
                                    std::size_t at);

struct KnownPattern {
  std::string_view regex;
  WordPattern match;
  std::string_view whose;  // "GPT-2"
};

// Null if no model of the list has it.
const KnownPattern* find_word_pattern(std::string_view regex);
// GPT-2's, which is also what the ByteLevel pre-tokenizer has built in.
const KnownPattern& gpt2_pattern();
const KnownPattern& llama3_pattern();

}  // namespace trireme
