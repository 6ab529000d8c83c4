// Filters and tests.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "framework/base/error.h"
#include "framework/data/jinja/builtins.h"
#include "framework/data/jinja/strings.h"

namespace trireme::jinja {

namespace {

const Value* named(const Arguments& arguments, std::string_view name) {
  for (const auto& [key, value] : arguments.named)
    if (key == name) return &value;
  return nullptr;
}

// By position or by name; null: not given.
const Value* argument(const Arguments& arguments, std::size_t at, std::string_view name) {
  return at < arguments.given.size() ? &arguments.given[at] : named(arguments, name);
}

std::string word(const Value* value, const std::string& filter) {
  if (value == nullptr || !value->text()) fail(filter, " takes a name");
  return value->text()->bytes();
}

// The value of "a.b" in an item.
Value attribute(const Value& item, const std::string& path) {
  Value value = item;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('.', at), path.size());
    value = item_of(value, make_text(path.substr(at, end - at)));
    at = end + 1;
  }
  return value;
}

// The arguments behind the first `skip`.
Arguments rest(const Arguments& arguments, std::size_t skip) {
  Arguments out;
  for (std::size_t i = skip; i < arguments.given.size(); ++i)
    out.given.push_back(arguments.given[i]);
  return out;
}

Value map(const Value& input, const Arguments& arguments, Budget& budget) {
  std::vector<Value> items = items_of(input, budget);
  const Value* path = named(arguments, "attribute");
  const Value* otherwise = named(arguments, "default");
  for (Value& item : items) {
    if (path == nullptr) {
      check(!arguments.given.empty(), "map takes a filter or attribute=");
      item = apply_filter(word(&arguments.given[0], "map"), item, rest(arguments, 1), budget);
      continue;
    }
    item = attribute(item, word(path, "map"));
    if (otherwise && item.is<Undefined>()) item = *otherwise;
  }
  return make_list(std::move(items));
}

Value select(const std::string& filter, const Value& input, const Arguments& arguments,
             Budget& budget) {
  const bool by_attribute = filter.find("attr") != std::string::npos;
  const bool wanted = filter.rfind("select", 0) == 0;
  const std::size_t at = by_attribute ? 1 : 0;
  std::vector<Value> chosen;
  for (const Value& item : items_of(input, budget)) {
    const Value value =
        by_attribute ? attribute(item, word(argument(arguments, 0, "attribute"), filter)) : item;
    const bool fits = arguments.given.size() > at ? apply_test(word(&arguments.given[at], filter),
                                                               value, rest(arguments, at + 1).given)
                                                  : truth(value);
    if (fits == wanted) chosen.push_back(item);
  }
  return make_list(std::move(chosen));
}

// Strings without regard to case, as Jinja sorts.
Value sort_key(const Value& value) {
  return value.text() ? Value(cased(*value.text(), "lower")) : value;
}

Value sort(const Value& input, const Arguments& arguments, Budget& budget) {
  std::vector<Value> items = items_of(input, budget);
  const Value* path = argument(arguments, 2, "attribute");
  const Value* reverse = argument(arguments, 0, "reverse");
  const auto before = [&](const Value& a, const Value& b) {
    budget.step();
    const auto key = [&](const Value& item) {
      return sort_key(path ? attribute(item, word(path, "sort")) : item);
    };
    return less(key(a), key(b));
  };
  if (reverse && truth(*reverse))
    std::stable_sort(items.begin(), items.end(),
                     [&](const Value& a, const Value& b) { return before(b, a); });
  else
    std::stable_sort(items.begin(), items.end(), before);
  return make_list(std::move(items));
}

Value sorted_members(const Value& input, Budget& budget) {
  if (!input.mapping()) fail("dictsort takes a mapping, not ", kind_of(input));
  std::vector<Value> pairs;
  for (const auto& [name, value] : input.mapping()->members)
    pairs.push_back(make_list({name, value}, true));
  std::stable_sort(pairs.begin(), pairs.end(), [&](const Value& a, const Value& b) {
    budget.step();
    return less(sort_key(a.list()->items[0]), sort_key(b.list()->items[0]));
  });
  return make_list(std::move(pairs));
}

Value unique(const Value& input, Budget& budget) {
  std::vector<Value> kept;
  for (const Value& item : items_of(input, budget)) {
    budget.step(static_cast<std::int64_t>(kept.size()));
    const bool there = std::any_of(kept.begin(), kept.end(), [&](const Value& other) {
      return equal(sort_key(item), sort_key(other));
    });
    if (!there) kept.push_back(item);
  }
  return make_list(std::move(kept));
}

Value length(const Value& input) {
  if (input.text()) return character_count(input.text()->bytes());
  if (input.list()) return static_cast<std::int64_t>(input.list()->items.size());
  if (input.mapping()) return static_cast<std::int64_t>(input.mapping()->members.size());
  if (input.is<Undefined>()) return std::int64_t{0};
  fail(kind_of(input), " has no length");
}

