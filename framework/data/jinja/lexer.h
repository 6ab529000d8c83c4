// A template cut into tokens: text to be written, and the words inside {{ }} and {% %}. Blanks
// around tags are taken away here, as Jinja does with trim_blocks and lstrip_blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::jinja {

struct Token {
  enum class Kind : unsigned char {
    kText,        // to be written as it is
    kPrintBegin,  // {{
    kPrintEnd,    // }}
    kTagBegin,    // {%
    kTagEnd,      // %}
    kName,
    kString,   // text is what it means
    kInteger,  // text is its digits
    kReal,
    kSign,  // an operator or a bracket
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;
  int line = 0;

  bool is(Kind wanted, std::string_view spelled) const { return kind == wanted && text == spelled; }
};

// Error "NAME:LINE: ..." for what is no template.
std::vector<Token> tokens_of(std::string_view source, const std::string& name);

}  // namespace trireme::jinja
