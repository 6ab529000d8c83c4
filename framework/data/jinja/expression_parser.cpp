#include "framework/data/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>

#include "framework/data/jinja/parser.h"

namespace trireme::jinja {

using Kind = Expression::Kind;

namespace {
constexpr int kLongestRun = 300;
}

ExpressionParser::Depth::Depth(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.depth_ > kDeepestNesting)
    parser_.complain("more than ", kDeepestNesting, " levels of nesting");
}

const Token& ExpressionParser::expect(Token::Kind kind) {
  if (now().kind != kind) {
    const char* wanted = kind == Token::Kind::kTagEnd     ? "%}"
                         : kind == Token::Kind::kPrintEnd ? "}}"
                                                          : "a name";
    complain(wanted, " is expected, here is \"", now().text, "\"");
  }
  return step();
}

void ExpressionParser::expect_sign(std::string_view sign) {
  if (!take_sign(sign)) complain(sign, " is expected, here is \"", now().text, "\"");
}

void ExpressionParser::expect_word(std::string_view word) {
  if (!take_word(word)) complain(word, " is expected, here is \"", now().text, "\"");
}

bool ExpressionParser::take_sign(std::string_view sign) {
  const bool here = now().is(Token::Kind::kSign, sign);
  if (here) step();
  return here;
}

bool ExpressionParser::take_word(std::string_view word) {
  const bool here = now().is(Token::Kind::kName, word);
  if (here) step();
  return here;
}

ExpressionPtr ExpressionParser::made(Kind kind, std::string name) {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->line = now().line;
  expression->name = std::move(name);
  return expression;
}

ExpressionPtr ExpressionParser::expression() {
  const Depth depth(*this);
  ExpressionPtr value = choice_free();
  while (take_word("if")) {
    ExpressionPtr choice = made(Kind::kChoice);
    choice->operands.push_back(choice_free());
    choice->operands.push_back(std::move(value));
    choice->operands.push_back(take_word("else") ? expression() : nullptr);
    value = std::move(choice);
  }
  return value;
}

ExpressionPtr ExpressionParser::tuple() {
  ExpressionPtr first = expression();
  if (!now().is(Token::Kind::kSign, ",")) return first;
  ExpressionPtr all = made(Kind::kList, "tuple");
  all->operands.push_back(std::move(first));
  while (take_sign(",")) all->operands.push_back(expression());
  return all;
}

// A run of operators of one strength, grouped from the left.
ExpressionPtr ExpressionParser::binary(const std::vector<std::string>& signs, Parse operand) {
  ExpressionPtr left = (this->*operand)();
  int run = 0;
  for (;;) {
    const Token& token = now();
    const bool sign = token.kind == Token::Kind::kSign || token.kind == Token::Kind::kName;
    if (!sign || std::find(signs.begin(), signs.end(), token.text) == signs.end()) return left;
    // Each one makes the tree a level deeper on the left.
    if (++run > kLongestRun) complain("more than ", kLongestRun, " operators in a row");
    ExpressionPtr both = made(Kind::kBinary, step().text);
    both->operands.push_back(std::move(left));
    both->operands.push_back((this->*operand)());
    left = std::move(both);
  }
}

ExpressionPtr ExpressionParser::choice_free() {
  return binary({"or"}, &ExpressionParser::conjunction);
}
ExpressionPtr ExpressionParser::conjunction() {
  return binary({"and"}, &ExpressionParser::negation);
}
ExpressionPtr ExpressionParser::sum() {
  return binary({"+", "-"}, &ExpressionParser::concatenation);
}
ExpressionPtr ExpressionParser::concatenation() {
  return binary({"~"}, &ExpressionParser::product);
}
ExpressionPtr ExpressionParser::product() {
  return binary({"*", "/", "//", "%"}, &ExpressionParser::power);
}
ExpressionPtr ExpressionParser::power() { return binary({"**"}, &ExpressionParser::unary); }

ExpressionPtr ExpressionParser::negation() {
  if (!now().is(Token::Kind::kName, "not")) return comparison();
  const Depth depth(*this);
  ExpressionPtr opposite = made(Kind::kUnary, step().text);
  opposite->operands.push_back(negation());
  return opposite;
}

