#include "framework/data/tokenizers/decoders.h"

#include "framework/base/error.h"
#include "framework/data/tokenizers/byte_alphabet.h"
#include "framework/data/tokenizers/json_parts.h"
#include "framework/data/tokenizers/normalizers.h"
#include "framework/data/tokenizers/utf8.h"

namespace trireme {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string stripped(std::string_view text, std::string_view c, int left, int right) {
  for (int i = 0; i < left && text.starts_with(c); ++i) text.remove_prefix(c.size());
  for (int i = 0; i < right && text.ends_with(c); ++i) text.remove_suffix(c.size());
  return std::string(text);
}

int count_of(const Json& json, std::string_view key, const std::string& what) {
  const std::string name = join(what, ".", key);
  const std::int64_t count = json.at(key, what).integer(name);
  check(count >= 0 && count <= 1000, name, " = ", count, " is not a number from 0 to 1000");
  return static_cast<int>(count);
}

}  // namespace

int byte_of_stand_in(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const int high = hex_digit(token[3]), low = hex_digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void Decoder::add_strip(const Json& json, const std::string& what) {
  Step step;
  step.kind = Step::Kind::kStrip;
  step.from = json.at("content", what).text(what + ".content");
  step.left = count_of(json, "start", what);
  step.right = count_of(json, "stop", what);
  check(!step.from.empty() && code_point_at(step.from, 0).bytes == step.from.size(), what,
        ".content = ", quoted(step.from), " is not one character");
  expect_members(json, what, {"type", "content", "start", "stop"});
  if (!fused_) {
    steps_.push_back(std::move(step));
    return;
  }
  check(step.right == 0 && step.from == " ", what,
        ": behind Fuse, only blanks at the start are stripped; here is content ", quoted(step.from),
        ", stop ", step.right);
  leading_ += step.left;
}

void Decoder::add(const Json& json, const std::string& what, int depth) {
  const std::string type = type_of(json, what);
  check(!byte_level_, what, ": the decoder \"", type,
        "\" comes behind ByteLevel, which must be the last one");
  if (type == "Sequence") {
    expect_depth(depth, what);
    expect_members(json, what, {"type", "decoders"});
    std::size_t i = 0;
    for (const Json& step : json.at("decoders", what).array(what + ".decoders"))
      add(step, join(what, ".decoders[", i++, "]"), depth + 1);
    return;
  }
  if (type == "Strip") return add_strip(json, what);
  check(!fused_ || type == "Fuse", what, ": the decoder \"", type,
        "\" behind Fuse is not supported; Strip is");
  if (type == "ByteLevel") {
    expect_members(json, what, {"type", "add_prefix_space", "trim_offsets", "use_regex"});
    check(!byte_fallback_, what, ": ByteLevel behind ByteFallback is not supported");
    byte_level_ = true;
  } else if (type == "ByteFallback") {
    expect_members(json, what, {"type"});
    check(!byte_fallback_, what, ": ByteFallback comes twice");
    byte_fallback_ = true;
    fallback_at_ = steps_.size();
  } else if (type == "Fuse") {
    expect_members(json, what, {"type"});
    fused_ = true;
  } else if (type == "Replace") {
    Step step;
    step.from = literal_pattern(json, what);
    step.to = json.at("content", what).text(what + ".content");
    expect_members(json, what, {"type", "pattern", "content"});
    steps_.push_back(std::move(step));
  } else if (type == "Metaspace") {
    Step step;
    step.kind = Step::Kind::kMetaspace;
    step.from = json.at("replacement", what).text(what + ".replacement");
    check(!step.from.empty(), what, ".replacement is empty");
    const Json* scheme = json.find("prepend_scheme");
    step.prefixed = scheme ? scheme->text(what + ".prepend_scheme") != "never"
                           : boolean_or(json, "add_prefix_space", what, true);
    expect_members(
        json, what,
        {"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    first_differs_ = first_differs_ || step.prefixed;
    steps_.push_back(std::move(step));
  } else {
    fail(what, ": the decoder \"", type,
         "\" is not supported; ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace and "
         "Sequence are");
  }
}

Decoder Decoder::read(const Json& json, const std::string& what) {
  Decoder decoder;
  if (json.is_null())
    decoder.separated_ = true;
  else
    decoder.add(json, what, 0);
  return decoder;
}

TokenPiece::Kind Decoder::append_piece(std::string_view token, bool first,
                                       std::string& into) const {
  std::string text(token), changed;
  for (std::size_t i = 0; i <= steps_.size(); ++i) {
    if (byte_fallback_ && i == fallback_at_) {
      if (const int byte = byte_of_stand_in(text); byte >= 0) {
        into += static_cast<char>(byte);
        return TokenPiece::Kind::kByte;
      }
    }
    if (i == steps_.size()) break;
    const Step& step = steps_[i];
    changed.clear();
    switch (step.kind) {
      case Step::Kind::kReplace:
        append_replaced(text, step.from, step.to, changed);
        break;
      case Step::Kind::kStrip:
        changed = stripped(text, step.from, step.left, step.right);
        break;
      case Step::Kind::kMetaspace:
        append_replaced(text, step.from, first && step.prefixed ? "" : " ", changed);
        break;
    }
    text.swap(changed);
  }
  if (!byte_level_) {
    into += text;
    return TokenPiece::Kind::kText;
  }
  if (!append_bytes_of_letters(text, into)) into += text;
  return TokenPiece::Kind::kBytes;
}

}  // namespace trireme
