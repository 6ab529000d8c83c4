// Stands in for framework/backend/train in builds for inference only (TRIREME_TRAINER=OFF).
#include "framework/backend/reference_backend.h"

namespace trireme {

std::unique_ptr<TrainKernels> make_reference_train_kernels() { return nullptr; }

}  // namespace trireme