// "" if no comparison follows.
std::string ExpressionParser::comparison_sign() {
  for (const char* sign : {"==", "!=", "<=", ">=", "<", ">"})
    if (take_sign(sign)) return sign;
  if (take_word("in")) return "in";
  if (now().is(Token::Kind::kName, "not") && after().is(Token::Kind::kName, "in")) {
    step();
    step();
    return "not in";
  }
  return "";
}

ExpressionPtr ExpressionParser::comparison() {
  ExpressionPtr first = sum();
  std::string sign = comparison_sign();
  if (sign.empty()) return first;
  ExpressionPtr chain = made(Kind::kCompare);
  chain->operands.push_back(std::move(first));
  for (; !sign.empty(); sign = comparison_sign()) {
    chain->names.push_back(sign);
    chain->operands.push_back(sum());
  }
  return chain;
}

// A filter behind a sign is of the whole: -3 | abs is 3.
ExpressionPtr ExpressionParser::unary() { return postfix(signed_primary(), true); }

ExpressionPtr ExpressionParser::signed_primary() {
  if (!now().is(Token::Kind::kSign, "-") && !now().is(Token::Kind::kSign, "+"))
    return postfix(primary(), false);
  const Depth depth(*this);
  ExpressionPtr sign = made(Kind::kUnary, step().text);
  sign->operands.push_back(signed_primary());
  return sign;
}

ExpressionPtr ExpressionParser::primary() {
  const Token& token = now();
  switch (token.kind) {
    case Token::Kind::kName:
      return named_constant();
    case Token::Kind::kInteger:
    case Token::Kind::kReal:
      return number();
    case Token::Kind::kString: {
      ExpressionPtr text = made(Kind::kConstant);
      std::string bytes;
      while (now().kind == Token::Kind::kString) bytes += step().text;  // 'a' 'b' is 'ab'
      text->value = make_text(bytes);
      return text;
    }
    default:
      if (token.text == "(") return bracket();
      if (token.text == "[") return list();
      if (token.text == "{") return mapping();
      complain("a value is expected, here is \"", token.text, "\"");
  }
}

ExpressionPtr ExpressionParser::named_constant() {
  const std::string name = now().text;
  ExpressionPtr constant = made(Kind::kConstant);
  if (name == "true" || name == "True") {
    constant->value = true;
  } else if (name == "false" || name == "False") {
    constant->value = false;
  } else if (name == "none" || name == "None") {
    constant->value = None{};
  } else {
    for (const char* word : {"if", "else", "elif", "for", "in", "is", "and", "or", "set"})
      if (name == word) complain("a value is expected, here is \"", name, "\"");
    constant = made(Kind::kName, name);
  }
  step();
  return constant;
}

ExpressionPtr ExpressionParser::number() {
  ExpressionPtr constant = made(Kind::kConstant);
  const Token& token = now();
  const char* end = token.text.data() + token.text.size();
  std::int64_t integer = 0;
  double real = 0;
  const bool whole = token.kind == Token::Kind::kInteger;
  const auto result = whole ? std::from_chars(token.text.data(), end, integer)
                            : std::from_chars(token.text.data(), end, real);
  if (result.ec != std::errc() || result.ptr != end)
    complain("the number ", token.text, " does not fit");
  constant->value = whole ? Value(integer) : Value(real);
  step();
  return constant;
}

ExpressionPtr ExpressionParser::bracket() {
  const Depth depth(*this);
  step();
  if (take_sign(")")) return made(Kind::kList, "tuple");
  ExpressionPtr inside = expression();
  if (now().is(Token::Kind::kSign, ",")) {
    ExpressionPtr all = made(Kind::kList, "tuple");
    all->operands.push_back(std::move(inside));
    while (take_sign(","))
      if (!now().is(Token::Kind::kSign, ")")) all->operands.push_back(expression());
    inside = std::move(all);
  }
  expect_sign(")");
  return inside;
}

ExpressionPtr ExpressionParser::list() {
  const Depth depth(*this);
  ExpressionPtr all = made(Kind::kList);
  step();
  while (!take_sign("]")) {
    all->operands.push_back(expression());
    if (!now().is(Token::Kind::kSign, "]")) expect_sign(",");
  }
  return all;
}

