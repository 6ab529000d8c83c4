#include "recipes/api/fields.h"

#include <algorithm>
#include <cmath>

namespace trireme {

namespace {

std::string with_value(const Json* value) {
  return value ? ", here is " + describe(*value) : std::string();
}

}  // namespace

std::optional<std::int64_t> whole_number(const Json& value) {
  if (value.is(Json::Kind::kInteger)) return value.integer("");
  constexpr double kExact = 9007199254740992;  // 2^53
  if (!value.is(Json::Kind::kReal)) return std::nullopt;
  const double number = value.number("");
  if (!(std::abs(number) <= kExact) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

Fields::Fields(const Json& value, std::string path) : value_(value), path_(std::move(path)) {
  if (value.is(Json::Kind::kObject)) return;
  const std::string own = path_.substr(0, path_.empty() ? 0 : path_.size() - 1);  // no dot behind
  throw ApiError(
      400,
      join(own.empty() ? "the body" : own, ": an object is expected, here is ", describe(value)),
      own, "invalid_type");
}

void Fields::refuse(const std::string& name, const std::string& expected) const {
  throw ApiError(400, join(path_, name, ": ", expected, with_value(value_.find(name))),
                 path_ + name, "invalid_value");
}

const Json* Fields::take(const std::string& name) {
  asked_.insert(name);
  const Json* found = value_.find(name);
  return found && found->is_null() ? nullptr : found;
}

std::optional<std::int64_t> Fields::integer(const std::string& name, std::int64_t least,
                                            std::int64_t most) {
  const Json* value = take(name);
  if (!value) return std::nullopt;
  const auto number = whole_number(*value);
  if (!number || *number < least || *number > most)
    refuse(name, join("a whole number from ", least, " to ", most, " is expected"));
  return number;
}

std::optional<double> Fields::number(const std::string& name, double least, double most) {
  const Json* value = take(name);
  if (!value) return std::nullopt;
  const bool numeric = value->is(Json::Kind::kInteger) || value->is(Json::Kind::kReal);
  if (!numeric || !(value->number(name) >= least && value->number(name) <= most))
    refuse(name, join("a number from ", least, " to ", most, " is expected"));
  return value->number(name);
}

std::optional<bool> Fields::maybe_flag(const std::string& name) {
  const Json* value = take(name);
  if (!value) return std::nullopt;
  if (!value->is(Json::Kind::kBoolean)) refuse(name, "true or false is expected");
  return value->boolean(name);
}

bool Fields::flag(const std::string& name) { return maybe_flag(name).value_or(false); }

std::optional<std::string> Fields::text(const std::string& name) {
  const Json* value = take(name);
  if (!value) return std::nullopt;
  if (!value->is(Json::Kind::kString)) refuse(name, "a string is expected");
  return value->text(name);
}

std::vector<std::string> Fields::texts(const std::string& name, std::size_t most,
                                       std::size_t bytes) {
  const Json* value = take(name);
  if (!value) return {};
  const std::string expected =
      join("a string, or an array of at most ", most, ", of 1 to ", bytes, " bytes, is expected");
  const Json::Array one{*value};
  const Json::Array& all = value->is(Json::Kind::kArray) ? value->array(name) : one;
  if (all.size() > most)
    throw ApiError(400, join(path_, name, ": ", expected, ", here are ", all.size()), path_ + name,
                   "invalid_value");
  std::vector<std::string> result;
  for (const Json& entry : all) {
    if (!entry.is(Json::Kind::kString) || entry.text(name).empty() ||
        entry.text(name).size() > bytes)
      throw ApiError(400, join(path_, name, ": ", expected, with_value(&entry)), path_ + name,
                     "invalid_value");
    result.push_back(entry.text(name));
  }
  return result;
}

std::vector<std::int32_t> Fields::ids(const std::string& name, std::size_t most,
                                      std::int64_t vocab) {
  const Json* value = take(name);
  if (!value) return {};
  if (!value->is(Json::Kind::kArray)) refuse(name, "an array of token ids is expected");
  if (value->array(name).size() > most)
    throw ApiError(
        400,
        join(path_, name, ": at most ", most, " token ids, here are ", value->array(name).size()),
        path_ + name, "invalid_value");
  return token_ids(*value, path_ + name, vocab);
}

void Fields::only(const std::string& name, const std::vector<Json>& legal) {
  const Json* found = take(name);
  if (!found || std::find(legal.begin(), legal.end(), *found) != legal.end()) return;
  std::string values;
  for (const Json& value : legal) values += (values.empty() ? "" : " or ") + to_text(value);
  throw ApiError(400,
                 join(path_, name, ": this server does not support it; leave it out",
                      values.empty() ? "" : ", or give " + values, with_value(found)),
                 path_ + name, "unsupported_parameter");
}

void Fields::labels(const std::string& name, std::size_t most, std::size_t bytes) {
  const Json* value = take(name);
  if (!value) return;
  const std::string expected =
      join("an object of at most ", most, " strings, of at most ", bytes, " bytes, is expected");
  if (!value->is(Json::Kind::kObject)) refuse(name, expected);
  const Json::Object& all = value->object(name);
  const auto is_label = [&](const Json::Member& member) {
    return member.second.is(Json::Kind::kString) && member.second.text(name).size() <= bytes;
  };
  if (all.size() > most || !std::all_of(all.begin(), all.end(), is_label)) refuse(name, expected);
}

void Fields::end() const {
  for (const auto& [name, value] : value_.object("the body"))
    if (!asked_.contains(name) && !value.is_null())
      throw ApiError(400, join(path_, "\"", name.substr(0, 64), "\" is no field of this request"),
                     path_ + name.substr(0, 64), "unknown_parameter");
}

std::vector<std::int32_t> token_ids(const Json& array, const std::string& what,
                                    std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  for (const Json& entry : array.array(what)) {
    const auto id = whole_number(entry);
    if (!id || *id < 0 || *id >= vocab)
      throw ApiError(
          400, join(what, ": token ids from 0 to ", vocab - 1, " are expected", with_value(&entry)),
          what, "invalid_value");
    ids.push_back(static_cast<std::int32_t>(*id));
  }
  return ids;
}

}  // namespace trireme
