#include "framework/data/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "framework/base/error.h"

namespace trireme::jinja {

namespace {

constexpr int kDeepest = 64;

int depth_of(const Value& value) {
  if (const List* list = value.list()) return list->depth;
  if (const Mapping* mapping = value.mapping()) return mapping->depth;
  return 0;
}

void expect_shallow(int depth) {
  check(depth <= kDeepest, "more than ", kDeepest, " lists and mappings lie inside each other");
}

// Python's repr of a float.
std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return trireme::to_text(Json(value));
}

void quote_python(const Text& text, Text& out) {
  const bool single =
      text.bytes().find('\'') != std::string::npos && text.bytes().find('"') == std::string::npos;
  const char quote = single ? '"' : '\'';
  out.append(std::string(1, quote), Origin::kTemplate);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text.bytes()[i];
    if (c == '\n' || c == '\t' || c == '\r') {
      out.append(c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r", text.origin(i));
    } else {
      if (c == quote || c == '\\') out.append("\\", text.origin(i));
      out.append(text.part(i, 1));
    }
  }
  out.append(std::string(1, quote), Origin::kTemplate);
}

void quote_json(const Text& text, Text& out) {
  out.append("\"", Origin::kTemplate);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string shown = trireme::to_text(Json(text.bytes().substr(i, 1)));
    const auto byte = static_cast<unsigned char>(text.bytes()[i]);
    if (byte >= 127)
      out.append(text.part(i, 1));  // json.dumps leaves DEL and all that is not ASCII as it is
    else
      out.append(shown.substr(1, shown.size() - 2), text.origin(i));
  }
  out.append("\"", Origin::kTemplate);
}

// Lists and mappings as Python prints them, or as JSON.
class Printer {
 public:
  Printer(bool json, int indent, Text& out) : json_(json), indent_(indent), out_(out) {}

  void print(const Value& value, int level) {
    if (const Text* text = value.text()) {
      json_ ? quote_json(*text, out_) : quote_python(*text, out_);
    } else if (const List* list = value.list()) {
      const bool round = list->tuple && !json_;
      items(
          round ? '(' : '[', list->items, level, round ? ')' : ']',
          [&](const Value& item) { print(item, level + 1); }, round && list->items.size() == 1);
    } else if (const Mapping* mapping = value.mapping()) {
      items('{', mapping->members, level, '}', [&](const std::pair<Text, Value>& member) {
        print(Value(member.first), level + 1);
        put(": ");
        print(member.second, level + 1);
      });
    } else {
      put(atom(value));
    }
  }

 private:
  void put(std::string_view text) { out_.append(text, Origin::kTemplate); }

  std::string atom(const Value& value) const {
    if (const bool* truth = value.as<bool>())
      return json_ ? (*truth ? "true" : "false") : (*truth ? "True" : "False");
    if (const auto* integer = value.as<std::int64_t>()) return std::to_string(*integer);
    if (const double* real = value.as<double>()) {
      check(!json_ || std::isfinite(*real), "tojson: JSON has no number ", *real);
      return real_text(*real);
    }
    if (value.is<None>()) return json_ ? "null" : "None";
    check(!json_, "tojson: ", kind_of(value), " cannot be written as JSON");
    return value.is<Undefined>() ? "Undefined" : "<" + kind_of(value) + ">";
  }

  void new_line(int level) {
    if (indent_ < 0) return;
    put("\n");
    put(std::string(static_cast<std::size_t>(indent_) * static_cast<std::size_t>(level), ' '));
  }

  template <typename Items, typename Print>
  void items(char open, const Items& all, int level, char close, const Print& print_item,
             bool comma = false) {
    put(std::string(1, open));
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i > 0) put(indent_ < 0 ? ", " : ",");
      new_line(level + 1);
      print_item(all[i]);
    }
    if (comma) put(",");
    if (!all.empty()) new_line(level);
    put(std::string(1, close));
  }

  bool json_;
  int indent_;
  Text& out_;
};

}  // namespace

const List* Value::list() const {
  const auto* shared = as<std::shared_ptr<const List>>();
  return shared ? shared->get() : nullptr;
}

const Mapping* Value::mapping() const {
  const auto* shared = as<std::shared_ptr<const Mapping>>();
  return shared ? shared->get() : nullptr;
}

