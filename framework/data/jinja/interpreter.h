// Runs a parsed template within a budget.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "framework/data/jinja/budget.h"
#include "framework/data/jinja/syntax.h"

namespace trireme::jinja {

class Interpreter {
 public:
  Interpreter(const std::string& name, const Limits& limits) : name_(name), budget_(limits) {}

  Budget& budget() { return budget_; }
  // What the template writes, given its variables. Error "NAME:LINE: ..." when it does what it must
  // not, or reaches a limit.
  Text run(const Block& block, std::map<std::string, Value> variables);

 private:
  enum class Flow : unsigned char { kOn, kBreak, kContinue };
  using Scope = std::map<std::string, Value>;

  Flow execute(const Block& block, Text& out);
  Flow execute(const Statement& statement, Text& out);
  Flow loop(const Statement& statement, Text& out);
  void set(const Statement& statement);
  void assign(const std::vector<std::string>& targets, const Value& value);
  void define_macro(const Statement& macro);
  Value call_macro(const Statement& macro, const Arguments& arguments);
  void write(const Text& text, Text& out);

  Value evaluate(const Expression& expression);
  Value compute(const Expression& expression);
  Value lookup(const std::string& name) const;
  Value attribute(const Value& value, const std::string& name);
  Value call(const Expression& expression);
  Value binary(const std::string& sign, const Expression& left, const Expression& right);
  Value arithmetic(const std::string& sign, const Value& a, const Value& b);
  bool compare(const std::string& sign, const Value& a, const Value& b);
  Value compute_slice(const Expression& expression);
  Arguments arguments_of(const Expression& expression);

  const std::string& name_;
  Budget budget_;
  std::vector<Scope> scopes_;
  int evaluations_ = 0;  // open now
};

}  // namespace trireme::jinja
