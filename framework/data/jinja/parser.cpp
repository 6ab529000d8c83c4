#include "framework/data/jinja/parser.h"

#include <algorithm>

#include "framework/base/error.h"
#include "framework/data/jinja/expression_parser.h"

namespace trireme::jinja {

namespace {

using Kind = Statement::Kind;

class Parser : private ExpressionParser {
 public:
  Parser(std::vector<Token> tokens, const std::string& name)
      : ExpressionParser(std::move(tokens), name) {}

  Block whole() {
    Block body = block({});
    if (now().kind != Token::Kind::kEnd) complain("{% ", now().text, " %} is not open here");
    return body;
  }

 private:
  // Statements up to a tag that begins with one of `ends`, whose begin is stepped over.
  Block block(const std::vector<std::string>& ends) {
    const Depth depth(*this);
    Block body;
    for (;;) {
      const Token& token = now();
      if (token.kind == Token::Kind::kEnd) {
        if (!ends.empty()) complain("{% ", ends.back(), " %} is missing at the end");
        return body;
      }
      if (token.kind == Token::Kind::kTagBegin) {
        const std::string word = after().text;
        const bool ours = std::find(ends.begin(), ends.end(), word) != ends.end();
        step();
        if (ours) return body;
        if (ends.empty() && (word.rfind("end", 0) == 0 || word == "else" || word == "elif"))
          return body;  // whole() complains
        body.push_back(tag());
      } else if (token.kind == Token::Kind::kPrintBegin) {
        auto print = made(Kind::kPrint);
        step();
        print->value = expression();
        expect(Token::Kind::kPrintEnd);
        body.push_back(std::move(print));
      } else {
        auto text = made(Kind::kText);
        text->text = step().text;
        body.push_back(std::move(text));
      }
    }
  }

  std::unique_ptr<Statement> made(Kind kind) {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->line = now().line;
    return statement;
  }

  std::unique_ptr<Statement> tag() {
    const std::string word = now().text;
    if (word == "if") return if_tag();
    if (word == "for") return for_tag();
    if (word == "set") return set_tag();
    if (word == "macro") return macro_tag();
    if (word == "generation") return scope_tag();
    if (word == "break" || word == "continue") {
      auto statement = made(word == "break" ? Kind::kBreak : Kind::kContinue);
      step();
      end_tag();
      return statement;
    }
    complain("the tag {% ", word,
             " %} is none of if, for, set, macro, generation, break, continue, raw");
  }

  void end_tag() { expect(Token::Kind::kTagEnd); }

  std::unique_ptr<Statement> if_tag() {
    auto statement = made(Kind::kIf);
    step();
    ExpressionPtr condition = expression();
    for (;;) {
      end_tag();
      Block body = block({"elif", "else", "endif"});
      statement->branches.push_back({std::move(condition), std::move(body)});
      const std::string word = step().text;
      if (word == "endif") break;
      condition = word == "elif" ? expression() : nullptr;
      if (word == "elif") continue;
      end_tag();
      statement->branches.push_back({nullptr, block({"endif"})});
      step();
      break;
    }
    end_tag();
    return statement;
  }

  std::unique_ptr<Statement> for_tag() {
    auto statement = made(Kind::kFor);
    step();
    statement->targets = targets();
    expect_word("in");
    statement->value = choice_free();
    if (take_word("if")) statement->condition = expression();
    if (take_word("recursive")) complain("recursive loops are not supported");
    end_tag();
    statement->body = block({"else", "endfor"});
    if (step().text == "else") {
      end_tag();
      statement->otherwise = block({"endfor"});
      step();
    }
    end_tag();
    return statement;
  }

  std::vector<std::string> targets() {
    std::vector<std::string> names;
    const bool bracket = take_sign("(");
    do names.push_back(expect(Token::Kind::kName).text);
    while (take_sign(","));
    if (bracket) expect_sign(")");
    return names;
  }

  std::unique_ptr<Statement> set_tag() {
    auto statement = made(Kind::kSet);
    step();
    statement->targets = targets();
    if (take_sign(".")) statement->attribute = expect(Token::Kind::kName).text;
    if (take_sign("=")) {
      statement->value = tuple();
      end_tag();
      return statement;
    }
    if (now().is(Token::Kind::kSign, "|")) complain("{% set %} with a filter is not supported");
    end_tag();
    statement->body = block({"endset"});
    step();
    end_tag();
    return statement;
  }

  std::unique_ptr<Statement> macro_tag() {
    auto statement = made(Kind::kMacro);
    step();
    statement->name = expect(Token::Kind::kName).text;
    expect_sign("(");
    while (!take_sign(")")) {
      statement->targets.push_back(expect(Token::Kind::kName).text);
      if (take_sign("="))
        statement->defaults.push_back(expression());
      else if (!statement->defaults.empty())
        complain("macro ", statement->name, ": a parameter without default follows one with it");
      if (!now().is(Token::Kind::kSign, ")")) expect_sign(",");
    }
    end_tag();
    statement->body = block({"endmacro"});
    step();
    if (now().kind == Token::Kind::kName) step();
    end_tag();
    return statement;
  }

  std::unique_ptr<Statement> scope_tag() {
    auto statement = made(Kind::kScope);
    step();
    end_tag();
    statement->body = block({"endgeneration"});
    step();
    end_tag();
    return statement;
  }
};

}  // namespace

Block parse(std::string_view source, const std::string& name) {
  return Parser(tokens_of(source, name), name).whole();
}

}  // namespace trireme::jinja
