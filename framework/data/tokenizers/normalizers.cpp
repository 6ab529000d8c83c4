#include "framework/data/tokenizers/normalizers.h"

#include <algorithm>

#include "framework/base/error.h"
#include "framework/data/tokenizers/json_parts.h"
#include "framework/data/tokenizers/utf8.h"

namespace trireme {

namespace {

using Kind = NormalizerStep::Kind;

std::string_view stripped(std::string_view text, bool left, bool right) {
  const UnicodeClasses& classes = unicode_classes();
  while (left && !text.empty()) {
    const CodePoint c = code_point_at(text, 0);
    if ((classes.of(c.value) & kSpace) == 0) break;
    text.remove_prefix(c.bytes);
  }
  while (right && !text.empty()) {
    const std::size_t last = code_point_before(text, text.size());
    if ((classes.of(code_point_at(text, last).value) & kSpace) == 0) break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

}  // namespace

void append_replaced(std::string_view text, std::string_view from, std::string_view to,
                     std::string& into) {
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, done)) {
    into += text.substr(done, at - done);
    into += to;
    done = at + from.size();
  }
  into += text.substr(done);
}

void Normalizer::add(const Json& json, const std::string& what, int depth) {
  if (json.is_null()) return;
  const std::string type = type_of(json, what);
  if (type == "Sequence") {
    expect_depth(depth, what);
    std::size_t i = 0;
    for (const Json& step : json.at("normalizers", what).array(what + ".normalizers"))
      add(step, join(what, ".normalizers[", i++, "]"), depth + 1);
    return;
  }
  NormalizerStep step;
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    step.form = type == "NFC"    ? NormalForm::kNfc
                : type == "NFD"  ? NormalForm::kNfd
                : type == "NFKC" ? NormalForm::kNfkc
                                 : NormalForm::kNfkd;
    expect_members(json, what, {"type"});
  } else if (type == "Lowercase") {
    step.kind = Kind::kLowercase;
    expect_members(json, what, {"type"});
  } else if (type == "Strip") {
    step.kind = Kind::kStrip;
    step.left = json.at("strip_left", what).boolean(what + ".strip_left");
    step.right = json.at("strip_right", what).boolean(what + ".strip_right");
    expect_members(json, what, {"type", "strip_left", "strip_right"});
  } else if (type == "Prepend") {
    step.kind = Kind::kPrepend;
    step.to = json.at("prepend", what).text(what + ".prepend");
    expect_members(json, what, {"type", "prepend"});
  } else if (type == "Replace") {
    step.kind = Kind::kReplace;
    step.from = literal_pattern(json, what);
    step.to = json.at("content", what).text(what + ".content");
    expect_members(json, what, {"type", "pattern", "content"});
  } else {
    fail(what, ": the normalizer \"", type,
         "\" is not supported; NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace and "
         "Sequence are");
  }
  steps_.push_back(std::move(step));
}

Normalizer Normalizer::read(const Json& json, const std::string& what) {
  Normalizer normalizer;
  normalizer.add(json, what, 0);
  return normalizer;
}

std::string_view Normalizer::apply(std::string_view text, bool continues,
                                   std::string (&buffers)[2]) const {
  int next = 0;
  for (const NormalizerStep& step : steps_) {
    if (step.kind == Kind::kStrip) {
      text = stripped(text, step.left, step.right);
      continue;
    }
    if (step.kind == Kind::kPrepend && (continues || text.empty())) continue;
    std::string& into = buffers[next];
    into.clear();
    if (step.kind == Kind::kForm) {
      append_normalized(step.form, text, into);
    } else if (step.kind == Kind::kLowercase) {
      append_lower_case(text, into);
    } else if (step.kind == Kind::kPrepend) {
      into.append(step.to).append(text);
    } else {
      append_replaced(text, step.from, step.to, into);
    }
    text = into;
    next = 1 - next;
  }
  return text;
}

bool Normalizer::is_local() const {
  return std::all_of(steps_.begin(), steps_.end(), [](const NormalizerStep& step) {
    return step.kind != Kind::kStrip && (step.kind != Kind::kReplace || step.from.size() == 1);
  });
}

char32_t Normalizer::ascii(char c) const {
  std::string buffers[2];
  const std::string one(1, c);
  const std::string_view text = apply(one, true, buffers);
  if (text.empty()) return kNoCodePoint;
  const CodePoint found = code_point_at(text, 0);
  return found.bytes == text.size() ? found.value : kNoCodePoint;
}

}  // namespace trireme
