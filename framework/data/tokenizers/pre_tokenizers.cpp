#include "framework/data/tokenizers/pre_tokenizers.h"

#include <algorithm>

#include "framework/base/error.h"
#include "framework/data/tokenizers/json_parts.h"
#include "framework/data/tokenizers/normalizers.h"
#include "framework/data/tokenizers/utf8.h"

namespace trireme {

namespace {

using Kind = PreTokenizerStep::Kind;
using Behavior = PreTokenizerStep::Behavior;
using Prefix = PreTokenizerStep::Prefix;

struct Stretch {
  std::size_t begin, end;
  bool match;
};

// Matches and what lies between them, whole and in order.
std::vector<Stretch> literal_stretches(std::string_view text, std::string_view literal) {
  std::vector<Stretch> found;
  std::size_t done = 0;
  while (done < text.size()) {
    const std::size_t at = std::min(text.find(literal, done), text.size());
    if (at > done) found.push_back({done, at, false});
    if (at < text.size()) found.push_back({at, at + literal.size(), true});
    done = at + literal.size();
  }
  return found;
}

std::vector<Stretch> digit_stretches(std::string_view text) {
  const UnicodeClasses& classes = unicode_classes();
  std::vector<Stretch> found;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    const bool digit = (classes.of(c.value) & kNumber) != 0;
    if (digit || found.empty() || found.back().match)
      found.push_back({at, at + c.bytes, digit});
    else
      found.back().end = at + c.bytes;
    at += c.bytes;
  }
  return found;
}

// As the `tokenizers` package joins them: one match only goes to the neighbour, a second one in a
// row stays alone.
std::vector<Stretch> merged_backwards(const std::vector<Stretch>& all) {
  std::vector<Stretch> merged;
  bool match_before = false;
  for (const Stretch& s : all) {
    if (s.match && !match_before && !merged.empty())
      merged.back().end = s.end;
    else
      merged.push_back(s);
    match_before = s.match;
  }
  return merged;
}

std::vector<Stretch> merged_forwards(const std::vector<Stretch>& all) {
  std::vector<Stretch> merged;
  bool match_behind = false;
  for (auto s = all.rbegin(); s != all.rend(); ++s) {
    if (s->match && !match_behind && !merged.empty())
      merged.back().begin = s->begin;
    else
      merged.push_back(*s);
    match_behind = s->match;
  }
  std::reverse(merged.begin(), merged.end());
  return merged;
}

std::vector<Stretch> behave(std::vector<Stretch> all, Behavior behavior) {
  switch (behavior) {
    case Behavior::kIsolated:
      break;
    case Behavior::kRemoved:
      std::erase_if(all, [](const Stretch& s) { return s.match; });
      break;
    case Behavior::kMergedWithPrevious:
      return merged_backwards(all);
    case Behavior::kMergedWithNext:
      return merged_forwards(all);
    case Behavior::kContiguous: {
      std::vector<Stretch> merged;
      for (const Stretch& s : all) {
        if (!merged.empty() && merged.back().match == s.match)
          merged.back().end = s.end;
        else
          merged.push_back(s);
      }
      return merged;
    }
  }
  return all;
}

Behavior behavior_of(const Json& json, const std::string& what) {
  const std::string& name = json.at("behavior", what).text(what + ".behavior");
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  fail(what, ".behavior = ", quoted(name),
       " is not supported; Isolated, Removed, MergedWithPrevious, MergedWithNext and Contiguous "
       "are");
}

}  // namespace

// One text on its way through the steps.
class PreTokenizer::Run {
 public:
  Run(const PreTokenizer& all, bool continues, std::vector<std::string>& scratch, WordSink& sink)
      : all_(all),
        classes_(unicode_classes()),
        continues_(continues),
        scratch_(scratch),
        sink_(sink) {}

