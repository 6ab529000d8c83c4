// R30: that comparing a key with the server's takes no branch, and no address, from a key's bytes.
// Run under valgrind's memcheck, to which the keys are undefined: it tells of every jump and every
// address that depends on them. Only what find_key returns is told to it again.
//   key_compare find | plain     plain: a comparison that ends at the first difference
#include <valgrind/memcheck.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "recipes/api/api_keys.h"

int main(int argc, char** argv) {
  const bool plain = argc == 2 && std::strcmp(argv[1], "plain") == 0;
  std::vector<std::string> keys = {"0123456789abcdef", "another key, which is somewhat longer",
                                   "0123456789abcdeF", "short keys have 16"};
  const std::vector<std::pair<std::string, int>> given = {{keys[0], 0},
                                                          {keys[1], 1},
                                                          {keys[2], 2},
                                                          {keys[3], 3},
                                                          {"0123456789abcdeg", -1},
                                                          {"", -1},
                                                          {"0123456789abcde", -1},
                                                          {std::string(8000, 'x'), -1}};
  for (std::string& key : keys) VALGRIND_MAKE_MEM_UNDEFINED(key.data(), key.size());
  for (const auto& [asked, expected] : given) {
    long found = -1;
    if (plain) {
      for (std::size_t i = 0; i < keys.size(); ++i)
        if (keys[i] == asked) found = static_cast<long>(i);
    } else {
      found = static_cast<long>(trireme::find_key(keys, asked));
    }
    VALGRIND_MAKE_MEM_DEFINED(&found, sizeof found);
    if (found != expected) {
      std::printf("%s: key %ld, not %d\n", asked.substr(0, 40).c_str(), found, expected);
      return 1;
    }
  }
  return 0;
}
