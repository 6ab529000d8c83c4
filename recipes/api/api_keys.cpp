#include "recipes/api/api_keys.h"

#include <algorithm>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::size_t kLeastBytes = 16;

// Looks at every byte of the given one, whatever it finds.
bool equal(std::string_view key, std::string_view given) {
  unsigned differs = key.size() == given.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i)
    differs |= static_cast<unsigned>(static_cast<unsigned char>(given[i]) ^
                                     static_cast<unsigned char>(key[i % key.size()]));
  return differs == 0;
}

}  // namespace

std::string_view bearer_of(std::string_view authorization) {
  constexpr std::string_view kScheme = "Bearer ";
  return authorization.starts_with(kScheme) ? authorization.substr(kScheme.size())
                                            : std::string_view();
}

std::int64_t find_key(const std::vector<std::string>& keys, std::string_view given) {
  std::int64_t found = -1;
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (!keys[i].empty() && equal(keys[i], given)) found = static_cast<std::int64_t>(i);
  return found;
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
