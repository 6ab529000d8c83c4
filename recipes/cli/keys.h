// The key table: every key of a recipe, once. Parsing, validation of single values, help, the
// resolved recipe and the documentation all read it; nothing else knows a key's name or range.
//
// The table is data (keys_*.cpp). A new key is one row and one member of Recipe; a feature that
// arrives is one value more in `supported`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "recipes/cli/recipe.h"

namespace trireme {

enum class KeyType : std::uint8_t {
  kCount,   // whole number: 12, 25k, 1e6
  kSize,    // bytes: 64MiB, 2GiB, 1e6
  kNumber,  // 3e-4
  kBool,    // true, on, yes, 1 or false, off, no, 0
  kChoice,  // one of `values`
  kCounts,  // whole numbers with commas between them
  kText,
  kPath,    // of a file or folder, kept as written
  kSteps,   // A:B or A
  kRanges,  // 7 or 100-200,350-360: whole numbers from 1
};

// Where the value lives. The alternative fits the type: kCount and kSize int64, kChoice, kText,
// kPath, kSteps and kRanges string.
using Binding = std::variant<std::int64_t& (*)(Recipe&), double& (*)(Recipe&), bool& (*)(Recipe&),
                             std::string& (*)(Recipe&), std::vector<std::int64_t>& (*)(Recipe&)>;

struct Key {
  std::string_view section, name;
  KeyType type = KeyType::kText;
  Binding at;
  std::string_view initial;    // default, as text
  std::string_view unit = {};  // "steps"; empty: none
  // Of kCount, kSize, kNumber and each of kCounts.
  double min = 0, max = 9007199254740991.0;
  bool above_min = false, below_max = false;  // the bound itself is not legal
  // A word for 0 (or for no list): "auto", "never", "unlimited". Legal beside the range.
  std::string_view zero_word = {};
  std::vector<std::string_view> values = {};  // of kChoice
  // Values that this version can do, as texts; empty: all. Others are legal in the language of
  // recipes and refused with a sentence.
  std::vector<std::string_view> supported = {};
  bool common = false;  // one of the 25 that --help shows
  std::string_view help;

  std::string full_name() const;    // "optimizer.lr"
  std::string environment() const;  // "TRIREME_OPTIMIZER_LR"
};

struct KeySection {
  std::string_view name, help;
};

std::span<const KeySection> sections();
// In the order of the sections. Built once, never changed.
const std::vector<Key>& keys();
// Null if there is none.
const Key* find_key(std::string_view full_name);
// Every key at its default, unresolved ("auto" is 0).
Recipe default_recipe();

// Rows of the table, by file.
std::vector<Key> model_keys();      // model, data, batch
std::vector<Key> layout_keys();     // parallel, pipeline, recompute, zero, offload
std::vector<Key> training_keys();   // precision, optimizer, train, device
std::vector<Key> lora_keys();       // lora
std::vector<Key> inference_keys();  // inference

}  // namespace trireme
