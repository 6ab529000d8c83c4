// Stands in for step_counts.cpp in builds for inference only, where no engine has an optimizer.
#include "recipes/train/step_counts.h"

namespace trireme {

void restore_counts(Engine&, const Manifest&) {}

}  // namespace trireme
