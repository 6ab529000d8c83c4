// The members of config.json, asked for one by one: what nobody asked for is told at the end.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "framework/base/json/json.h"

namespace trireme {

class ConfigFields {
 public:
  ConfigFields(const Json& config, std::string name) : config_(config), name_(std::move(name)) {}

  // Whether it is there at all, be it null.
  bool has(const std::string& key) const { return config_.find(key) != nullptr; }
  // Null if absent or null.
  const Json* find(const std::string& key);
  std::int64_t integer(const std::string& key, std::int64_t least = 1);
  std::int64_t integer_or(const std::string& key, std::int64_t otherwise);
  double number_or(const std::string& key, double otherwise);
  bool boolean_or(const std::string& key, bool otherwise);
  std::string text_or(const std::string& key, const std::string& otherwise);
  // Changes nothing, whatever it is.
  void ignore(const std::vector<std::string>& keys) { used_.insert(keys.begin(), keys.end()); }
  // Only this value, or none, is supported.
  void expect(const std::string& key, const Json& only);

  void problem(const std::string& text) { problems_.push_back(text); }
  // Throws Error with all problems, and all members that were not asked for and are not null.
  void finish() const;
  std::string what(const std::string& key) const { return name_ + ": " + key; }

 private:
  const Json& config_;
  std::string name_;
  std::set<std::string> used_;
  std::vector<std::string> problems_;
};

}  // namespace trireme
