// Expressions of a template, from the weakest binding to the strongest:
//   a if b else c, or, and, not, comparisons and in, + -, ~, * / // %, **, unary - +,
//   .name [index] (arguments) | filter is test
#pragma once

#include <string>
#include <vector>

#include "framework/base/error.h"
#include "framework/data/jinja/lexer.h"
#include "framework/data/jinja/syntax.h"

namespace trireme::jinja {

class ExpressionParser {
 protected:
  ExpressionParser(std::vector<Token> tokens, const std::string& name)
      : tokens_(std::move(tokens)), name_(name) {}

  // Counts how deep the parser stands in itself.
  class Depth {
   public:
    explicit Depth(ExpressionParser& parser);
    ~Depth() { --parser_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    ExpressionParser& parser_;
  };

  const Token& now() const { return tokens_[at_]; }
  const Token& after() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& step() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  const Token& expect(Token::Kind kind);
  void expect_sign(std::string_view sign);
  void expect_word(std::string_view word);
  bool take_sign(std::string_view sign);
  bool take_word(std::string_view word);
  template <typename... Parts>
  [[noreturn]] void complain(const Parts&... parts) const {
    fail(name_, ":", now().line, ": ", parts...);
  }

  ExpressionPtr expression();
  ExpressionPtr choice_free();  // without "a if b else c" at the outside, as in "for x in y if z"
  ExpressionPtr tuple();        // "a, b" is a list

 private:
  using Parse = ExpressionPtr (ExpressionParser::*)();

  ExpressionPtr made(Expression::Kind kind, std::string name = {});
  ExpressionPtr binary(const std::vector<std::string>& signs, Parse operand);
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary();
  ExpressionPtr signed_primary();
  ExpressionPtr primary();
  ExpressionPtr named_constant();
  ExpressionPtr number();
  ExpressionPtr bracket();
  ExpressionPtr list();
  ExpressionPtr mapping();
  ExpressionPtr postfix(ExpressionPtr operand, bool filters);
  ExpressionPtr attribute(ExpressionPtr operand);
  ExpressionPtr item(ExpressionPtr operand);
  ExpressionPtr filter(ExpressionPtr operand);
  ExpressionPtr test(ExpressionPtr operand);
  void arguments(Expression& call);
  std::string comparison_sign();

  std::vector<Token> tokens_;
  const std::string& name_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace trireme::jinja
