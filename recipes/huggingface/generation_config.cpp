#include "recipes/huggingface/generation_config.h"

#include <algorithm>
#include <limits>

#include "framework/base/error.h"
#include "framework/base/json/json.h"

namespace trireme {

namespace {

constexpr char kName[] = "generation_config.json";

void set_member(Json::Object& object, const std::string& key, Json value) {
  for (auto& [name, old] : object)
    if (name == key) {
      old = std::move(value);
      return;
    }
  object.emplace_back(key, std::move(value));
}

// Empty if it is not there, or null.
std::optional<double> number_of(const Json& config, const std::string& path, const char* name,
                                double least, double most) {
  const Json* json = config.find(name);
  if (!json || json->is_null()) return {};
  const std::string what = path + ": " + name;
  const double value = json->number(what);
  check(value >= least && value <= most, what, " = ", value, ": expected a number from ", least,
        " to ", most);
  return value;
}

}  // namespace

DrawingDefaults drawing_defaults_of(Files& files, const std::string& folder) {
  const std::string path = path_join(folder, kName);
  if (!files.exists(path)) return {};
  const Json config = parse_json(read_whole(files, path), path);
  config.object(path);
  DrawingDefaults d{.temperature = number_of(config, path, "temperature", 0, 1000),
                    .top_p = number_of(config, path, "top_p", 1e-12, 1),
                    .min_p = number_of(config, path, "min_p", 0, 1),
                    .repetition_penalty = number_of(config, path, "repetition_penalty", 0.01, 100)};
  if (const auto k = number_of(config, path, "top_k", -1, 1e9)) {
    d.top_k = static_cast<std::int64_t>(*k);
    check(static_cast<double>(*d.top_k) == *k, path, ": top_k = ", *k, ": expected a whole number");
  }
  const Json* samples = config.find("do_sample");
  if (samples && !samples->is_null() && !samples->boolean(path + ": do_sample")) d.temperature = 0;
  return d;
}

std::vector<std::int32_t> end_ids_of(Files& files, const std::string& folder) {
  for (const char* name : {kName, "config.json"}) {
    const std::string path = path_join(folder, name);
    if (!files.exists(path)) continue;
    const Json config = parse_json(read_whole(files, path), path);
    config.object(path);
    const Json* ends = config.find("eos_token_id");
    if (!ends || ends->is_null()) continue;
    const std::string what = path + ": eos_token_id";
    std::vector<std::int32_t> ids;
    const Json::Array list = ends->is(Json::Kind::kArray) ? ends->array(what) : Json::Array{*ends};
    for (const Json& json : list) {
      const std::int64_t id = json.integer(what);
      check(id >= 0 && id <= std::numeric_limits<std::int32_t>::max(), what, ": ", id,
            " is no token id");
      ids.push_back(static_cast<std::int32_t>(id));
    }
    return ids;
  }
  return {};
}

void write_generation_config(Files& files, const std::string& base, const std::string& to,
                             const std::vector<std::int32_t>& ends) {
  const std::string from = path_join(base, kName), path = path_join(to, kName);
  const bool there = !base.empty() && files.exists(from);
  const std::string text = there ? read_whole(files, from) : "{}";
  std::vector<std::int32_t> all;
  if (!base.empty()) all = end_ids_of(files, base);
  const std::size_t said = all.size();
  for (const std::int32_t id : ends)
    if (std::find(all.begin(), all.end(), id) == all.end()) all.push_back(id);
  if (there && all.size() == said) return write_whole_atomically(files, path, text);
  if (all.empty()) return;
  Json::Object config = parse_json(text, from).object(from);
  Json::Array list;
  for (const std::int32_t id : all) list.emplace_back(std::int64_t{id});
  set_member(config, "eos_token_id", std::move(list));
  write_whole_atomically(files, path, to_text(config, 2) + "\n");
}

}  // namespace trireme