ExpressionPtr ExpressionParser::mapping() {
  const Depth depth(*this);
  ExpressionPtr all = made(Kind::kMapping);
  step();
  while (!take_sign("}")) {
    all->operands.push_back(expression());
    expect_sign(":");
    all->operands.push_back(expression());
    if (!now().is(Token::Kind::kSign, "}")) expect_sign(",");
  }
  return all;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr operand, bool filters) {
  for (int run = 0;; ++run) {
    if (run > kDeepestNesting) complain("more than ", kDeepestNesting, " accesses in a row");
    if (take_sign(".")) {
      operand = attribute(std::move(operand));
    } else if (take_sign("[")) {
      operand = item(std::move(operand));
    } else if (now().is(Token::Kind::kSign, "(")) {
      ExpressionPtr call = made(Kind::kCall);
      call->operands.push_back(std::move(operand));
      arguments(*call);
      operand = std::move(call);
    } else if (filters && take_sign("|")) {
      operand = filter(std::move(operand));
    } else if (filters && take_word("is")) {
      operand = test(std::move(operand));
    } else {
      return operand;
    }
  }
}

ExpressionPtr ExpressionParser::attribute(ExpressionPtr operand) {
  ExpressionPtr made_one = made(Kind::kAttribute);
  if (now().kind == Token::Kind::kInteger) {  // "pair.0"
    made_one->kind = Kind::kItem;
    made_one->operands.push_back(std::move(operand));
    made_one->operands.push_back(number());
    return made_one;
  }
  made_one->name = expect(Token::Kind::kName).text;
  made_one->operands.push_back(std::move(operand));
  return made_one;
}

ExpressionPtr ExpressionParser::item(ExpressionPtr operand) {
  const Depth depth(*this);
  ExpressionPtr access = made(Kind::kItem);
  access->operands.push_back(std::move(operand));
  const auto at = [&](std::string_view sign) { return now().is(Token::Kind::kSign, sign); };
  if (!at(":")) access->operands.push_back(expression());
  if (take_sign("]")) return access;
  access->kind = Kind::kSlice;
  access->operands.resize(2);
  for (int part = 2; part < 4; ++part) {
    ExpressionPtr bound;
    if (take_sign(":") && !at(":") && !at("]")) bound = expression();
    access->operands.push_back(std::move(bound));
  }
  expect_sign("]");
  return access;
}

void ExpressionParser::arguments(Expression& call) {
  const Depth depth(*this);
  expect_sign("(");
  while (!take_sign(")")) {
    if (now().kind == Token::Kind::kName && after().is(Token::Kind::kSign, "=")) {
      const std::string name = step().text;
      step();
      call.named.emplace_back(name, expression());
    } else {
      if (!call.named.empty()) complain("an argument without name follows one with a name");
      call.operands.push_back(expression());
    }
    if (!now().is(Token::Kind::kSign, ")")) expect_sign(",");
  }
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr operand) {
  ExpressionPtr applied = made(Kind::kFilter);
  applied->name = expect(Token::Kind::kName).text;
  applied->operands.push_back(std::move(operand));
  if (now().is(Token::Kind::kSign, "(")) arguments(*applied);
  return applied;
}

// "is divisibleby 3" and "is divisibleby(3)".
ExpressionPtr ExpressionParser::test(ExpressionPtr operand) {
  ExpressionPtr applied = made(Kind::kTest);
  applied->negated = take_word("not");
  applied->name = expect(Token::Kind::kName).text;
  applied->operands.push_back(std::move(operand));
  const Token& next = now();
  const bool word = next.kind == Token::Kind::kName && next.text != "else" && next.text != "or" &&
                    next.text != "and" && next.text != "is" && next.text != "if" &&
                    next.text != "in" && next.text != "not" && next.text != "recursive";
  const bool literal = next.is(Token::Kind::kSign, "[") || next.is(Token::Kind::kSign, "{");
  if (next.is(Token::Kind::kSign, "("))
    arguments(*applied);
  else if (word || literal || next.kind == Token::Kind::kString ||
           next.kind == Token::Kind::kInteger)
    applied->operands.push_back(primary());
  return applied;
}

}  // namespace trireme::jinja
