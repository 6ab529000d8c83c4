// The alphabet of byte-level tokenizers: each byte has a printable character, so that any text is a
// string of 256 letters. Bytes !..~, A1..AC and AE..FF stand for themselves, the other 68 are
// U+0100 on, in order (GPT-2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

// The letter of a byte, as UTF-8.
std::string_view byte_letter(std::uint8_t byte);
void append_byte_letters(std::string_view bytes, std::string& into);

// -1: no letter of the alphabet.
int byte_of_letter(char32_t letter);
// Appends the bytes that `letters` stand for; false, and nothing is appended, if one of them is no
// letter of the alphabet.
bool append_bytes_of_letters(std::string_view letters, std::string& into);

}  // namespace trireme
