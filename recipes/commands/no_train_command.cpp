// The commands about training of a build for inference only (TRIREME_TRAINER=OFF).
#include "framework/base/error.h"
#include "recipes/commands/process.h"

namespace trireme {

namespace {

[[noreturn]] int refuse(const char* command, const char* verb) {
  throw UsageError(join(command,
                        ": this build is for inference only (generate, chat, serve, bench, "
                        "evaluate); ",
                        verb, " with a whole build: cmake --preset release"));
}

}  // namespace

int train_command(Process&, const CommandLine&) { refuse("train", "train"); }
int memory_command(Process&, const CommandLine&) { refuse("memory", "plan training"); }

}  // namespace trireme
