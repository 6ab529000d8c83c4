// The fields of a request's object: each is asked for once, with its kind and its legal values; one
// that nobody asked for is refused by name. A field that is null counts as absent. All errors are
// ApiError 400 with the field as param.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/base/json/json.h"
#include "recipes/api/api_error.h"

namespace trireme {

// A whole number, also as 7.0: JSON has one kind of numbers.
std::optional<std::int64_t> whole_number(const Json& value);

class Fields {
 public:
  // `path` stands before names in sentences: "messages[3]." Error if `value` is no object.
  explicit Fields(const Json& value, std::string path = {});

  // Null if absent.
  const Json* take(const std::string& name);
  std::optional<std::int64_t> integer(const std::string& name, std::int64_t least,
                                      std::int64_t most);
  std::optional<double> number(const std::string& name, double least, double most);
  bool flag(const std::string& name);  // false if absent
  std::optional<bool> maybe_flag(const std::string& name);
  std::optional<std::string> text(const std::string& name);
  // A string, or an array of at most `most`, each of 1 to `bytes` bytes.
  std::vector<std::string> texts(const std::string& name, std::size_t most, std::size_t bytes);
  std::vector<std::int32_t> ids(const std::string& name, std::size_t most, std::int64_t vocab);
  // Fields that this server can only do one way: refused unless absent or one of these values.
  void only(const std::string& name, const std::vector<Json>& legal);
  // An object of at most `most` strings of at most `bytes` bytes; without effect.
  void labels(const std::string& name, std::size_t most, std::size_t bytes);
  // Refuses what was not asked for, but for nulls.
  void end() const;

  [[noreturn]] void refuse(const std::string& name, const std::string& expected) const;

 private:
  const Json& value_;
  std::string path_;
  std::set<std::string> asked_;
};

// Token ids of an array; `what` names it.
std::vector<std::int32_t> token_ids(const Json& array, const std::string& what, std::int64_t vocab);

}  // namespace trireme
