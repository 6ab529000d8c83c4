// Methods of strings and mappings.
#include <algorithm>

#include "framework/base/error.h"
#include "framework/data/jinja/builtins.h"
#include "framework/data/jinja/strings.h"

namespace trireme::jinja {

namespace {

const Text& text_argument(const Arguments& arguments, std::size_t at, const std::string& method) {
  const Text* text = at < arguments.given.size() ? arguments.given[at].text() : nullptr;
  if (text == nullptr) fail(method, "() takes a string");
  return *text;
}

std::int64_t count_argument(const Arguments& arguments, std::size_t at, const char* name) {
  const Value* found = at < arguments.given.size() ? &arguments.given[at] : nullptr;
  for (const auto& [named, value] : arguments.named)
    if (named == name) found = &value;
  const auto* count = found ? found->as<std::int64_t>() : nullptr;
  return count ? *count : -1;
}

Value starts(const Text& self, const Arguments& arguments, const std::string& method) {
  const bool front = method == "startswith";
  const auto fits = [&](const Value& value) {
    if (value.text() == nullptr) fail(method, "() takes a string, not ", kind_of(value));
    const std::string& part = value.text()->bytes();
    if (part.size() > self.size()) return false;
    return self.bytes().compare(front ? 0 : self.size() - part.size(), part.size(), part) == 0;
  };
  check(arguments.given.size() == 1, method, "() takes a string");
  if (const List* any = arguments.given[0].list())
    return std::any_of(any->items.begin(), any->items.end(), fits);
  return fits(arguments.given[0]);
}

Value find(const Text& self, const Arguments& arguments, const std::string& method) {
  const std::string& part = text_argument(arguments, 0, method).bytes();
  const std::size_t at = method == "find" ? self.bytes().find(part) : self.bytes().rfind(part);
  if (at == std::string::npos) return std::int64_t{-1};
  return character_count(self.bytes().substr(0, at));
}

Value string_method(const Text& self, const std::string& method, const Arguments& arguments,
                    Budget& budget) {
  budget.text(static_cast<std::int64_t>(self.size()));
  if (method == "strip" || method == "lstrip" || method == "rstrip") {
    const bool given = !arguments.given.empty() && !arguments.given[0].is<None>();
    return stripped(self, given ? text_argument(arguments, 0, method).bytes() : "",
                    method != "rstrip", method != "lstrip");
  }
  if (method == "startswith" || method == "endswith") return starts(self, arguments, method);
  if (method == "find" || method == "rfind") return find(self, arguments, method);
  if (method == "split" || method == "rsplit") {
    check(method == "split" || count_argument(arguments, 1, "maxsplit") < 0,
          "rsplit() with a maximum is not supported");
    const bool given = !arguments.given.empty() && !arguments.given[0].is<None>();
    return split(self, given ? &text_argument(arguments, 0, method) : nullptr,
                 count_argument(arguments, 1, "maxsplit"), budget);
  }
  if (method == "splitlines") return split_lines(self, budget);
  if (method == "replace")
    return replaced(self, text_argument(arguments, 0, method), text_argument(arguments, 1, method),
                    count_argument(arguments, 2, "count"), budget);
  if (method == "join") {
    check(arguments.given.size() == 1, "join() takes a list");
    return joined(items_of(arguments.given[0], budget), self, budget);
  }
  if (method == "count") {
    const std::string& part = text_argument(arguments, 0, method).bytes();
    check(!part.empty(), "count() takes a string that is not empty");
    std::int64_t times = 0;
    for (std::size_t at = 0; (at = self.bytes().find(part, at)) != std::string::npos;
         at += part.size())
      ++times;
    return times;
  }
  return cased(self, method);
}

Value pairs(const Mapping& mapping, bool keys, bool values) {
  std::vector<Value> items;
  for (const auto& [name, value] : mapping.members)
    items.push_back(keys && values ? make_list({name, value}, true) : keys ? Value(name) : value);
  return make_list(std::move(items));
}

Value mapping_method(const Mapping& self, const std::string& method, const Arguments& arguments) {
  if (method == "items") return pairs(self, true, true);
  if (method == "keys") return pairs(self, true, false);
  if (method == "values") return pairs(self, false, true);
  const std::string& key = text_argument(arguments, 0, method).bytes();
  if (const Value* found = self.find(key)) return *found;
  return arguments.given.size() > 1 ? arguments.given[1] : Value(None{});
}

}  // namespace

Value method_of(const Value& self, const std::string& name, Budget& budget) {
  const auto any = [&](std::initializer_list<const char*> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const bool of_text =
      self.text() && any({"strip", "lstrip", "rstrip", "startswith", "endswith", "find", "rfind",
                          "split", "rsplit", "splitlines", "replace", "join", "count", "upper",
                          "lower", "title", "capitalize"});
  const bool of_mapping = self.mapping() && any({"items", "keys", "values", "get"});
  if (!of_text && !of_mapping) return Undefined{name};
  return std::make_shared<const Callable>(
      Callable{name, [self, name, &budget](const Arguments& arguments) {
                 budget.step();
                 return self.text() ? string_method(*self.text(), name, arguments, budget)
                                    : mapping_method(*self.mapping(), name, arguments);
               }});
}

}  // namespace trireme::jinja
