// Changes of one element of one array on one rank, while nobody computes.
#pragma once

#include <cstdint>
#include <string>

#include "tests/parity/train_layout.h"

namespace trireme::test {

// Of an array of a logical tensor, counted among what this rank holds of it.
struct Place {
  std::string tensor, array;  // array names are those of ReplicatedArray
  std::int64_t element = 0;
};

enum class Change { kUlp, kBit };

// Adds 1 to the bits of the element, or flips the bit of that number. False if this rank holds
// less of the array.
bool change(parity::Rank& rank, const Place& place, Change how, int bit = 0);
// Its index in the logical tensor, row-major; -1 if this rank holds less. And the reverse: has this
// rank that element of an array?
std::int64_t index_of(parity::Rank& rank, const Place& place);
bool holds(parity::Rank& rank, const std::string& tensor, const std::string& array,
           std::int64_t index);
// Flips a bit of the padding at the end of the first unit's weights; false if there is none.
bool flip_padding(parity::Rank& rank);

// What this rank holds: elements by tensor and array.
struct Held {
  std::string tensor, array;
  std::int64_t elements = 0;
  int bits = 0;  // of an element
};
std::vector<Held> held(parity::Rank& rank);

}  // namespace trireme::test
