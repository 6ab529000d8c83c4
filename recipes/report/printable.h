// Text that a model made, safe for terminals, logs and JSON.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

// Valid UTF-8 without control characters (C0, DEL, C1), which would command a terminal: each wrong
// byte and each control character becomes U+FFFD. Line ends and tabs stay.
std::string printable(std::string_view text);

}  // namespace trireme
