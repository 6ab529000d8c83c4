#include "recipes/cli/parse.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "framework/base/error.h"
#include "recipes/cli/ini_file.h"
#include "recipes/cli/keys.h"
#include "recipes/cli/nearest.h"
#include "recipes/cli/validate.h"
#include "recipes/cli/values.h"

namespace trireme {
namespace {

// Applies origins from the weakest to the strongest and remembers where each key's value came from.
class Parser {
 public:
  explicit Parser(const RecipeInput& input) : input_(input), recipe_(default_recipe()) {}

  Recipe run() {
    file();
    environment();
    flags();
    model_folder();
    resolve(recipe_, input_.under_launcher);
    cross();
    if (problems_.empty()) return recipe_;
    std::string text;
    const std::size_t shown = std::min(problems_.size(), kMostProblems);
    for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : "\n") + problems_[i];
    if (shown < problems_.size()) text += join("\nand ", problems_.size() - shown, " more");
    throw UsageError(text);
  }

 private:
  // More than a recipe has; a text taken for a recipe has thousands.
  static constexpr std::size_t kMostProblems = 100;

  void problem(const std::string& origin, const std::string& text) {
    problems_.push_back(origin + ": " + text);
  }

  void unknown(const std::string& origin, const std::string& word) {
    std::string near = nearest_key(word);
    problem(origin,
            "unknown key \"" + word + "\"" +
                (near.empty() ? "; trireme train --help lists the keys" : "; nearest: " + near));
  }

  void set(const Key& key, const std::string& text, const std::string& origin) {
    std::string wrong = assign(key, text, recipe_);
    origins_[key.full_name()] = origin;
    if (wrong.empty()) return;
    problem(origin, wrong);
    ill_.insert(key.full_name());
  }

  void file() {
    IniFile ini = read_ini(input_.text);
    auto at = [&](int line) { return input_.file + ":" + std::to_string(line); };
    std::map<std::string, int> first;
    auto trouble = ini.problems.begin();
    auto troubles_before = [&](int line) {
      for (; trouble != ini.problems.end() && trouble->line < line; ++trouble)
        problem(at(trouble->line), trouble->text);
    };
    for (const auto& entry : ini.entries) {
      troubles_before(entry.line);
      auto [place, fresh] = first.emplace(entry.key, entry.line);
      const Key* key = find_key(entry.key);
      if (!key)
        unknown(at(entry.line), entry.key);
      else if (!fresh)
        problem(at(entry.line),
                entry.key + " is given twice; first in line " + std::to_string(place->second));
      else
        set(*key, entry.value, at(entry.line));
    }
    troubles_before(1 << 30);
  }

  void environment() {
    std::map<std::string, const Key*> known;
    for (const Key& key : keys()) known[key.environment()] = &key;
    for (const auto& [name, value] : input_.environment) {
      auto found = known.find(name);
      if (found != known.end())
        set(*found->second, value, "environment " + name);
      else if (std::string word = key_like(name); !word.empty())
        unknown("environment " + name, word);
    }
  }

  // TRIREME_OPTIMIZER_LRR -> optimizer.lrr; "" when no section is named.
  static std::string key_like(const std::string& name) {
    std::string lower;
    for (char c : name) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (const KeySection& section : sections()) {
      std::string prefix = "trireme_" + std::string(section.name) + "_";
      if (name.starts_with("TRIREME_") && lower.starts_with(prefix))
        return std::string(section.name) + "." + lower.substr(prefix.size());
    }
    return "";
  }

  void flags() {
    for (const Flag& flag : input_.flags) {
      std::string origin = "flag --" + flag.name;
      const Key* key = find_key(flag.name);
      if (!key) {
        unknown(origin, flag.name);
      } else if (flag.value || key->type == KeyType::kBool) {
        set(*key, flag.value.value_or("true"), origin);
      } else {
        problem(origin, flag.name + " needs a value: expected " + expected(*key));
        ill_.insert(flag.name);
      }
    }
  }

