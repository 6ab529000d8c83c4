// Does an answer fit what /openapi.json says of it? The part of JSON Schema that is used there; a
// word of it that is not known here fails the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "framework/base/json/json.h"

namespace trireme::test {

inline bool has_type(const Json& value, const std::string& type) {
  using Kind = Json::Kind;
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is(Kind::kBoolean);
  if (type == "integer") return value.is(Kind::kInteger);
  if (type == "number") return value.is(Kind::kInteger) || value.is(Kind::kReal);
  if (type == "string") return value.is(Kind::kString);
  if (type == "array") return value.is(Kind::kArray);
  EXPECT_EQ(type, "object");
  return value.is(Kind::kObject);
}

// Empty if it fits, else where it does not.
inline std::string misfit(const Json& described, const Json& schema, const Json& value,
                          const std::string& at = "answer");

inline std::string members_misfit(const Json& described, const Json& schema, const Json& value,
                                  const std::string& at) {
  if (const Json* required = schema.find("required"))
    for (const Json& name : required->array(""))
      if (!value.find(name.text(""))) return at + " has no " + name.text("");
  const Json* known = schema.find("properties");
  const Json* others = schema.find("additionalProperties");
  for (const auto& [name, member] : value.object("")) {
    const Json* own = known ? known->find(name) : nullptr;
    if (!own && others && others->is(Json::Kind::kBoolean)) return at + "." + name + " is not told";
    if (!own) own = others;
    if (own)
      if (std::string what = misfit(described, *own, member, at + "." + name); !what.empty())
        return what;
  }
  return {};
}

inline std::string misfit(const Json& described, const Json& schema, const Json& value,
                          const std::string& at) {
  if (const Json* ref = schema.find("$ref")) {
    const std::string name = ref->text("");
    return misfit(described,
                  described.at("components", "")
                      .at("schemas", "")
                      .at(name.substr(name.rfind('/') + 1), "schemas"),
                  value, at);
  }
  if (const Json* any = schema.find("anyOf")) {
    std::string all;
    for (const Json& one : any->array("")) {
      const std::string what = misfit(described, one, value, at);
      if (what.empty()) return {};
      all += (all.empty() ? "" : "; ") + what;
    }
    return all;
  }
  if (const Json* legal = schema.find("enum")) {
    const Json::Array& all = legal->array("");
    const bool found = std::find(all.begin(), all.end(), value) != all.end();
    return found ? "" : at + " is none of the values: " + to_text(value);
  }
  for (const auto& [word, what] : schema.object(""))
    EXPECT_TRUE(word == "type" || word == "properties" || word == "required" || word == "items" ||
                word == "additionalProperties" || word == "minimum" || word == "description")
        << "what does " << word << " mean?";
  const Json& type = schema.at("type", at);
  const Json::Array types = type.is(Json::Kind::kArray) ? type.array("") : Json::Array{type};
  if (std::none_of(types.begin(), types.end(),
                   [&](const Json& one) { return has_type(value, one.text("")); }))
    return at + " is no " + to_text(type) + ": " + to_text(value).substr(0, 80);
  if (const Json* least = schema.find("minimum"); least && !value.is_null())
    if (value.number("") < least->number("")) return at + " is too small: " + to_text(value);
  if (value.is(Json::Kind::kArray) && schema.find("items")) {
    std::size_t i = 0;
    for (const Json& one : value.array(""))
      if (std::string what =
              misfit(described, schema.at("items", ""), one, at + "[" + std::to_string(i++) + "]");
          !what.empty())
        return what;
  }
  return value.is(Json::Kind::kObject) ? members_misfit(described, schema, value, at) : "";
}

}  // namespace trireme::test
