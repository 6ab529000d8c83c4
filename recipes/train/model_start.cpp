#include "recipes/train/model_start.h"

#include <cstring>
#include <set>
#include <sstream>

#include "recipes/huggingface/folder.h"
#include "recipes/train/save_phases.h"

namespace trireme {

namespace {

// Reads what this rank holds; returns the names of its logical tensors, a line each.
std::string read_own(const SaveRank& r, const HfFolder& folder) {
  std::set<std::string> asked;
  load_state(r.engine.optimizer(), r.backend, r.host,
             [&](const ArrayName& name, const Shape& logical, const Rectangle& at, DType dtype,
                 void* out) -> ArrayRead {
               if (name.array == "value") {
                 asked.insert(name.tensor);
                 folder.read(name.tensor, logical, at, dtype, out);
               } else {
                 std::memset(out, 0, static_cast<std::size_t>(at.elements() * size_of(dtype)));
               }
               return nullptr;
             });
  std::string lines;
  for (const std::string& name : asked) lines += name + "\n";
  return lines;
}

std::vector<std::string> names_in(const std::vector<std::string>& told) {
  std::set<std::string> names;
  for (const std::string& lines : told) {
    std::istringstream in(lines);
    for (std::string line; std::getline(in, line);) names.insert(line);
  }
  return {names.begin(), names.end()};
}

}  // namespace

void load_model_folder(const SaveRank& r, Files& files, const std::string& path) {
  std::unique_ptr<HfFolder> folder;
  agreed(r, [&] {
    folder = std::make_unique<HfFolder>(files, path);
    return std::string();
  });
  const std::vector<std::string> told = agreed(r, [&] { return read_own(r, *folder); });
  agreed(r, [&] {
    if (r.mesh.world().rank() == 0)
      folder->expect_all_used(names_in(told), r.engine.options().model.tie_embeddings);
    return std::string();
  });
}

}  // namespace trireme
