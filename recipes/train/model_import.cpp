#include "recipes/train/model_import.h"

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "framework/base/error.h"
#include "framework/checkpoint/checkpoint_folder.h"
#include "framework/comm/communicator.h"
#include "recipes/cli/keys.h"
#include "recipes/cli/parse.h"
#include "recipes/cli/values.h"
#include "recipes/huggingface/folder.h"
#include "recipes/train/plan.h"
#include "recipes/train/run_lock.h"
#include "recipes/train/run_start.h"

namespace trireme {

namespace {

// The values of the whole model, each tensor once; f64 where they are stored so.
std::vector<Piece> whole_pieces(const ModelOptions& model, const HfFolder& folder) {
  const std::unique_ptr<Communicator> alone = make_self_communicator();
  BuildContext build{.tensor = {alone.get()}};
  std::vector<ModulePtr> modules;  // a tied table is found in two
  std::set<std::string> seen;
  std::vector<Piece> pieces;
  for (const LayerSpec& layer : layer_list(model)) {
    modules.push_back(layer.build(build));
    modules.back()->visit([&](Parameter& p) {
      for (const Section& section : p.spec().sections) {
        if (!seen.insert(section.name).second) continue;
        const DType dtype =
            folder.stored_type(section.name) == DType::kF64 ? DType::kF64 : DType::kF32;
        LogicalArray array{{section.name, "value"}, section.logical, dtype};
        const Rectangle whole{0, 0, array.rows(), array.columns()};
        pieces.push_back({std::move(array), whole});
      }
    });
  }
  return pieces;
}

void copy_values(const HfFolder& folder, const std::vector<Piece>& pieces, CheckpointWriter& writer,
                 const std::function<void(std::int64_t)>& told) {
  std::vector<std::byte> block;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const LogicalArray& array = pieces[i].array;
    const std::int64_t width = size_of(array.dtype), columns = array.columns();
    const std::int64_t step = std::max<std::int64_t>(1, kHashBlock / (columns * width));
    for (std::int64_t row = 0; row < array.rows(); row += step) {
      const std::int64_t rows = std::min(step, array.rows() - row);
      block.resize(static_cast<std::size_t>(rows * columns * width));
      folder.read(array.name.tensor, array.shape, {row, 0, rows, columns}, array.dtype,
                  block.data());
      writer.write(i, row * columns, rows * columns, block.data());
      told(rows * columns * width);
    }
  }
}

// What a run of no steps would say.
Manifest head_of(Files& files, const Recipe& recipe) {
  Manifest head{.run = new_run_id(files),
                .layout = "import of " + recipe.model.from,
                .recipe = recorded_recipe(recipe)};
  for (const char* count :
       {"tokens", "skipped", "skipped_in_row", "samples", "best_step", "steps_taken",
        "loss_scale_dynamic", "loss_scale_lives", "loss_scale_good"})
    head.set_integer(count, 0);
  head.set_integer("seed", recipe.train.seed);
  head.set_number("best_validation", 0);
  head.set_number("loss", 0);
  head.set_number("loss_scale", 1);
  return head;
}

// Where an import of the same model is, this one is compared with it, every bit, by commit().
void expect_no_other_run(Files& files, const Recipe& recipe) {
  const std::string& run = recipe.train.folder;
  const EarlierRun there = earlier_run(files, run);
  if (!there.any()) return;
  check(there.steps == 0 && there.checkpoints == std::vector<std::int64_t>{0}, run,
        " has a run with steps or checkpoints already; import into another folder");
  const std::string place = CheckpointFolder(files, checkpoints_folder(run)).folder_of(0);
  if (!glance_at_checkpoint(files, place).empty()) return;  // damaged: it gives way
  const Recipe old = parse_recipe(
      {.file = path_join(place, "recipe.cfg"), .text = read_manifest(files, place).recipe});
  for (const Key& key : keys())
    check(key.section != "model" || key.name == "from" || text_of(key, old) == text_of(key, recipe),
          run, " has an import of another model, with model.", key.name, " = ", text_of(key, old),
          " instead of ", text_of(key, recipe), "; import into another folder");
}

// Files that one that was killed was writing.
void remove_unfinished(Files& files, const std::string& run) {
  for (const std::string& name : files.list(run))
    if (name.starts_with("recipe.cfg.tmp-")) files.remove(path_join(run, name));
}

}  // namespace

ImportedModel import_model(
    Files& files, const Recipe& recipe,
    const std::function<void(std::int64_t done, std::int64_t all)>& progress) {
  const std::string& run = recipe.train.folder;
  const HfFolder folder(files, recipe.model.from);
  const ModelOptions model = engine_options(recipe).model;
  const std::vector<Piece> pieces = whole_pieces(model, folder);
  std::vector<std::string> names;
  ImportedModel imported;
  std::int64_t bytes = 0, done = 0;
  for (const Piece& piece : pieces) {
    names.push_back(piece.array.name.tensor);
    imported.parameters += piece.at.elements();
    bytes += piece.at.elements() * size_of(piece.array.dtype);
  }
  folder.expect_all_used(names, model.tie_embeddings);

  files.make_directories(run);
  const RunLock lock(files, run, this_process(files));
  expect_no_other_run(files, recipe);
  remove_unfinished(files, run);
  CheckpointFolder checkpoints(files, checkpoints_folder(run));
  const std::string place = checkpoints.begin(0), recipe_path = path_join(run, "recipe.cfg");
  try {
    const std::int64_t needed = CheckpointWriter::bytes_needed(pieces),
                       free = files.free_space(run);
    check(needed <= free, "import into ", run, ": ", needed, " bytes are needed, but the disk has ",
          free, " free");
    CheckpointWriter writer(files, place, "ranks-0.h5", pieces);
    copy_values(folder, pieces, writer, [&](std::int64_t more) {
      if (progress) progress(done += more, bytes);
    });
    Manifest head = head_of(files, recipe);
    head.files.push_back(writer.finish());
    // The checkpoint is the last thing to appear; one that is there already is compared first.
    const bool again = !checkpoints.steps().empty();
    if (!again) write_whole_atomically(files, recipe_path, recorded_recipe(recipe));
    checkpoints.commit(head);
    if (again) write_whole_atomically(files, recipe_path, recorded_recipe(recipe));
  } catch (...) {
    checkpoints.discard();
    throw;
  }
  imported.place = checkpoints.folder_of(0);
  return imported;
}

}  // namespace trireme