Value json(const Value& input, const Arguments& arguments, Budget& budget) {
  for (const auto& [name, value] : arguments.named)
    if (name != "indent" && name != "ensure_ascii")
      fail("tojson(", name, "=) is not supported; indent is");
  if (const Value* ascii = named(arguments, "ensure_ascii"))
    check(!truth(*ascii), "tojson(ensure_ascii=true) is not supported");
  const Value* indent = argument(arguments, 0, "indent");
  const auto* blanks = indent ? indent->as<std::int64_t>() : nullptr;
  check(blanks == nullptr || (*blanks >= 0 && *blanks <= 16), "tojson: indent is 0 to 16");
  Text text = to_json(input, blanks ? static_cast<int>(*blanks) : -1);
  budget.text(static_cast<std::int64_t>(text.size()));
  return text;
}

// int and float give `otherwise` for what is no number.
Value number(const Value& input, const Value* otherwise, bool whole) {
  if (input.number()) {
    if (!whole) return input.real();
    if (const auto* integer = input.as<std::int64_t>()) return *integer;
    if (std::fabs(input.real()) < 9e18) return static_cast<std::int64_t>(input.real());
  } else if (input.text()) {
    const Text text = stripped(*input.text(), "", true, true);
    const char *begin = text.bytes().data(), *end = begin + text.size();
    std::int64_t integer = 0;
    double real = 0;
    if (whole && std::from_chars(begin, end, integer).ptr == end && begin != end) return integer;
    if (std::from_chars(begin, end, real).ptr == end && begin != end && std::isfinite(real) &&
        (!whole || std::fabs(real) < 9e18))
      return whole ? Value(static_cast<std::int64_t>(real)) : Value(real);
  }
  if (otherwise) return *otherwise;
  return whole ? Value(std::int64_t{0}) : Value(0.0);
}

Value extreme(const Value& input, bool largest, Budget& budget) {
  const std::vector<Value> items = items_of(input, budget);
  if (items.empty()) return Undefined{};
  const Value* best = &items[0];
  for (const Value& item : items)
    if (largest ? less(*best, item) : less(item, *best)) best = &item;
  return *best;
}

Value sum(const Value& input, const Arguments& arguments, Budget& budget) {
  const Value* path = argument(arguments, 0, "attribute");
  std::int64_t whole = 0;
  double real = 0;
  bool all_whole = true;
  for (const Value& item : items_of(input, budget)) {
    const Value value = path ? attribute(item, word(path, "sum")) : item;
    if (!value.number()) fail("sum takes numbers, not ", kind_of(value));
    const auto* integer = value.as<std::int64_t>();
    all_whole = all_whole && integer;
    if (integer && __builtin_add_overflow(whole, *integer, &whole)) fail("sum does not fit");
    real += value.real();
  }
  return all_whole ? Value(whole) : Value(real);
}

Value rounded(const Value& input, const Arguments& arguments) {
  if (!input.number()) fail("round takes a number, not ", kind_of(input));
  const Value* digits = argument(arguments, 0, "precision");
  const auto* places = digits ? digits->as<std::int64_t>() : nullptr;
  check(!places || (*places >= 0 && *places <= 15), "round takes 0 to 15 digits");
  const double factor = std::pow(10.0, places ? static_cast<double>(*places) : 0.0);
  return std::nearbyint(input.real() * factor) / factor;
}

Value ends_of(const Value& input, bool first, Budget& budget) {
  const std::vector<Value> items = items_of(input, budget);
  if (items.empty()) return Undefined{first ? "first item" : "last item"};
  return first ? items.front() : items.back();
}

const Text& of_text(const Value& input, const Text& made, const std::string& filter) {
  if (input.list() || input.mapping()) fail(filter, " takes a string, not ", kind_of(input));
  return made;
}

// What works on strings; undefined if `name` is none of those.
Value text_filter(const std::string& name, const Value& input, const Arguments& arguments,
                  Budget& budget) {
  const Text made = to_text(input);
  const auto text = [&]() -> const Text& { return of_text(input, made, name); };
  if (name == "string" || name == "safe") return made;
  if (name == "trim") {
    const Value* set = argument(arguments, 0, "chars");
    return stripped(text(), set && set->text() ? set->text()->bytes() : "", true, true);
  }
  if (name == "upper" || name == "lower" || name == "title" || name == "capitalize")
    return cased(text(), name);
  if (name == "replace") {
    const Value *from = argument(arguments, 0, "old"), *to = argument(arguments, 1, "new");
    check(from && to && from->text() && to->text(), "replace takes two strings");
    return replaced(text(), *from->text(), *to->text(), -1, budget);
  }
  if (name == "indent") {
    const Value *width = argument(arguments, 0, "width"), *first = argument(arguments, 1, "first"),
                *blank = argument(arguments, 2, "blank");
    const auto* blanks = width ? width->as<std::int64_t>() : nullptr;
    return indented(text(), blanks ? *blanks : 4, first && truth(*first), blank && truth(*blank),
                    budget);
  }
  return Undefined{};
}

