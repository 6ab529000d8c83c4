#include "recipes/huggingface/config_fields.h"

#include "framework/base/error.h"

namespace trireme {

const Json* ConfigFields::find(const std::string& key) {
  used_.insert(key);
  const Json* found = config_.find(key);
  return found && !found->is_null() ? found : nullptr;
}

std::int64_t ConfigFields::integer(const std::string& key, std::int64_t least) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  used_.insert(key);
  const std::int64_t value = config_.at(key, name_).integer(what(key));
  check(value >= least && value <= kMost, what(key), ": ", value, " is not in ", least, " to ",
        kMost);
  return value;
}

std::int64_t ConfigFields::integer_or(const std::string& key, std::int64_t otherwise) {
  return find(key) ? integer(key) : otherwise;
}

double ConfigFields::number_or(const std::string& key, double otherwise) {
  const Json* found = find(key);
  return found ? found->number(what(key)) : otherwise;
}

bool ConfigFields::boolean_or(const std::string& key, bool otherwise) {
  const Json* found = find(key);
  return found ? found->boolean(what(key)) : otherwise;
}

std::string ConfigFields::text_or(const std::string& key, const std::string& otherwise) {
  const Json* found = find(key);
  return found ? found->text(what(key)) : otherwise;
}

void ConfigFields::expect(const std::string& key, const Json& only) {
  const Json* found = find(key);
  if (found && *found != only)
    problem(join(key, " = ", to_text(*found).substr(0, 200), " is not supported; only ",
                 to_text(only), " is"));
}

void ConfigFields::finish() const {
  std::vector<std::string> all = problems_;
  for (const auto& [key, value] : config_.object(name_))
    if (!used_.contains(key) && !value.is_null())
      all.push_back(join("\"", key, "\": ", to_text(value).substr(0, 200), " is not known"));
  std::string text;
  for (const std::string& one : all) text += "\n  " + one;
  check(all.empty(), name_, ": this model cannot be computed as it was meant:", text);
}

}  // namespace trireme
