#include "framework/data/jinja/interpreter.h"

#include "framework/base/error.h"
#include "framework/data/jinja/builtins.h"

namespace trireme::jinja {

namespace {

// An Error with its place already in front.
class PlacedError : public Error {
 public:
  using Error::Error;
};

class Entered {
 public:
  explicit Entered(Budget& budget) : budget_(budget) { budget_.enter(); }
  ~Entered() { budget_.leave(); }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  Budget& budget_;
};

// The "loop" of item i.
Value loop_value(const std::vector<Value>& items, std::size_t i) {
  const auto index = static_cast<std::int64_t>(i), size = static_cast<std::int64_t>(items.size());
  const auto text = [](const char* name) { return Text(name, Origin::kTemplate); };
  return make_mapping(
      {{text("index"), index + 1},
       {text("index0"), index},
       {text("revindex"), size - index},
       {text("revindex0"), size - index - 1},
       {text("first"), i == 0},
       {text("last"), index + 1 == size},
       {text("length"), size},
       {text("previtem"), i > 0 ? items[i - 1] : Value(Undefined{"previtem"})},
       {text("nextitem"), i + 1 < items.size() ? items[i + 1] : Value(Undefined{"nextitem"})}});
}

}  // namespace

Text Interpreter::run(const Block& block, std::map<std::string, Value> variables) {
  scopes_ = {std::move(variables)};
  Text out;
  execute(block, out);
  return out;
}

void Interpreter::write(const Text& text, Text& out) {
  if (text.size() + out.size() > static_cast<std::size_t>(budget_.limits().output))
    fail("it writes more than ", budget_.limits().output, " bytes");
  budget_.text(static_cast<std::int64_t>(text.size()));
  out.append(text);
}

Interpreter::Flow Interpreter::execute(const Block& block, Text& out) {
  const Entered entered(budget_);
  for (const auto& statement : block) {
    try {
      const Flow flow = execute(*statement, out);
      if (flow != Flow::kOn) return flow;
    } catch (const PlacedError&) {
      throw;
    } catch (const Error& error) {
      throw PlacedError(join(name_, ":", statement->line, ": ", error.what()));
    }
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::execute(const Statement& statement, Text& out) {
  budget_.step();
  switch (statement.kind) {
    case Statement::Kind::kText:
      write(Text(statement.text, Origin::kTemplate), out);
      break;
    case Statement::Kind::kPrint:
      write(to_text(evaluate(*statement.value)), out);
      break;
    case Statement::Kind::kIf:
      for (const Branch& branch : statement.branches)
        if (!branch.condition || truth(evaluate(*branch.condition)))
          return execute(branch.body, out);
      break;
    case Statement::Kind::kFor:
      return loop(statement, out);
    case Statement::Kind::kSet:
      set(statement);
      break;
    case Statement::Kind::kMacro:
      define_macro(statement);
      break;
    case Statement::Kind::kScope:
      return execute(statement.body, out);
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::loop(const Statement& statement, Text& out) {
  const Value over = evaluate(*statement.value);
  std::vector<Value> items;
  for (Value& item : items_of(over, budget_)) {
    if (statement.condition) {
      scopes_.emplace_back();
      assign(statement.targets, item);
      const bool wanted = truth(evaluate(*statement.condition));
      scopes_.pop_back();
      if (!wanted) continue;
    }
    items.push_back(std::move(item));
  }
  if (items.empty()) return execute(statement.otherwise, out);
  for (std::size_t i = 0; i < items.size(); ++i) {
    budget_.step();
    scopes_.emplace_back();
    assign(statement.targets, items[i]);
    scopes_.back()["loop"] = loop_value(items, i);
    const Flow flow = execute(statement.body, out);
    scopes_.pop_back();
    if (flow == Flow::kBreak) break;
  }
  return Flow::kOn;
}

void Interpreter::assign(const std::vector<std::string>& targets, const Value& value) {
  if (targets.size() == 1) {
    scopes_.back()[targets[0]] = value;
    return;
  }
  const List* parts = value.list();
  if (parts == nullptr || parts->items.size() != targets.size())
    fail(targets.size(), " names take a list of as many, not ",
         parts ? join("one of ", parts->items.size()) : kind_of(value));
  for (std::size_t i = 0; i < targets.size(); ++i) scopes_.back()[targets[i]] = parts->items[i];
}

void Interpreter::set(const Statement& statement) {
  Value value;
  if (statement.value) {
    value = evaluate(*statement.value);
  } else {
    Text text;
    execute(statement.body, text);
    value = std::move(text);
  }
  if (statement.attribute.empty()) return assign(statement.targets, value);
  const Value target = lookup(statement.targets[0]);
  const auto* space = target.as<std::shared_ptr<Namespace>>();
  if (space == nullptr)
    fail(statement.targets[0], ".", statement.attribute,
         " cannot be set: only what namespace() made has members that can be");
  check(!value.is<std::shared_ptr<Namespace>>(), "a namespace cannot be in a namespace");
  (*space)->members[statement.attribute] = value;
}

void Interpreter::define_macro(const Statement& macro) {
  scopes_.back()[macro.name] = std::make_shared<const Callable>(Callable{
      macro.name,
      [this, &macro](const Arguments& arguments) { return call_macro(macro, arguments); }});
}

// A macro sees its parameters and what stands outside of all loops and macros.
Value Interpreter::call_macro(const Statement& macro, const Arguments& arguments) {
  check(arguments.given.size() <= macro.targets.size(), macro.name, "() takes ",
        macro.targets.size(), " values, not ", arguments.given.size());
  Scope inside;
  const std::size_t required = macro.targets.size() - macro.defaults.size();
  for (std::size_t i = 0; i < macro.targets.size(); ++i) {
    const std::string& name = macro.targets[i];
    if (i < arguments.given.size())
      inside[name] = arguments.given[i];
    else
      inside[name] = i >= required ? evaluate(*macro.defaults[i - required]) : Undefined{name};
  }
  for (const auto& [name, value] : arguments.named) {
    check(inside.contains(name), macro.name, "() has no parameter ", name);
    inside[name] = value;
  }
  std::vector<Scope> outside(std::make_move_iterator(scopes_.begin() + 1),
                             std::make_move_iterator(scopes_.end()));
  scopes_.resize(1);
  scopes_.push_back(std::move(inside));
  Text text;
  execute(macro.body, text);
  scopes_.resize(1);
  scopes_.insert(scopes_.end(), std::make_move_iterator(outside.begin()),
                 std::make_move_iterator(outside.end()));
  return text;
}

Value Interpreter::lookup(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const auto found = scope->find(name); found != scope->end()) return found->second;
  return Undefined{name};
}

}  // namespace trireme::jinja
