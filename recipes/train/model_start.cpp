#include "recipes/train/model_start.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <sstream>

#include "framework/checkpoint/checkpoint_folder.h"
#include "framework/checkpoint/convert.h"
#include "recipes/huggingface/folder.h"
#include "recipes/train/model_stream.h"
#include "recipes/train/run_start.h"
#include "recipes/train/save_phases.h"

namespace trireme {

namespace {

// Of the values; of a tensor, its shape, what of it, as which type, to where.
using ReadValues =
    std::function<void(const std::string&, const Shape&, const Rectangle&, DType, void*)>;

// A rectangle of an adapter that begins: no model folder has one.
void begin_adapter(const std::string& name, const Shape& logical, const Rectangle& at, DType dtype,
                   std::uint64_t seed, void* out) {
  const Section section{.name = name,
                        .logical = logical,
                        .rows = at.rows,
                        .global_row = at.row,
                        .global_column = at.column};
  std::vector<double> values(static_cast<std::size_t>(at.elements()));
  initial_values(lora_init(name, logical), seed)(section, at.columns, values);
  converter(DType::kF64, dtype)(reinterpret_cast<const std::byte*>(values.data()),
                                static_cast<std::byte*>(out), at.elements());
}

// Reads what this rank holds; returns the names of its logical tensors, a line each.
std::string read_own(const SaveRank& r, const ReadValues& read) {
  std::set<std::string> asked;
  load_state(r.engine.kept(), r.backend, r.host,
             [&](const ArrayName& name, const Shape& logical, const Rectangle& at, DType dtype,
                 void* out) -> ArrayRead {
               if (name.array == "value" && is_adapter(name.tensor)) {
                 begin_adapter(name.tensor, logical, at, dtype, r.engine.options().seed, out);
               } else if (name.array == "value") {
                 asked.insert(name.tensor);
                 read(name.tensor, logical, at, dtype, out);
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

bool is_hf_folder(Files& files, const std::string& path) {
  return files.exists(path_join(path, "config.json"));
}

void load_weights_of(const SaveRank& r, Files& files, const std::string& path) {
  std::string place;
  std::unique_ptr<CheckpointReader> reader;
  agreed(r, [&] {
    place = start_checkpoint(files, path);
    check(!place.empty(), path, ": there is no config.json, and no checkpoint");
    reader = std::make_unique<CheckpointReader>(files, place);
    return std::string();
  });
  const std::vector<std::string> told = agreed(r, [&] {
    return read_own(r, [&](const std::string& tensor, const Shape& shape, const Rectangle& at,
                           DType dtype, void* out) {
      const ArrayName name{tensor, "value"};
      reader->expect_shape(name, shape);
      reader->read(name, at, dtype, out);
    });
  });
  agreed(r, [&] {
    const std::vector<std::string> asked = names_in(told);
    for (const LogicalArray& array : reader->arrays())
      check(array.name.array != "value" ||
                std::binary_search(asked.begin(), asked.end(), array.name.tensor),
            place, " has ", describe(array.name), ", which the recipe's model has not");
    return std::string();
  });
}

}  // namespace

std::string start_checkpoint(Files& files, const std::string& folder) {
  if (files.exists(path_join(folder, kManifestName))) return folder;
  const CheckpointFolder checkpoints(files, checkpoints_folder(folder));
  if (files.status(checkpoints_folder(folder)).kind != FileKind::kDirectory) return {};
  const std::vector<std::int64_t> steps = checkpoints.steps();
  return steps.empty() ? std::string() : checkpoints.folder_of(steps.back());
}

namespace {

// Weights that are streamed from disk come from the folder's files, if these hold them as they are
// wanted: true then. Else they are copied, and there must be room for that.
bool streams_in_place(const SaveRank& r, const HfFolder& folder) {
  const WeightStream* const stream = r.engine.stage().stream();
  if (!stream || stream->tier() != Tier::kDisk) return false;
  std::string asked;
  const std::string obstacle = stream_in_place(r, folder, asked);
  if (!obstacle.empty()) {
    if (!r.engine.place()->has_folder() && stream->streamed().slots_bytes() > 0)
      throw UsageError(
          join("offload.parameters = disk: the weights cannot be read where they lie, ", obstacle,
               "; give --offload.folder a folder with room for a copy"));
    return false;
  }
  const std::vector<std::string> told = agreed(r, [&] { return asked; });
  agreed(r, [&] {
    if (r.mesh.world().rank() == 0)
      folder.expect_all_used(names_in(told), r.engine.options().model.tie_embeddings);
    return std::string();
  });
  return true;
}

}  // namespace

void load_model_folder(const SaveRank& r, Files& files, const std::string& path) {
  if (!is_hf_folder(files, path)) return load_weights_of(r, files, path);
  std::unique_ptr<HfFolder> folder;
  agreed(r, [&] {
    folder = std::make_unique<HfFolder>(files, path);
    return std::string();
  });
  if (streams_in_place(r, *folder)) return;
  const std::vector<std::string> told = agreed(r, [&] {
    return read_own(
        r, [&](const std::string& tensor, const Shape& shape, const Rectangle& at, DType dtype,
               void* out) { folder->read(tensor, shape, at, dtype, out); });
  });
  agreed(r, [&] {
    if (r.mesh.world().rank() == 0)
      folder->expect_all_used(names_in(told), r.engine.options().model.tie_embeddings);
    return std::string();
  });
}

}  // namespace trireme
