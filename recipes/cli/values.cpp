#include "recipes/cli/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "framework/base/error.h"

namespace trireme {
namespace {

bool in_range(const Key& key, double value) {
  bool above = key.above_min ? value > key.min : value >= key.min;
  bool below = key.below_max ? value < key.max : value <= key.max;
  return above && below;
}

// Members as values: what assign() made of a text, before it goes into the recipe.
using Value = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>>;

std::optional<Value> whole_value(const Key& key, const std::string& text) {
  auto number = key.type == KeyType::kSize ? parse_size(text) : parse_count(text);
  if (number && *number == 0 && !key.zero_word.empty()) return Value(*number);
  if (!number || !in_range(key, static_cast<double>(*number))) return std::nullopt;
  return Value(*number);
}

// Parts of `text` between commas, without blanks at their ends.
std::vector<std::string> items_of(const std::string& text) {
  std::vector<std::string> items;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    std::size_t end = std::min(text.find(',', begin), text.size());
    std::string item = text.substr(begin, end - begin);
    item.erase(0, item.find_first_not_of(' '));
    item.erase(item.find_last_not_of(' ') + 1);
    items.push_back(item);
    begin = end + 1;
  }
  return items;
}

// Times the largest batch.global, it still counts samples without overflow.
constexpr std::int64_t kMostBatches = 100'000'000'000;

std::optional<std::int64_t> ordinal(std::string_view text) {
  std::int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > kMostBatches)
    return std::nullopt;
  return value;
}

// The language of SkippedBatches (framework/data/samples.h), which knows no blanks.
bool are_ranges(const std::string& text) {
  if (text.empty()) return true;
  if (text.find(' ') != std::string::npos) return false;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  for (const std::string& item : items_of(text)) {
    auto dash = item.find('-');
    auto first = ordinal(std::string_view(item).substr(0, dash));
    auto last =
        dash == std::string::npos ? first : ordinal(std::string_view(item).substr(dash + 1));
    if (!first || !last || *first > *last) return false;
    ranges.emplace_back(*first, *last);
  }
  std::sort(ranges.begin(), ranges.end());
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first <= ranges[i - 1].second) return false;
  return true;
}

std::optional<Value> list_value(const Key& key, const std::string& text) {
  std::vector<std::int64_t> list;
  for (const std::string& item : items_of(text)) {
    auto number = parse_count(item);
    if (!number || !in_range(key, static_cast<double>(*number))) return std::nullopt;
    list.push_back(*number);
  }
  return Value(list);
}

std::optional<Value> text_value(const Key& key, const std::string& text) {
  if (key.type == KeyType::kChoice &&
      std::find(key.values.begin(), key.values.end(), text) == key.values.end())
    return std::nullopt;
  if (key.type == KeyType::kSteps) {
    try {
      parse_step_range(text);
    } catch (const UsageError&) {
      return std::nullopt;
    }
  }
  if (key.type == KeyType::kRanges && !are_ranges(text)) return std::nullopt;
  // A line of recipe.cfg could not hold it.
  if (text.find_first_of("\n\r") != std::string::npos) return std::nullopt;
  return Value(text);
}

std::optional<Value> zero_value(const Key& key) {
  if (key.type == KeyType::kCounts) return Value(std::vector<std::int64_t>());
  if (key.type == KeyType::kNumber) return Value(0.0);
  return Value(std::int64_t{0});
}

std::optional<Value> value_of(const Key& key, const std::string& text) {
  if (!key.zero_word.empty() && text == key.zero_word) return zero_value(key);
  switch (key.type) {
    case KeyType::kCount:
    case KeyType::kSize:
      return whole_value(key, text);
    case KeyType::kNumber: {
      auto number = parse_number(text);
      if (!number || !in_range(key, *number)) return std::nullopt;
      return Value(*number);
    }
    case KeyType::kBool: {
      auto truth = parse_bool(text);
      return truth ? std::optional<Value>(*truth) : std::nullopt;
    }
    case KeyType::kCounts:
      return list_value(key, text);
    case KeyType::kChoice:
    case KeyType::kText:
    case KeyType::kPath:
    case KeyType::kSteps:
    case KeyType::kRanges:
      return text_value(key, text);
  }
  return std::nullopt;
}

std::string shown(const std::string& text) { return text.empty() ? "\"\"" : text; }

