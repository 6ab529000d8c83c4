#include "recipes/train/step_counts.h"

namespace trireme {

void add_counts(Engine& engine, Manifest& head) {
  const ZeroOptimizer::Progress progress = engine.optimizer().progress();
  head.set_integer("steps_taken", progress.steps_taken);
  head.set_integer("loss_scale_dynamic", engine.options().optimizer.loss_scale.dynamic ? 1 : 0);
  head.set_number("loss_scale", progress.scaler.scale);
  head.set_integer("loss_scale_lives", progress.scaler.lives);
  head.set_integer("loss_scale_good", progress.scaler.good);
}

void restore_counts(Engine& engine, const Manifest& manifest) {
  ZeroOptimizer::Progress progress = engine.optimizer().progress();
  progress.steps_taken = manifest.integer("steps_taken");
  if (engine.options().optimizer.loss_scale.dynamic && manifest.integer("loss_scale_dynamic") == 1)
    progress.scaler = {.scale = manifest.number("loss_scale"),
                       .lives = manifest.integer("loss_scale_lives"),
                       .good = manifest.integer("loss_scale_good")};
  engine.optimizer().restore(progress);
}

}  // namespace trireme
