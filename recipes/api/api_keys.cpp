#include "recipes/api/api_keys.h"

#include <algorithm>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::size_t kLeastBytes = 16;

// 0 if they are equal. Looks at every byte of the given one, whatever it finds; neither a branch
// nor an address depends on a byte (tests/recipes/keys).
std::uint64_t difference(std::string_view key, std::string_view given) {
  std::uint64_t differs = key.size() ^ given.size();
  for (std::size_t i = 0; i < given.size(); ++i)
    differs |= static_cast<std::uint64_t>(static_cast<unsigned char>(given[i]) ^
                                          static_cast<unsigned char>(key[i % key.size()]));
  return differs;
}

}  // namespace

std::string_view bearer_of(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  const std::string_view scheme = authorization.substr(0, kScheme.size());
  const bool same = std::equal(scheme.begin(), scheme.end(), kScheme.begin(), kScheme.end(),
                               [](char a, char b) { return a == b || (a ^ ' ') == b; });
  return same ? authorization.substr(kScheme.size()) : std::string_view();
}

std::int64_t find_key(const std::vector<std::string>& keys, std::string_view given) {
  std::uint64_t found = 0;  // from 1 on
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].empty()) continue;
    const std::uint64_t differs = difference(keys[i], given);
    const std::uint64_t same = ((differs | (0 - differs)) >> 63) - 1;  // all bits, or none
    found = (found & ~same) | ((i + 1) & same);
  }
  return static_cast<std::int64_t>(found) - 1;
}

std::string host_name(std::string_view host) {
  const std::size_t bracket = host.find(']');
  const std::size_t colon =
      host.find(':', host.starts_with('[') && bracket != std::string_view::npos ? bracket : 0);
  std::string name(host.substr(0, colon));
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return name;
}

std::vector<std::string> keys_in(std::string_view text) {
  std::vector<std::string> keys;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !line.starts_with('#')) keys.emplace_back(line);
    begin = end + 1;
  }
  return keys;
}

std::string key_problem(std::string_view key) {
  if (key.size() < kLeastBytes)
    return join("a key of at least ", kLeastBytes, " characters is expected, it has ", key.size());
  if (std::any_of(key.begin(), key.end(), [](char c) { return c <= ' ' || c > '~'; }))
    return "a key has printable characters of ASCII, and no blanks";
  return {};
}

bool is_loopback(const std::string& address) {
  return address == "::1" || address.starts_with("127.");
}

}  // namespace trireme
