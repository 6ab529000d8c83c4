// What must hold of a manifest, whether it was just read or is about to be written.
#pragma once

#include <string>

#include "framework/checkpoint/manifest.h"

namespace trireme {

// A longer one is refused unread. One of 12 TB of states takes 230 MB.
inline constexpr std::int64_t kLongestManifest = std::int64_t{256} << 20;

// Throws Error, beginning with `where`: format, names, places inside files and tensors, counts of
// hashes, one shape and type per array. Not that arrays are covered: check_cover().
void check_manifest(const Manifest& manifest, const std::string& where);

}  // namespace trireme