std::string supported_words(const Key& key) {
  std::vector<std::string> words;
  for (auto word : key.supported) words.push_back(shown(std::string(word)));
  return one_of(words);
}

std::string bounds(const Key& key, bool whole) {
  auto bound = [&](double value) {
    return whole ? std::to_string(static_cast<std::int64_t>(value)) : number_text(value);
  };
  std::string low = key.above_min ? "above " + bound(key.min) : bound(key.min);
  std::string or_more = key.above_min ? "" : " or more";
  if (key.below_max) return low + or_more + ", below " + bound(key.max);
  if (key.max >= 1e15) return low + or_more;
  return key.above_min ? low + ", at most " + bound(key.max) : low + " to " + bound(key.max);
}

}  // namespace

std::string assign(const Key& key, const std::string& text, Recipe& recipe) {
  auto value = value_of(key, text);
  if (!value) return join(key.full_name(), " = ", shown(text), ": expected ", expected(key));
  Recipe changed = recipe;
  std::visit(
      [&](auto at) {
        using Member = std::remove_reference_t<decltype(at(changed))>;
        at(changed) = std::get<Member>(*value);
      },
      key.at);
  if (!key.supported.empty()) {
    std::string canonical = text_of(key, changed);
    if (std::find(key.supported.begin(), key.supported.end(), canonical) == key.supported.end())
      return join(key.full_name(), " = ", shown(text),
                  " is not supported yet; legal values: ", supported_words(key));
  }
  recipe = std::move(changed);
  return "";
}

std::string text_of(const Key& key, const Recipe& recipe) {
  Recipe copy = recipe;
  struct Printer {
    const Key& key;
    std::string operator()(std::int64_t value) const {
      if (value == 0 && !key.zero_word.empty()) return std::string(key.zero_word);
      return key.type == KeyType::kSize ? size_text(value) : std::to_string(value);
    }
    std::string operator()(double value) const {
      if (value == 0 && !key.zero_word.empty()) return std::string(key.zero_word);
      return number_text(value);
    }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(const std::string& value) const { return value; }
    std::string operator()(const std::vector<std::int64_t>& value) const {
      if (value.empty()) return std::string(key.zero_word);
      std::string text;
      for (auto item : value) text += join(text.empty() ? "" : ",", item);
      return text;
    }
  };
  return std::visit([&](auto at) { return Printer{key}(at(copy)); }, key.at);
}

std::string range_of(const Key& key) {
  std::string text;
  switch (key.type) {
    case KeyType::kCount:
    case KeyType::kCounts:
    case KeyType::kSize:
      text = bounds(key, true);
      break;
    case KeyType::kNumber:
      text = bounds(key, false);
      break;
    case KeyType::kBool:
      return "true, false";
    case KeyType::kChoice:
      for (auto value : key.values) text += join(text.empty() ? "" : ", ", value);
      return text;
    case KeyType::kText:
      return "text";
    case KeyType::kPath:
      return "path";
    case KeyType::kSteps:
      return "A:B";
    case KeyType::kRanges:
      return "A-B,C-D,...";
  }
  return key.zero_word.empty() ? text : text + ", or " + std::string(key.zero_word);
}

std::string expected(const Key& key) {
  std::string unit = key.unit.empty() ? "" : join(" (", key.unit, ")");
  switch (key.type) {
    case KeyType::kCount:
      return "a whole number, " + range_of(key) + unit;
    case KeyType::kCounts:
      return "whole numbers with commas between them, each " + range_of(key) + unit;
    case KeyType::kSize:
      return "a size such as 64MiB or 2GiB, " + range_of(key) + unit;
    case KeyType::kNumber:
      return "a number, " + range_of(key) + unit;
    case KeyType::kBool:
      return "true, on, yes or 1, or false, off, no or 0";
    case KeyType::kChoice: {
      std::vector<std::string> words(key.values.begin(), key.values.end());
      return one_of(words);
    }
    case KeyType::kText:
      return "text on one line";
    case KeyType::kPath:
      return "a path on one line";
    case KeyType::kSteps:
      return "steps such as 10:13 (both included), or nothing";
    case KeyType::kRanges:
      return join("numbers and ranges from 1 to ", kMostBatches,
                  " that do not overlap, such as 7,100-200, or nothing");
  }
  return "";
}

}  // namespace trireme
