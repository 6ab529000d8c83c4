// The train command of a build for inference only (TRIREME_TRAINER=OFF).
#include "framework/base/error.h"
#include "recipes/commands/process.h"

namespace trireme {

int train_command(Process&, const CommandLine&) {
  throw UsageError(
      "train: this build is for inference only (generate, chat, serve, bench, evaluate); train "
      "with "
      "a whole build: cmake --preset release");
}

}  // namespace trireme