Value reversed(const Value& input, Budget& budget) {
  std::vector<Value> items = items_of(input, budget);
  std::reverse(items.begin(), items.end());
  return input.text() ? Value(joined(items, Text(), budget)) : make_list(std::move(items));
}

}  // namespace

Value apply_filter(const std::string& name, const Value& input, const Arguments& arguments,
                   Budget& budget) {
  budget.step();
  if (name == "default" || name == "d") {
    const Value *value = argument(arguments, 0, "default_value"),
                *falsy = argument(arguments, 1, "boolean");
    const bool replaces = input.is<Undefined>() || (falsy && truth(*falsy) && !truth(input));
    return !replaces ? input : value ? *value : make_text("");
  }
  if (name == "tojson") return json(input, arguments, budget);
  if (name == "length" || name == "count") return length(input);
  if (name == "map") return map(input, arguments, budget);
  if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr")
    return select(name, input, arguments, budget);
  if (name == "join") {
    const Value *between = argument(arguments, 0, "d"), *path = argument(arguments, 1, "attribute");
    std::vector<Value> items = items_of(input, budget);
    if (path)
      for (Value& item : items) item = attribute(item, word(path, name));
    return joined(items, between ? to_text(*between) : Text(), budget);
  }
  if (name == "list") return make_list(items_of(input, budget));
  if (name == "items") {
    if (!input.mapping() && !input.is<Undefined>())
      fail("items takes a mapping, not ", kind_of(input));
    std::vector<Value> pairs;
    if (input.mapping())
      for (const auto& [key, value] : input.mapping()->members)
        pairs.push_back(make_list({key, value}, true));
    return make_list(std::move(pairs));
  }
  if (name == "dictsort") return sorted_members(input, budget);
  if (name == "first" || name == "last") return ends_of(input, name == "first", budget);
  if (name == "sort") return sort(input, arguments, budget);
  if (name == "unique") return unique(input, budget);
  if (name == "reverse") return reversed(input, budget);
  if (name == "min" || name == "max") return extreme(input, name == "max", budget);
  if (name == "sum") return sum(input, arguments, budget);
  if (name == "int" || name == "float")
    return number(input, argument(arguments, 0, "default"), name == "int");
  if (name == "round") return rounded(input, arguments);
  if (name == "abs") {
    if (const auto* integer = input.as<std::int64_t>(); integer && *integer > INT64_MIN)
      return std::abs(*integer);
    if (!input.number()) fail("abs takes a number, not ", kind_of(input));
    return std::fabs(input.real());
  }
  Value text = text_filter(name, input, arguments, budget);
  check(!text.is<Undefined>(), "the filter \"", name, "\" is not known");
  return text;
}

bool apply_test(const std::string& name, const Value& input, const std::vector<Value>& arguments) {
  const auto other = [&]() -> const Value& {
    check(arguments.size() == 1, "the test \"", name, "\" takes one value");
    return arguments[0];
  };
  const auto whole = [&](const Value& value) {
    const auto* integer = value.as<std::int64_t>();
    if (!integer) fail("the test \"", name, "\" takes an integer, not ", kind_of(value));
    return *integer;
  };
  if (name == "defined") return !input.is<Undefined>();
  if (name == "undefined") return input.is<Undefined>();
  if (name == "none") return input.is<None>();
  if (name == "string") return input.text() != nullptr;
  if (name == "mapping") return input.mapping() != nullptr;
  if (name == "sequence" || name == "iterable")
    return input.list() || input.mapping() || input.text();
  if (name == "number") return input.number();
  if (name == "integer") return input.is<std::int64_t>();
  if (name == "float") return input.is<double>();
  if (name == "boolean") return input.is<bool>();
  if (name == "true" || name == "false")
    return input.is<bool>() && truth(input) == (name == "true");
  if (name == "callable") return input.is<std::shared_ptr<const Callable>>();
  if (name == "equalto" || name == "eq" || name == "sameas") return equal(input, other());
  if (name == "ne") return !equal(input, other());
  if (name == "gt" || name == "greaterthan") return less(other(), input);
  if (name == "lt" || name == "lessthan") return less(input, other());
  if (name == "ge") return !less(input, other());
  if (name == "le") return !less(other(), input);
  if (name == "in") return contains(other(), input);
  if (name == "odd") return whole(input) % 2 != 0;
  if (name == "even") return whole(input) % 2 == 0;
  if (name == "divisibleby") {
    check(whole(other()) != 0, "divisibleby 0");
    return whole(input) % whole(other()) == 0;
  }
  if (name == "lower" || name == "upper")
    return input.text() && *input.text() == cased(*input.text(), name);
  fail("the test \"", name, "\" is not known");
}

}  // namespace trireme::jinja
