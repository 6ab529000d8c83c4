#include "recipes/train/model_stream.h"

#include <map>
#include <set>

#include "recipes/train/save_phases.h"
#include "zero/state_runs.h"

namespace trireme {

namespace {

// A rank's pieces of all units, as extents of the folder's files.
class Extents {
 public:
  explicit Extents(const HfFolder& folder) : folder_(folder) {}

  void add(const Unit& unit, DType dtype) {
    std::vector<FileExtent>& extents = parts.emplace_back();
    if (unit.weights().dtype() != dtype) {
      obstacle = "the model holds them in other bytes (inference.weights)";
      return;
    }
    const Range own = unit.own_shard();
    for (const StateRun& run : state_runs(unit, own)) {
      asked.insert(run.tensor);
      const HfFolder::Stored at = folder_.stored(run.tensor, run.logical, run.at, dtype);
      if (!at.obstacle.empty()) {
        if (obstacle.empty()) obstacle = at.obstacle;
        continue;
      }
      extents.push_back({.file = file(at.path),
                         .offset = at.offset,
                         .bytes = run.flat.size() * size_of(dtype),
                         .at = (run.flat.begin - own.begin) * size_of(dtype)});
    }
  }

  std::vector<std::vector<FileExtent>> parts;
  std::vector<std::string> paths;
  std::set<std::string> asked;
  std::string obstacle;

 private:
  std::size_t file(const std::string& path) {
    const auto [at, fresh] = numbers_.emplace(path, paths.size());
    if (fresh) paths.push_back(path);
    return at->second;
  }
  const HfFolder& folder_;
  std::map<std::string, std::size_t> numbers_;
};

}  // namespace

std::string stream_in_place(const SaveRank& r, const HfFolder& folder, std::string& asked) {
  Extents extents(folder);
  const std::vector<std::string> obstacles = agreed(r, [&] {
    for (const Unit* unit : r.engine.stage().units())
      extents.add(*unit, r.engine.options().stage.compute);
    return extents.obstacle;
  });
  for (const std::string& obstacle : obstacles)
    if (!obstacle.empty()) return obstacle;
  agreed(r, [&] {
    r.engine.place()->read_in_place(*r.engine.stage().stream(), std::move(extents.parts),
                                    extents.paths);
    return std::string();
  });
  for (const std::string& name : extents.asked) asked += name + "\n";
  return {};
}

}  // namespace trireme
