// The chat page of `trireme serve`: one file without anything from elsewhere, made of the HTML, CSS
// and JavaScript of this folder when the program is built (join.cmake).
//
// Its policy lets the browser run this script and use this style alone, by their hashes, ask this
// server alone, and build nothing from strings of markup (Trusted Types): a hostile answer is text.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

std::string_view chat_page();
// The value of its Content-Security-Policy.
std::string chat_page_policy();

}  // namespace trireme
