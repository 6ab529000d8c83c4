// Values of a field of /openapi.json: legal ones, its limits among them, and ones just beyond them
// or of another type. A limit that is told there and not known here fails the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "framework/base/json/json.h"

namespace trireme::test {

struct SchemaValues {
  std::vector<std::string> good, bad;  // as JSON
};

// A whole number or another one, `by` beyond a limit; one beyond 64 bits is written out.
inline std::string beside(const Json& limit, int by) {
  if (!limit.is(Json::Kind::kInteger)) return to_text(Json(limit.number("") + by));
  const std::int64_t value = limit.integer("");
  if (by > 0 && value == std::numeric_limits<std::int64_t>::max()) return "9223372036854775808";
  if (by < 0 && value == std::numeric_limits<std::int64_t>::min()) return "-9223372036854775809";
  return to_text(Json(value + by));
}

inline SchemaValues values_of(const Json& schema);

// Is the value one of this schema? Of what values_of() makes: sizes, types and limits.
inline bool fits(const Json& schema, const Json& value) {
  if (const Json* kinds = schema.find("anyOf")) {
    const Json::Array& all = kinds->array("");
    return std::any_of(all.begin(), all.end(), [&](const Json& kind) { return fits(kind, value); });
  }
  const auto within = [&](std::size_t size, const char* least, const char* most) {
    const Json *a = schema.find(least), *b = schema.find(most);
    const auto n = static_cast<std::int64_t>(size);
    return (!a || n >= a->integer("")) && (!b || n <= b->integer(""));
  };
  const std::string type = schema.at("type", "").text("");
  if (type == "string")
    return value.is(Json::Kind::kString) && within(value.text("").size(), "minLength", "maxLength");
  if (type == "array") {
    if (!value.is(Json::Kind::kArray)) return false;
    const Json::Array& all = value.array("");
    return within(all.size(), "minItems", "maxItems") &&
           std::all_of(all.begin(), all.end(),
                       [&](const Json& one) { return fits(schema.at("items", ""), one); });
  }
  return type == "integer" && value.is(Json::Kind::kInteger) &&
         value.integer("") >= schema.at("minimum", "").integer("");
}
inline bool fits(const Json& schema, const std::string& text) {
  try {
    return fits(schema, parse_json(text, "value"));
  } catch (const std::exception&) {
    return false;  // no number
  }
}

inline std::string repeated_json(const std::string& one, std::int64_t count) {
  std::string all = "[";
  for (std::int64_t i = 0; i < count; ++i) all += (i > 0 ? "," : "") + one;
  return all + "]";
}

inline std::string object_json(const std::string& value, std::int64_t count) {
  std::string all = "{";
  for (std::int64_t i = 0; i < count; ++i)
    all += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":" + value;
  return all + "}";
}

inline SchemaValues numbers_of(const Json& schema, bool whole) {
  SchemaValues v{.good = {"1"}, .bad = {"\"1\"", "true", "{}", "[1]", "1e999"}};
  if (whole) v.bad.insert(v.bad.end(), {"1.5", "9223372036854775808"});
  if (const Json* least = schema.find("minimum")) {
    v.good.push_back(to_text(*least));
    v.bad.push_back(beside(*least, -1));
  }
  if (const Json* above = schema.find("exclusiveMinimum")) v.bad.push_back(to_text(*above));
  if (const Json* most = schema.find("maximum")) {
    v.good.push_back(to_text(*most));
    v.bad.push_back(beside(*most, 1));
  }
  return v;
}

inline SchemaValues strings_of(const Json& schema) {
  SchemaValues v{.good = {}, .bad = {"7", "{}", "true"}};
  const auto text = [](std::int64_t n) {
    return '"' + std::string(static_cast<std::size_t>(n), 's') + '"';
  };
  const Json *least = schema.find("minLength"), *most = schema.find("maxLength");
  v.good.push_back(text(least ? least->integer("") : 4));
  if (least) v.bad.push_back(text(least->integer("") - 1));
  if (most) v.good.push_back(text(most->integer(""))), v.bad.push_back(text(most->integer("") + 1));
  return v;
}

inline SchemaValues arrays_of(const Json& schema) {
  SchemaValues v{.good = {}, .bad = {"7", "{}", "true"}};
  const Json *least = schema.find("minItems"), *most = schema.find("maxItems");
  if (!schema.find("items")) {
    ADD_FAILURE() << "an array of what? " << to_text(schema);
    return v;
  }
  const SchemaValues item = values_of(schema.at("items", ""));
  for (const std::string& one : item.good) v.good.push_back("[" + one + "]");
  for (const std::string& one : item.bad) v.bad.push_back("[" + one + "]");
  const std::string& one = item.good[0];
  if (least) {
    v.good.push_back(repeated_json(one, least->integer("")));
    if (least->integer("") > 0) v.bad.push_back(repeated_json(one, least->integer("") - 1));
  }
  if (most) {
    v.good.push_back(repeated_json(one, most->integer("")));
    v.bad.push_back(repeated_json(one, most->integer("") + 1));
  }
  return v;
}

inline SchemaValues objects_of(const Json& schema) {
  SchemaValues v{.good = {"{}"}, .bad = {"7", "[]", "\"x\""}};
  if (const Json* fields = schema.find("properties")) {
    for (const auto& [name, field] : fields->object("")) {
      const SchemaValues one = values_of(field);
      for (const std::string& good : one.good) v.good.push_back("{\"" + name + "\":" + good + "}");
      for (const std::string& bad : one.bad) v.bad.push_back("{\"" + name + "\":" + bad + "}");
    }
    v.bad.push_back(R"({"unheard_of":1})");
  } else if (const Json* others = schema.find("additionalProperties")) {
    const SchemaValues one = values_of(*others);
    for (const std::string& good : one.good) v.good.push_back("{\"0\":" + good + "}");
    for (const std::string& bad : one.bad) v.bad.push_back("{\"0\":" + bad + "}");
    v.bad.push_back(R"({"x":1})");
    const std::int64_t most = schema.at("maxProperties", "").integer("");
    v.good.push_back(object_json(one.good[0], most));
    v.bad.push_back(object_json(one.good[0], most + 1));
  }
  return v;
}

inline SchemaValues values_of(const Json& schema) {
  static const std::set<std::string> kKnown{
      "type",       "default",      "description", "minimum",       "exclusiveMinimum",
      "maximum",    "minItems",     "maxItems",    "items",         "minLength",
      "maxLength",  "anyOf",        "enum",        "maxProperties", "additionalProperties",
      "properties", "propertyNames"};
  for (const auto& [key, value] : schema.object(""))
    EXPECT_TRUE(kKnown.contains(key)) << "what does " << key << " mean?";
  if (const Json* legal = schema.find("enum")) {
    SchemaValues v{.good = {"null"}, .bad = {"\"something else\"", "7"}};
    for (const Json& one : legal->array("")) v.good.push_back(to_text(one));
    return v;
  }
  if (const Json* kinds = schema.find("anyOf")) {
    SchemaValues all;
    for (const Json& kind : kinds->array("")) {
      const SchemaValues one = values_of(kind);
      all.good.insert(all.good.end(), one.good.begin(), one.good.end());
      all.bad.insert(all.bad.end(), one.bad.begin(), one.bad.end());
    }
    std::erase_if(all.bad, [&](const std::string& bad) { return fits(schema, bad); });
    return all;
  }
  const std::string type = schema.at("type", "").text("");
  if (type == "integer" || type == "number") return numbers_of(schema, type == "integer");
  if (type == "boolean") return {.good = {"true", "false"}, .bad = {"0", "\"true\"", "{}", "[]"}};
  if (type == "string") return strings_of(schema);
  if (type == "array") return arrays_of(schema);
  EXPECT_EQ(type, "object");
  return objects_of(schema);
}

}  // namespace trireme::test
