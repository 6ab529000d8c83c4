// A parsed template: statements and expressions, as trees of bounded depth.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/data/jinja/value.h"

namespace trireme::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Expression {
  enum class Kind : unsigned char {
    kConstant,   // value
    kName,       // name
    kList,       // operands; name: "tuple" for one
    kMapping,    // operands: key, value, key, value
    kAttribute,  // operands[0].name
    kItem,       // operands[0][operands[1]]
    kSlice,      // operands[0][1:2:3], null where left out
    kCall,       // operands[0](operands[1...], named)
    kFilter,     // operands[0] | name(operands[1...], named)
    kTest,       // operands[0] is name(operands[1...]); negated: is not
    kUnary,      // name: - + not
    kBinary,     // name: + - * / // % ** ~ and or
    kCompare,    // operands[0] names[0] operands[1] names[1] ...
    kChoice,     // operands[1] if operands[0] else operands[2], which may be null
  };
  Kind kind = Kind::kConstant;
  int line = 0;
  std::string name;
  bool negated = false;
  Value value;
  std::vector<std::string> names;  // of comparisons
  std::vector<ExpressionPtr> operands;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Branch {
  ExpressionPtr condition;  // null: else
  Block body;
};

struct Statement {
  enum class Kind : unsigned char {
    kText,   // text
    kPrint,  // value
    kIf,     // branches
    kFor,    // targets in value, only where condition; body, else: otherwise
    kSet,    // targets = value; with no value: body's output. attribute: targets[0].attribute
    kMacro,  // name(targets = defaults): body
    kScope,  // body: {% generation %}, {% filter %} with filter_chain in value
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kText;
  int line = 0;
  std::string text, name, attribute;
  ExpressionPtr value, condition;
  std::vector<std::string> targets;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  std::vector<Branch> branches;
  Block body, otherwise;
};

}  // namespace trireme::jinja
