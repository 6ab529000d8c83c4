#include <array>
#include <charconv>
#include <cmath>

#include "framework/base/error.h"
#include "framework/base/json/json.h"

namespace trireme {

namespace {

void write_string(const std::string& text, std::string& out) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (byte >= 32 && byte != 127) {
          out += c;
        } else {
          out += "\\u00";
          out += "0123456789abcdef"[byte >> 4];
          out += "0123456789abcdef"[byte & 15];
        }
    }
  }
  out += '"';
}

void write_number(double value, std::string& out) {
  check(std::isfinite(value), "JSON has no number ", value);
  std::array<char, 32> digits{};
  const double size = std::fabs(value);
  const bool plain = value == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  const std::string_view text(digits.data(), static_cast<std::size_t>(end - digits.data()));
  out += text;
  if (plain && text.find('.') == std::string_view::npos) out += ".0";
}

class Writer {
 public:
  Writer(int indent, std::string& out) : indent_(indent), out_(out) {}

  void write(const Json& value, int level) {
    switch (value.kind()) {
      case Json::Kind::kNull:
        out_ += "null";
        break;
      case Json::Kind::kBoolean:
        out_ += value.boolean("") ? "true" : "false";
        break;
      case Json::Kind::kInteger:
        out_ += std::to_string(value.integer(""));
        break;
      case Json::Kind::kReal:
        write_number(value.number(""), out_);
        break;
      case Json::Kind::kString:
        write_string(value.text(""), out_);
        break;
      case Json::Kind::kArray:
        list('[', value.array(""), level, ']', [&](const Json& item) { write(item, level + 1); });
        break;
      case Json::Kind::kObject:
        list('{', value.object(""), level, '}', [&](const Json::Member& member) {
          write_string(member.first, out_);
          out_ += ": ";
          write(member.second, level + 1);
        });
        break;
    }
  }

 private:
  void new_line(int level) {
    if (indent_ == 0) return;
    out_ += '\n';
    out_.append(static_cast<std::size_t>(indent_ * level), ' ');
  }

  template <typename Items, typename Write>
  void list(char open, const Items& items, int level, char close, const Write& write_item) {
    out_ += open;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += indent_ == 0 ? ", " : ",";
      new_line(level + 1);
      write_item(items[i]);
    }
    if (!items.empty()) new_line(level);
    out_ += close;
  }

  int indent_;
  std::string& out_;
};

}  // namespace

std::string to_text(const Json& value, int indent) {
  std::string out;
  Writer(indent, out).write(value, 0);
  return out;
}

}  // namespace trireme
