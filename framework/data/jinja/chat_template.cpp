#include "framework/data/jinja/chat_template.h"

#include "framework/data/jinja/interpreter.h"
#include "framework/data/jinja/parser.h"

namespace trireme {

using jinja::Arguments;
using jinja::Callable;
using jinja::Origin;
using jinja::Value;

namespace {

constexpr std::int64_t kLongestRange = 100'000;

// Passes through the interpreter, which puts places in front of Errors.
struct Raised {
  std::string text;
};

Value function(std::string name, std::function<Value(const Arguments&)> call) {
  return std::make_shared<const Callable>(Callable{std::move(name), std::move(call)});
}

Value range(const Arguments& arguments, jinja::Budget& budget) {
  std::int64_t bounds[3] = {0, 0, 1};  // begin, end, step
  check(arguments.given.size() >= 1 && arguments.given.size() <= 3,
        "range() takes 1 to 3 integers");
  for (std::size_t i = 0; i < arguments.given.size(); ++i) {
    const auto* integer = arguments.given[i].as<std::int64_t>();
    if (!integer) fail("range() takes integers, not ", kind_of(arguments.given[i]));
    bounds[arguments.given.size() == 1 ? 1 : i] = *integer;
  }
  const auto [begin, end, step] = bounds;
  check(step != 0, "range(): the step is 0");
  std::vector<Value> items;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    check(static_cast<std::int64_t>(items.size()) < kLongestRange, "range() of more than ",
          kLongestRange, " numbers");
    budget.step();
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return make_list(std::move(items));
}

Value make_namespace(const Arguments& arguments) {
  auto space = std::make_shared<jinja::Namespace>();
  for (const auto& [name, value] : arguments.named) {
    check(!value.is<std::shared_ptr<jinja::Namespace>>(), "a namespace cannot be in a namespace");
    space->members[name] = value;
  }
  return space;
}

Value make_dict(const Arguments& arguments) {
  std::vector<std::pair<jinja::Text, Value>> members;
  for (const auto& [name, value] : arguments.named)
    members.emplace_back(jinja::Text(name, Origin::kTemplate), value);
  return make_mapping(std::move(members));
}

std::string one_text(const Arguments& arguments, const char* name) {
  if (arguments.given.size() != 1 || !arguments.given[0].text()) fail(name, "() takes a string");
  return arguments.given[0].text()->bytes();
}

std::vector<TemplatePiece> pieces_of(const jinja::Text& text) {
  std::vector<TemplatePiece> pieces;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && text.origin(end) == text.origin(at)) ++end;
    pieces.push_back({text.bytes().substr(at, end - at), text.origin(at) == Origin::kTemplate});
    at = end;
  }
  return pieces;
}

}  // namespace

struct ChatTemplate::Parsed {
  jinja::Block block;
};

ChatTemplate::ChatTemplate(std::string_view source, std::string name)
    : name_(std::move(name)),
      parsed_(std::make_unique<Parsed>(Parsed{jinja::parse(source, name_)})) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

std::vector<TemplatePiece> ChatTemplate::render(
    const std::vector<TemplateVariable>& variables,
    const std::function<std::string(const std::string& format)>& now,
    const TemplateLimits& limits) const {
  jinja::Interpreter interpreter(
      name_, {.steps = limits.steps, .output = limits.output, .depth = limits.depth});
  std::map<std::string, Value> names;
  names["range"] =
      function("range", [&](const Arguments& given) { return range(given, interpreter.budget()); });
  names["namespace"] = function("namespace", make_namespace);
  names["dict"] = function("dict", make_dict);
  names["raise_exception"] = function("raise_exception", [](const Arguments& given) -> Value {
    throw Raised{one_text(given, "raise_exception")};
  });
  names["strftime_now"] = function("strftime_now", [&](const Arguments& given) {
    check(static_cast<bool>(now), "strftime_now() is not available here");
    return jinja::make_text(now(one_text(given, "strftime_now")));
  });
  for (const TemplateVariable& variable : variables)
    names[variable.name] =
        from_json(variable.value, variable.control ? Origin::kTemplate : Origin::kUser);
  try {
    return pieces_of(interpreter.run(parsed_->block, std::move(names)));
  } catch (const Raised& raised) {
    throw TemplateRefusal(raised.text);
  }
}

std::string text_of(const std::vector<TemplatePiece>& pieces) {
  std::string text;
  for (const TemplatePiece& piece : pieces) text += piece.text;
  return text;
}

}  // namespace trireme