  // A recipe that was resolved holds all keys of its model: it needs the folder no more.
  void model_folder() {
    const std::string folder = recipe_.model.from;
    if (folder.empty() || !input_.model_keys_of) return;
    ModelKeys found;
    try {
      found = input_.model_keys_of(folder);
    } catch (const Error& error) {
      const bool resolved = origins_.contains("model.layers") && origins_.contains("model.vocab") &&
                            origins_.contains("model.hidden") && origins_.contains("model.ffn");
      if (!resolved) problem(origins_["model.from"], error.what());
      return;
    }
    for (const auto& [name, value] : found.values) model_key("model." + name, value, found.origin);
    if (recipe_.data.tokenizer == "auto" && !found.tokenizer.empty())
      recipe_.data.tokenizer = found.tokenizer;
  }

  void model_key(const std::string& name, const std::string& value, const std::string& origin) {
    const Key* key = find_key(name);
    if (!key) return problem(origin, name + " = " + value + " is not supported by this version");
    const auto given = origins_.find(name);
    if (given == origins_.end()) return set(*key, value, origin);
    Recipe other = recipe_;
    const std::string wrong = assign(*key, value, other);
    if (!wrong.empty())
      problem(origin, wrong);
    else if (text_of(*key, other) != text_of(*key, recipe_))
      problem(given->second, join(name, " = ", text_of(*key, recipe_), " contradicts ", origin,
                                  ", which makes it ", value));
  }

  void cross() {
    const std::int64_t entries =
        input_.list_entries ? input_.list_entries(recipe_) : recipe_.model.layers + 2;
    CrossCheck check{input_.under_launcher, entries, input_.needs_data};
    for (const auto& found : cross_problems(recipe_, check)) {
      auto ill = [&](const std::string& key) { return ill_.contains(key); };
      if (std::any_of(found.keys.begin(), found.keys.end(), ill)) continue;
      auto told = std::find_if(found.keys.begin(), found.keys.end(),
                               [&](const std::string& key) { return origins_.contains(key); });
      if (told == found.keys.end())
        problems_.push_back(found.text);
      else
        problem(origins_[*told], found.text);
    }
  }

  const RecipeInput& input_;
  Recipe recipe_;
  std::map<std::string, std::string> origins_;  // of keys that are not at their default
  std::set<std::string> ill_;
  std::vector<std::string> problems_;
};

}  // namespace

Recipe parse_recipe(const RecipeInput& input) { return Parser(input).run(); }

RopeScalingWords parse_rope_scaling(const std::string& text) {
  const std::size_t colon = text.find(':');
  RopeScalingWords words{.kind = text.substr(0, colon), .numbers = {}};
  std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1) + ",";
  bool positive = true;
  for (std::size_t comma; (comma = rest.find(',')) != std::string::npos; rest.erase(0, comma + 1)) {
    const auto number = parse_number(std::string_view(rest).substr(0, comma));
    positive = positive && number && *number > 0;
    words.numbers.push_back(number.value_or(0));
  }
  const std::size_t wanted = words.kind == "llama3" ? 4 : words.kind == "linear" ? 1 : 0;
  const bool known = wanted > 0 || text == "none";
  const bool ordered =
      wanted != 4 || words.numbers.size() != 4 || words.numbers[1] < words.numbers[2];
  if (!known || !positive || !ordered || words.numbers.size() != wanted)
    throw UsageError(join("model.rope_scaling = ", text,
                          ": expected none, linear:FACTOR, or llama3:FACTOR,LOW,HIGH,ORIGINAL with "
                          "positive numbers and LOW below HIGH"));
  return words;
}

StepRange parse_step_range(const std::string& text) {
  if (text.empty()) return {};
  auto colon = text.find(':');
  auto begin = parse_count(text.substr(0, colon));
  auto end = colon == std::string::npos ? begin : parse_count(text.substr(colon + 1));
  if (!begin || !end || *begin < 1 || *end < *begin)
    throw UsageError(join("steps ", text, ": expected A:B with 1 <= A <= B, such as 10:13"));
  return {*begin, *end};
}

}  // namespace trireme