  void take(std::size_t step, std::string_view piece, bool at_start) {
    if (piece.empty()) return;
    if (step == all_.steps_.size()) return sink_.take(piece);
    const PreTokenizerStep& s = all_.steps_[step];
    switch (s.kind) {
      case Kind::kWords:
        return words(step, s.pattern, piece, at_start);
      case Kind::kSplit: {
        std::vector<Stretch> found = literal_stretches(piece, s.literal);
        if (s.invert)
          for (Stretch& stretch : found) stretch.match = !stretch.match;
        return stretches(step, piece, at_start, behave(std::move(found), s.behavior));
      }
      case Kind::kDigits:
        return stretches(step, piece, at_start,
                         behave(digit_stretches(piece),
                                s.individual ? Behavior::kIsolated : Behavior::kContiguous));
      case Kind::kByteLevel:
        if (s.prefix == Prefix::kAlways && !goes_on(step, at_start) && piece[0] != ' ')
          piece = prefixed(step, " ", piece);
        return s.pattern ? words(step, s.pattern, piece, at_start)
                         : take(step + 1, piece, at_start);
      case Kind::kMetaspace:
        return metaspace(step, s, piece, at_start);
    }
  }

 private:
  // Is this the beginning of a text that goes on from another, which was one piece with it here?
  bool goes_on(std::size_t step, bool at_start) const {
    return continues_ && at_start && static_cast<int>(step) <= std::max(0, all_.line_step_);
  }

  std::string_view prefixed(std::size_t step, std::string_view prefix, std::string_view piece) {
    scratch_[step].assign(prefix).append(piece);
    return scratch_[step];
  }

  void words(std::size_t step, WordPattern pattern, std::string_view piece, bool at_start) {
    const bool last = step + 1 == all_.steps_.size();
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t end = pattern(classes_, piece, at);
      if (last)
        sink_.take(piece.substr(at, end - at));
      else
        take(step + 1, piece.substr(at, end - at), at_start && at == 0);
      at = end;
    }
  }

  void stretches(std::size_t step, std::string_view piece, bool at_start,
                 const std::vector<Stretch>& found) {
    for (const Stretch& s : found)
      take(step + 1, piece.substr(s.begin, s.end - s.begin), at_start && s.begin == 0);
  }

  void metaspace(std::size_t step, const PreTokenizerStep& s, std::string_view piece,
                 bool at_start) {
    std::string& text = scratch_[step];
    text.clear();
    const bool wanted = s.prefix == Prefix::kAlways || (s.prefix == Prefix::kFirst && at_start);
    if (wanted && !goes_on(step, at_start) && piece[0] != ' ' && !piece.starts_with(s.literal))
      text = s.literal;
    append_replaced(piece, " ", s.literal, text);
    if (!s.split) return take(step + 1, text, at_start);
    stretches(step, text, at_start, merged_forwards(literal_stretches(text, s.literal)));
  }

  const PreTokenizer& all_;
  const UnicodeClasses& classes_;
  bool continues_;
  std::vector<std::string>& scratch_;
  WordSink& sink_;
};

void PreTokenizer::cut(std::string_view text, bool at_start, bool continues,
                       std::vector<std::string>& scratch, WordSink& sink) const {
  if (scratch.size() < steps_.size()) scratch.resize(steps_.size());
  Run(*this, continues, scratch, sink).take(0, text, at_start);
}

bool PreTokenizer::cuts_only_at_blanks(char32_t blank) const {
  return std::all_of(steps_.begin(), steps_.end(), [&](const PreTokenizerStep& s) {
    return (s.kind == Kind::kSplit && s.literal == " " && blank != ' ') ||
           (s.kind == Kind::kMetaspace && steps_.size() == 1);
  });
}

char32_t PreTokenizer::seen_for(char32_t c) const {
  for (const PreTokenizerStep& s : steps_)
    if (s.kind == Kind::kMetaspace && c == ' ') c = code_point_at(s.literal, 0).value;
  return c;
}

