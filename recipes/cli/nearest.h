// The word that was probably meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Fewest insertions, deletions, replacements and swaps of neighbours that make `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, or "" if all differ in more than half of their letters. The
// first one wins a tie.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

// The full name of the key nearest to `word`, which may lack its section or have a wrong one;
// "" if nothing is near.
std::string nearest_key(std::string_view word);

}  // namespace trireme
