#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "framework/base/error.h"
#include "framework/base/json/json.h"

namespace trireme {

namespace {

// "NAME:LINE:COLUMN: " of a byte of the text, both from 1.
std::string place_of(std::string_view name, std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n');
  const std::size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1;
  return join(name, ":", line, ":", column, ": ");
}

// What the library says without its own name and position.
std::string reason_of(const nlohmann::detail::exception& error) {
  std::string text = error.what();
  if (const std::size_t at = text.find("syntax error"); at != std::string::npos)
    text = text.substr(at);
  else if (const std::size_t bracket = text.find("] "); bracket != std::string::npos)
    text = text.substr(bracket + 2);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 32; }, ' ');
  constexpr std::size_t kLongest = 300;  // it repeats what was read last, be it megabytes
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

// The tree is built from events, so that limits are met before memory is taken. Positions are not
// told with events: a limit's sentence names the limit and what was open.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Builder(std::string_view text, std::string_view name, const JsonLimits& limits)
      : text_(text), name_(name), limits_(limits) {}

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(number_integer_t value) override { return add(Json(std::int64_t{value})); }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
    if (value > static_cast<number_unsigned_t>(kLargest))
      return add(Json(static_cast<double>(value)));
    return add(Json(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t&) override { return add(Json(value)); }
  bool string(string_t& value) override { return add(Json(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool key(string_t& value) override {
    keys_.back() = std::move(value);
    return true;
  }
  bool end_object() override {
    expect_distinct(objects_.back());
    Json done(std::move(objects_.back()));
    return close(std::move(done));
  }
  bool end_array() override {
    Json done(std::move(arrays_.back()));
    return close(std::move(done));
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    fail(place_of(name_, text_, position > 0 ? position - 1 : 0), reason_of(error));
  }

  Json result() { return std::move(root_); }

 private:
  bool open(bool object) {
    check(static_cast<int>(is_object_.size()) < limits_.depth, name_, ": more than ", limits_.depth,
          " levels of nesting", path());
    count();
    is_object_.push_back(object);
    objects_.emplace_back();
    arrays_.emplace_back();
    keys_.emplace_back();
    return true;
  }

  bool close(Json done) {
    is_object_.pop_back();
    objects_.pop_back();
    arrays_.pop_back();
    keys_.pop_back();
    --values_;  // counted when it was opened
    return add(std::move(done));
  }

  bool add(Json value) {
    count();
    if (is_object_.empty())
      root_ = std::move(value);
    else if (is_object_.back())
      objects_.back().emplace_back(std::move(keys_.back()), std::move(value));
    else
      arrays_.back().push_back(std::move(value));
    return true;
  }

  void count() {
    if (++values_ > limits_.values) fail(name_, ": more than ", limits_.values, " values", path());
  }

  void expect_distinct(const Json::Object& members) const {
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const Json::Member& member : members) names.emplace_back(member.first);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end())
      fail(name_, ": the key \"", *twice, "\" comes twice in one object", path());
  }

  // " in model.vocab": the keys that are open.
  std::string path() const {
    std::string text;
    for (std::size_t i = 0; i < keys_.size() && i < 8; ++i)
      if (is_object_[i] && !keys_[i].empty()) text += (text.empty() ? "" : ".") + keys_[i];
    return text.empty() ? text : " in " + text;
  }

  std::string_view text_, name_;
  const JsonLimits& limits_;
  // One of each for every open array or object; the unused one stays empty.
  std::vector<bool> is_object_;
  std::vector<Json::Object> objects_;
  std::vector<Json::Array> arrays_;
  std::vector<std::string> keys_;
  std::int64_t values_ = 0;
  Json root_;
};

// The parser takes a NUL byte for the end of the text, whatever stands behind it.
void expect_no_nul(std::string_view text, std::string_view name) {
  const std::size_t at = text.find('\0');
  if (at == std::string_view::npos) return;
  const std::string_view before = text.substr(0, at);
  const std::size_t line = before.rfind('\n');
  fail(name, ":", 1 + std::count(before.begin(), before.end(), '\n'), ":",
       line == std::string_view::npos ? at + 1 : at - line, ": a NUL byte is no JSON");
}

}  // namespace

Json parse_json(std::string_view text, std::string_view name, const JsonLimits& limits) {
  check(static_cast<std::int64_t>(text.size()) <= limits.bytes, name, ": ", text.size(),
        " bytes of JSON; at most ", limits.bytes, " are read");
  expect_no_nul(text, name);
  Builder builder(text, name, limits);
  check(nlohmann::json::sax_parse(text.begin(), text.end(), &builder), name, ": no JSON");
  return builder.result();
}

}  // namespace trireme
