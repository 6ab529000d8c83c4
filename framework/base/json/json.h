// JSON (RFC 8259) of strangers: a value tree, read under limits and asked with sentences.
//
// Reading is strict: UTF-8 only, no comments, nothing behind the value, no key twice, no NaN. Depth
// and size are counted before the tree exists, so hostile text ends in an Error, never in a deep
// recursion. Members keep their order. Integers that fit 64 bits stay integers; every other number
// is a double.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trireme {

class Json {
 public:
  enum class Kind : std::uint8_t { kNull, kBoolean, kInteger, kReal, kString, kArray, kObject };
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;

  Json() = default;  // null
  // A copy that throws for want of memory: libstdc++ 12's variant would destroy what it had not
  // begun when it is copied into a new one; it copies right into one that is there.
  Json(const Json& other) { value_ = other.value_; }
  Json(Json&&) noexcept = default;
  Json& operator=(const Json&) = default;
  Json& operator=(Json&&) noexcept = default;
  ~Json() = default;
  Json(bool value) : value_(value) {}
  Json(std::int64_t value) : value_(value) {}
  Json(int value) : value_(std::int64_t{value}) {}
  Json(double value) : value_(value) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(Array values) : value_(std::move(values)) {}
  Json(Object members) : value_(std::move(members)) {}

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_null() const { return is(Kind::kNull); }

  // The value of that kind, else an Error: "config.json: num_heads: an integer is expected, here is
  // the string "12"". `what` is the part before the last colon. number() takes integers too.
  bool boolean(std::string_view what) const;
  std::int64_t integer(std::string_view what) const;
  double number(std::string_view what) const;
  const std::string& text(std::string_view what) const;
  const Array& array(std::string_view what) const;
  const Object& object(std::string_view what) const;

  // The member of that name; null if there is none, or if this is no object.
  const Json* find(std::string_view key) const;
  // The same, else an Error that names the members that are there.
  const Json& at(std::string_view key, std::string_view what) const;

  bool operator==(const Json& other) const = default;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, Array, Object> value_;
};

// "an object", "the string "abc"" (cut to a few words), "null", "3.5".
std::string describe(const Json& value);

struct JsonLimits {
  std::int64_t bytes = std::int64_t{100} << 20;
  std::int64_t values = 20'000'000;
  int depth = 64;
};
// Error: "NAME:LINE:COLUMN: what is wrong there".
Json parse_json(std::string_view text, std::string_view name, const JsonLimits& limits = {});

// indent = 0: one line, `{"a": 1, "b": [1, 2]}` with the separators of Python's json.dumps; else
// that many blanks a level. Text is written as UTF-8; control characters are escaped. Doubles are
// the shortest that read back alike, in Python's form: 500000.0, 1e+16. Error for a number
// that JSON has not (NaN, infinity).
std::string to_text(const Json& value, int indent = 0);

}  // namespace trireme