void PreTokenizer::add_split(const Json& json, const std::string& what) {
  PreTokenizerStep step;
  step.behavior = behavior_of(json, what);
  step.invert = boolean_or(json, "invert", what, false);
  expect_members(json, what, {"type", "pattern", "behavior", "invert"});
  const Json* regex = json.at("pattern", what).find("Regex");
  if (regex == nullptr) {
    step.kind = Kind::kSplit;
    step.literal = literal_pattern(json, what);
  } else {
    const std::string& text = regex->text(what + ".pattern.Regex");
    const KnownPattern* known = find_word_pattern(text);
    if (known == nullptr)
      fail(what, ".pattern.Regex = \"", text,
           "\" is not supported: the expressions of GPT-2, Llama 3, Qwen 2, Mistral Nemo and "
           "GPT-4o are");
    // Every text is matched whole, so these two are the same.
    const bool kept = step.behavior == (step.invert ? Behavior::kRemoved : Behavior::kIsolated);
    check(kept, what,
          ": with a regular expression, only the behavior Isolated (or Removed and inverted) is "
          "supported");
    step.kind = Kind::kWords;
    step.pattern = known->match;
  }
  steps_.push_back(std::move(step));
}

void PreTokenizer::add_metaspace(const Json& json, const std::string& what) {
  PreTokenizerStep step;
  step.kind = Kind::kMetaspace;
  step.literal = json.at("replacement", what).text(what + ".replacement");
  check(!step.literal.empty() && code_point_at(step.literal, 0).bytes == step.literal.size(), what,
        ".replacement = ", quoted(step.literal), " is not one character");
  step.split = boolean_or(json, "split", what, true);
  if (const Json* scheme = json.find("prepend_scheme")) {
    const std::string& name = scheme->text(what + ".prepend_scheme");
    check(name == "always" || name == "first" || name == "never", what,
          ".prepend_scheme = ", quoted(name), " is not supported; always, first and never are");
    step.prefix = name == "always"  ? Prefix::kAlways
                  : name == "first" ? Prefix::kFirst
                                    : Prefix::kNever;
  } else {
    step.prefix =
        boolean_or(json, "add_prefix_space", what, true) ? Prefix::kAlways : Prefix::kNever;
  }
  expect_members(json, what,
                 {"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  steps_.push_back(std::move(step));
}

void PreTokenizer::add(const Json& json, const std::string& what, int depth) {
  if (json.is_null()) return;
  const std::string type = type_of(json, what);
  check(!byte_level_, what, ": the pre-tokenizer \"", type,
        "\" comes behind ByteLevel, which must be the last one");
  if (type == "Sequence") {
    expect_depth(depth, what);
    expect_members(json, what, {"type", "pretokenizers"});
    std::size_t i = 0;
    for (const Json& step : json.at("pretokenizers", what).array(what + ".pretokenizers"))
      add(step, join(what, ".pretokenizers[", i++, "]"), depth + 1);
  } else if (type == "ByteLevel") {
    PreTokenizerStep step;
    step.kind = Kind::kByteLevel;
    step.prefix =
        boolean_or(json, "add_prefix_space", what, true) ? Prefix::kAlways : Prefix::kNever;
    step.pattern = boolean_or(json, "use_regex", what, true) ? gpt2_pattern().match : nullptr;
    expect_members(json, what, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    byte_level_ = true;
    steps_.push_back(std::move(step));
  } else if (type == "Split") {
    add_split(json, what);
  } else if (type == "Digits") {
    PreTokenizerStep step;
    step.kind = Kind::kDigits;
    step.individual = boolean_or(json, "individual_digits", what, false);
    expect_members(json, what, {"type", "individual_digits"});
    steps_.push_back(std::move(step));
  } else if (type == "Metaspace") {
    add_metaspace(json, what);
  } else {
    fail(what, ": the pre-tokenizer \"", type,
         "\" is not supported; ByteLevel, Split, Digits, Metaspace and Sequence are");
  }
}

PreTokenizer PreTokenizer::read(const Json& json, const std::string& what) {
  PreTokenizer all;
  all.add(json, what, 0);
  for (std::size_t i = 0; i < all.steps_.size() && all.line_step_ < 0; ++i) {
    const PreTokenizerStep& s = all.steps_[i];
    if (s.pattern != nullptr)
      all.line_step_ = static_cast<int>(i);
    else if (s.kind != Kind::kDigits)
      break;
  }
  return all;
}

}  // namespace trireme
