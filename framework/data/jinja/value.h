// Values of a template: Python's as far as templates use them. Lists and mappings are never changed
// once made (as in transformers' immutable sandbox), so they share freely and hold no cycles; only
// a namespace() has members that can be set, and it can be in no other value.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "framework/base/json/json.h"
#include "framework/data/jinja/text.h"

namespace trireme::jinja {

class Value;
struct List;
struct Mapping;
struct Namespace;
struct Callable;

// Name of what is missing, for sentences.
struct Undefined {
  std::string name;
};
struct None {};

class Value {
 public:
  using Content = std::variant<Undefined, None, bool, std::int64_t, double, Text,
                               std::shared_ptr<const List>, std::shared_ptr<const Mapping>,
                               std::shared_ptr<Namespace>, std::shared_ptr<const Callable>>;

  Value() = default;
  template <typename T>
  Value(T content) : content_(std::move(content)) {}

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&content_);
  }
  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(content_);
  }
  const List* list() const;
  const Mapping* mapping() const;
  const Text* text() const { return as<Text>(); }
  bool number() const { return is<std::int64_t>() || is<double>() || is<bool>(); }
  double real() const;  // of a number

 private:
  Content content_;
};

struct List {
  std::vector<Value> items;
  int depth = 1;       // of lists and mappings inside each other
  bool tuple = false;  // printed with round brackets
};

struct Mapping {
  std::vector<std::pair<Text, Value>> members;
  int depth = 1;
  const Value* find(const std::string& key) const;
};

struct Namespace {
  std::map<std::string, Value> members;
};

struct Arguments {
  std::vector<Value> given;
  std::vector<std::pair<std::string, Value>> named;
};
struct Callable {
  std::string name;
  std::function<Value(const Arguments&)> call;
};

// Throws Error when values lie too deep in each other.
Value make_list(std::vector<Value> items, bool tuple = false);
Value make_mapping(std::vector<std::pair<Text, Value>> members);
Value make_text(std::string bytes, Origin origin = Origin::kTemplate);
// Strings inside, keys too, come from `origin`.
Value from_json(const Json& json, Origin origin);

bool truth(const Value& value);
bool equal(const Value& a, const Value& b);
// Python's < of numbers or of strings; Error for anything else.
bool less(const Value& a, const Value& b);
// str(value): what {{ value }} writes. An undefined value writes nothing.
Text to_text(const Value& value);
// json.dumps(value, ensure_ascii=False, indent=...); indent < 0: one line.
Text to_json(const Value& value, int indent);
// "a string", "a list", for sentences.
std::string kind_of(const Value& value);

}  // namespace trireme::jinja
