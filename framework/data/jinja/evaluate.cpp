// Expressions of the interpreter.
#include <cmath>
#include <limits>

#include "framework/base/error.h"
#include "framework/data/jinja/builtins.h"
#include "framework/data/jinja/interpreter.h"

namespace trireme::jinja {

using Kind = Expression::Kind;

Value Interpreter::evaluate(const Expression& expression) {
  constexpr int kDeepest = 1000;  // bounds the stack: calls and expressions inside each other
  budget_.step();
  check(++evaluations_ <= kDeepest, "more than ", kDeepest, " expressions lie in each other");
  Value value = compute(expression);
  --evaluations_;
  return value;
}

Value Interpreter::compute(const Expression& e) {
  const auto operand = [&](std::size_t i) { return evaluate(*e.operands[i]); };
  switch (e.kind) {
    case Kind::kConstant:
      return e.value;
    case Kind::kName:
      return lookup(e.name);
    case Kind::kList: {
      std::vector<Value> items;
      for (const ExpressionPtr& item : e.operands) items.push_back(evaluate(*item));
      return make_list(std::move(items), e.name == "tuple");
    }
    case Kind::kMapping: {
      std::vector<std::pair<Text, Value>> members;
      for (std::size_t i = 0; i < e.operands.size(); i += 2) {
        const Value key = operand(i);
        if (!key.text()) fail("the key of a mapping is a string, not ", kind_of(key));
        members.emplace_back(*key.text(), operand(i + 1));
      }
      return make_mapping(std::move(members));
    }
    case Kind::kAttribute:
      return attribute(operand(0), e.name);
    case Kind::kItem: {
      const Value value = operand(0);
      if (value.is<Undefined>()) fail(kind_of(value), " has no items");
      return item_of(value, operand(1));
    }
    case Kind::kSlice:
      return compute_slice(e);
    case Kind::kCall:
      return call(e);
    case Kind::kFilter:
      return apply_filter(e.name, operand(0), arguments_of(e), budget_);
    case Kind::kTest:
      return apply_test(e.name, operand(0), arguments_of(e).given) != e.negated;
    case Kind::kUnary: {
      const Value value = operand(0);
      if (e.name == "not") return !truth(value);
      return arithmetic(e.name, std::int64_t{0}, value);
    }
    case Kind::kBinary:
      return binary(e.name, *e.operands[0], *e.operands[1]);
    case Kind::kCompare: {
      Value left = operand(0);
      for (std::size_t i = 0; i < e.names.size(); ++i) {
        Value right = operand(i + 1);
        if (!compare(e.names[i], left, right)) return false;
        left = std::move(right);
      }
      return true;
    }
    case Kind::kChoice:
      if (truth(operand(0))) return operand(1);
      return e.operands[2] ? operand(2) : Value(Undefined{});
  }
  return {};
}

Value Interpreter::compute_slice(const Expression& e) {
  const auto bound = [&](std::size_t i) {
    return e.operands[i] ? evaluate(*e.operands[i]) : Value(None{});
  };
  const Value value = evaluate(*e.operands[0]);
  const Value begin = bound(1), end = bound(2), step = bound(3);
  return slice_of(value, begin, end, step, budget_);
}

// Python's attributes first, then members; names with underscores around them are nobody's.
Value Interpreter::attribute(const Value& value, const std::string& name) {
  if (value.is<Undefined>()) fail(kind_of(value), " has no member ", name);
  Value method = method_of(value, name, budget_);
  if (!method.is<Undefined>()) return method;
  return item_of(value, make_text(name));
}

Arguments Interpreter::arguments_of(const Expression& e) {
  Arguments arguments;
  for (std::size_t i = 1; i < e.operands.size(); ++i)
    arguments.given.push_back(evaluate(*e.operands[i]));
  for (const auto& [name, value] : e.named) arguments.named.emplace_back(name, evaluate(*value));
  return arguments;
}

Value Interpreter::call(const Expression& e) {
  const Value target = evaluate(*e.operands[0]);
  const auto* callable = target.as<std::shared_ptr<const Callable>>();
  if (callable == nullptr) {
    const Expression& what = *e.operands[0];
    fail(what.name.empty() ? kind_of(target) : "\"" + what.name + "\"", " cannot be called");
  }
  budget_.enter();
  Value result = (*callable)->call(arguments_of(e));
  budget_.leave();
  return result;
}

Value Interpreter::binary(const std::string& sign, const Expression& left,
                          const Expression& right) {
  Value a = evaluate(left);
  if (sign == "and") return truth(a) ? evaluate(right) : a;
  if (sign == "or") return truth(a) ? a : evaluate(right);
  const Value b = evaluate(right);
  if (sign == "~" || (sign == "+" && a.text() && b.text())) {
    Text text = to_text(a);
    const Text more = to_text(b);
    budget_.text(static_cast<std::int64_t>(text.size() + more.size()));
    text.append(more);
    return text;
  }
  return arithmetic(sign, a, b);
}

namespace {

[[noreturn]] void does_not_fit(const std::string& sign) {
  fail("the result of ", sign, " does not fit into 64 bits");
}

// Rounded down, as Python does.
std::int64_t floor_divided(std::int64_t a, std::int64_t b) {
  check(b != 0, "division by zero");
  if (b == -1) {
    if (a == std::numeric_limits<std::int64_t>::min()) does_not_fit("//");
    return -a;
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  for (std::int64_t i = 0; i < exponent && result != 0; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) does_not_fit("**");
    if (base == 1 || base == -1) return exponent % 2 == 0 ? 1 : base;
  }
  return result;
}

Value whole_numbers(const std::string& sign, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool over = false;
  if (sign == "+") over = __builtin_add_overflow(a, b, &result);
  if (sign == "-") over = __builtin_sub_overflow(a, b, &result);
  if (sign == "*") over = __builtin_mul_overflow(a, b, &result);
  if (sign == "//") result = floor_divided(a, b);
  if (sign == "%") result = b == -1 ? 0 : a - floor_divided(a, b) * b;
  if (sign == "**") result = power(a, b);
  if (over) does_not_fit(sign);
  return result;
}

Value real_numbers(const std::string& sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") return std::pow(a, b);
  check(b != 0, "division by zero");
  if (sign == "/") return a / b;
  const double floor = std::floor(a / b);
  return sign == "//" ? floor : a - floor * b;
}

}  // namespace

Value Interpreter::arithmetic(const std::string& sign, const Value& a, const Value& b) {
  if (a.number() && b.number()) {
    const bool whole =
        !a.is<double>() && !b.is<double>() && sign != "/" && (sign != "**" || b.real() >= 0);
    const auto integer = [](const Value& value) {
      const auto* found = value.as<std::int64_t>();
      return found ? *found : static_cast<std::int64_t>(truth(value));
    };
    return whole ? whole_numbers(sign, integer(a), integer(b))
                 : real_numbers(sign, a.real(), b.real());
  }
  if (sign == "+" && a.list() && b.list()) {
    std::vector<Value> items = a.list()->items;
    items.insert(items.end(), b.list()->items.begin(), b.list()->items.end());
    budget_.step(static_cast<std::int64_t>(items.size()));
    return make_list(std::move(items));
  }
  const auto* times = b.as<std::int64_t>();
  if (sign == "*" && a.text() && times) {
    const auto bytes = static_cast<std::int64_t>(a.text()->size());
    if (*times > 0 && bytes > 0) {
      budget_.text(*times > budget_.limits().output ? budget_.limits().output + 1 : bytes * *times);
    }
    Text text;
    for (std::int64_t i = 0; bytes > 0 && i < *times; ++i) text.append(*a.text());
    return text;
  }
  fail(sign, " cannot join ", kind_of(a), " and ", kind_of(b));
}

bool Interpreter::compare(const std::string& sign, const Value& a, const Value& b) {
  if (sign == "==") return equal(a, b);
  if (sign == "!=") return !equal(a, b);
  if (sign == "in") return contains(b, a);
  if (sign == "not in") return !contains(b, a);
  if (sign == "<") return less(a, b);
  if (sign == ">") return less(b, a);
  return sign == "<=" ? !less(b, a) : !less(a, b);
}

}  // namespace trireme::jinja
