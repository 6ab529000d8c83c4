#include "framework/data/tokenizers/byte_alphabet.h"

#include <array>

#include "framework/data/tokenizers/utf8.h"

namespace trireme {

namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<std::array<char, 2>, 256> letters{};  // one or two bytes of UTF-8
  std::array<std::int16_t, 0x144> bytes{};         // by letter, -1: none
};

constexpr Alphabet make_alphabet() {
  Alphabet a;
  for (auto& byte : a.bytes) byte = -1;
  unsigned other = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned letter = stands_for_itself(byte) ? byte : other++;
    a.bytes[letter] = static_cast<std::int16_t>(byte);
    if (letter < 0x80)
      a.letters[byte] = {static_cast<char>(letter), 0};
    else
      a.letters[byte] = {static_cast<char>(0xC0 | letter >> 6),
                         static_cast<char>(0x80 | (letter & 0x3F))};
  }
  return a;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string_view byte_letter(std::uint8_t byte) {
  const auto& letter = kAlphabet.letters[byte];
  return {letter.data(), letter[1] == 0 ? std::size_t{1} : std::size_t{2}};
}

void append_byte_letters(std::string_view bytes, std::string& into) {
  for (const char byte : bytes) into += byte_letter(static_cast<std::uint8_t>(byte));
}

int byte_of_letter(char32_t letter) {
  return letter < kAlphabet.bytes.size() ? kAlphabet.bytes[letter] : -1;
}

bool append_bytes_of_letters(std::string_view letters, std::string& into) {
  const std::size_t before = into.size();
  for (std::size_t at = 0; at < letters.size();) {
    const CodePoint c = code_point_at(letters, at);
    const int byte = byte_of_letter(c.value);
    if (byte < 0) {
      into.resize(before);
      return false;
    }
    into += static_cast<char>(byte);
    at += c.bytes;
  }
  return true;
}

}  // namespace trireme