double Value::real() const {
  if (const bool* truth = as<bool>()) return *truth ? 1 : 0;
  if (const auto* integer = as<std::int64_t>()) return static_cast<double>(*integer);
  return *as<double>();
}

const Value* Mapping::find(const std::string& key) const {
  for (const auto& [name, value] : members)
    if (name.bytes() == key) return &value;
  return nullptr;
}

Value make_list(std::vector<Value> items, bool tuple) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, depth_of(item));
  expect_shallow(depth + 1);
  return std::make_shared<const List>(List{std::move(items), depth + 1, tuple});
}

Value make_mapping(std::vector<std::pair<Text, Value>> members) {
  int depth = 0;
  for (const auto& [name, value] : members) depth = std::max(depth, depth_of(value));
  expect_shallow(depth + 1);
  return std::make_shared<const Mapping>(Mapping{std::move(members), depth + 1});
}

Value make_text(std::string bytes, Origin origin) { return Text(std::move(bytes), origin); }

Value from_json(const Json& json, Origin origin) {
  switch (json.kind()) {
    case Json::Kind::kNull:
      return None{};
    case Json::Kind::kBoolean:
      return json.boolean("");
    case Json::Kind::kInteger:
      return json.integer("");
    case Json::Kind::kReal:
      return json.number("");
    case Json::Kind::kString:
      return make_text(json.text(""), origin);
    case Json::Kind::kArray: {
      std::vector<Value> items;
      for (const Json& item : json.array("")) items.push_back(from_json(item, origin));
      return make_list(std::move(items));
    }
    case Json::Kind::kObject: {
      std::vector<std::pair<Text, Value>> members;
      for (const auto& [name, value] : json.object(""))
        members.emplace_back(Text(name, origin), from_json(value, origin));
      return make_mapping(std::move(members));
    }
  }
  return {};
}

bool truth(const Value& value) {
  if (value.is<Undefined>() || value.is<None>()) return false;
  if (value.number()) return value.real() != 0;
  if (const Text* text = value.text()) return text->size() > 0;
  if (const List* list = value.list()) return !list->items.empty();
  if (const Mapping* mapping = value.mapping()) return !mapping->members.empty();
  return true;
}

bool equal(const Value& a, const Value& b) {
  if (a.number() && b.number()) {
    const auto *x = a.as<std::int64_t>(), *y = b.as<std::int64_t>();
    return x && y ? *x == *y : a.real() == b.real();
  }
  if (a.text() && b.text()) return *a.text() == *b.text();
  if (a.list() && b.list())
    return std::equal(a.list()->items.begin(), a.list()->items.end(), b.list()->items.begin(),
                      b.list()->items.end(), equal);
  if (a.mapping() && b.mapping()) {
    if (a.mapping()->members.size() != b.mapping()->members.size()) return false;
    for (const auto& [name, value] : a.mapping()->members) {
      const Value* other = b.mapping()->find(name.bytes());
      if (!other || !equal(value, *other)) return false;
    }
    return true;
  }
  return (a.is<None>() && b.is<None>()) || (a.is<Undefined>() && b.is<Undefined>());
}

bool less(const Value& a, const Value& b) {
  if (a.number() && b.number()) {
    const auto *x = a.as<std::int64_t>(), *y = b.as<std::int64_t>();
    return x && y ? *x < *y : a.real() < b.real();
  }
  if (a.text() && b.text()) return a.text()->bytes() < b.text()->bytes();
  fail(kind_of(a), " and ", kind_of(b), " cannot be ordered");
}

Text to_text(const Value& value) {
  if (const Text* text = value.text()) return *text;
  Text out;
  if (!value.is<Undefined>()) Printer(false, -1, out).print(value, 0);
  return out;
}

Text to_json(const Value& value, int indent) {
  Text out;
  Printer(true, indent, out).print(value, 0);
  return out;
}

std::string kind_of(const Value& value) {
  if (const auto* missing = value.as<Undefined>())
    return missing->name.empty() ? "an undefined value" : "the undefined \"" + missing->name + "\"";
  if (value.is<None>()) return "none";
  if (value.is<bool>()) return "a boolean";
  if (value.is<std::int64_t>()) return "an integer";
  if (value.is<double>()) return "a number";
  if (value.text()) return "a string";
  if (value.list()) return "a list";
  if (value.mapping()) return "a mapping";
  return value.is<std::shared_ptr<Namespace>>() ? "a namespace" : "a function";
}

}  // namespace trireme::jinja
