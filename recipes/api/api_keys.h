// Who may ask: keys of callers and names of hosts. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The key of "Bearer KEY" (the scheme in any case: RFC 9110, 11.1); empty if the field is anything
// else.
std::string_view bearer_of(std::string_view authorization);
// The index of the key that `given` equals, else -1. Its time does not depend on where they differ.
std::int64_t find_key(const std::vector<std::string>& keys, std::string_view given);
// Host without the port: "127.0.0.1:8000" -> "127.0.0.1", "[::1]:80" -> "[::1]", in lower case.
std::string host_name(std::string_view host);
// Keys of a file: one a line; empty lines and those that begin with # count for nothing.
std::vector<std::string> keys_in(std::string_view text);
// Empty, or why a key is none: at least 16 bytes, printable ASCII without blanks.
std::string key_problem(std::string_view key);
bool is_loopback(const std::string& address);

}  // namespace trireme
