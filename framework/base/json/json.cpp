#include "framework/base/json/json.h"

#include "framework/base/error.h"

namespace trireme {

namespace {

template <typename T, typename Variant>
const T& expect(const Variant& value, const Json& json, std::string_view what,
                std::string_view wanted) {
  const T* found = std::get_if<T>(&value);
  if (found == nullptr) fail(what, ": ", wanted, " is expected, here is ", describe(json));
  return *found;
}

}  // namespace

std::string describe(const Json& value) {
  constexpr std::size_t kShown = 40;
  switch (value.kind()) {
    case Json::Kind::kNull:
      return "null";
    case Json::Kind::kBoolean:
    case Json::Kind::kInteger:
    case Json::Kind::kReal:
      return to_text(value);
    case Json::Kind::kString: {
      const std::string& text = value.text("");
      const std::string shown = text.size() <= kShown ? text : text.substr(0, kShown) + "...";
      return "the string \"" + shown + "\"";
    }
    case Json::Kind::kArray:
      return "an array";
    case Json::Kind::kObject:
      return "an object";
  }
  return {};
}

bool Json::boolean(std::string_view what) const {
  return expect<bool>(value_, *this, what, "true or false");
}

std::int64_t Json::integer(std::string_view what) const {
  return expect<std::int64_t>(value_, *this, what, "an integer");
}

double Json::number(std::string_view what) const {
  if (is(Kind::kInteger)) return static_cast<double>(std::get<std::int64_t>(value_));
  return expect<double>(value_, *this, what, "a number");
}

const std::string& Json::text(std::string_view what) const {
  return expect<std::string>(value_, *this, what, "a string");
}

const Json::Array& Json::array(std::string_view what) const {
  return expect<Array>(value_, *this, what, "an array");
}

const Json::Object& Json::object(std::string_view what) const {
  return expect<Object>(value_, *this, what, "an object");
}

const Json* Json::find(std::string_view key) const {
  const auto* members = std::get_if<Object>(&value_);
  if (members == nullptr) return nullptr;
  for (const Member& member : *members)
    if (member.first == key) return &member.second;
  return nullptr;
}

const Json& Json::at(std::string_view key, std::string_view what) const {
  constexpr std::size_t kListed = 20;
  const Object& members = object(what);
  if (const Json* found = find(key)) return *found;
  std::string names;
  for (std::size_t i = 0; i < members.size() && i < kListed; ++i)
    names += (i ? ", " : "") + members[i].first;
  if (members.size() > kListed) names += ", ...";
  fail(what, ": \"", key, "\" is missing; ",
       members.empty() ? "the object is empty" : "there is " + names);
}

}  // namespace trireme
