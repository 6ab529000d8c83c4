// The commit record of a checkpoint: what files belong to it, what lies where in them, and the hash
// of everything. Written last, as JSON with a hash of itself; verified before libhdf5 or anybody
// else opens another file. A folder without a good manifest is no checkpoint.
//
// Scalars are what training needs besides tensors: kept as text so that every bit comes back.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/checkpoint/checkpoint_writer.h"

namespace trireme {

struct Manifest {
  int format = 1;
  std::string run;        // id of the run that wrote it
  std::int64_t step = 0;  // optimizer attempts done
  std::string layout;     // for people: "data 2 x pipeline 2 x tensor 1, zero 3"
  std::string recipe;     // the whole resolved recipe.cfg
  std::map<std::string, std::string> scalars;  // "steps_taken" = "500", "loss_scale" = "65536", ...
  std::vector<StoredFile> files;

  // Integers in decimal, doubles as hexadecimal floats (decimal ones are understood, too). Throws
  // Error naming a key that is absent or not such a number.
  std::int64_t integer(const std::string& key) const;
  double number(const std::string& key) const;
  void set_integer(const std::string& key, std::int64_t value);
  void set_number(const std::string& key, double value);
};

inline constexpr char kManifestName[] = "manifest.json";

// Throws Error for what decode_manifest() would not take, text that is not UTF-8 included.
std::string encode(const Manifest& manifest);
// Throws Error with a sentence for text that is not a manifest of this format or whose own hash
// differs, and for every text but the one that encode() makes. Sizes, offsets, names ("../x",
// absolute ones) and rectangles are checked too: nothing in it can point outside the folder,
// outside a file or outside a tensor.
Manifest decode_manifest(const std::string& text, const std::string& path);

// Throws Error naming the first element of an array that is missing, or in two pieces.
void check_cover(const Manifest& manifest, const std::string& path);

}  // namespace trireme
