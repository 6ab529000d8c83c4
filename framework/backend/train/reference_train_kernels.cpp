#include "framework/backend/train/reference_train_kernels.h"

#include "framework/backend/reference_backend.h"

namespace trireme {

std::unique_ptr<TrainKernels> make_reference_train_kernels() {
  return std::make_unique<ReferenceTrainKernels>();
}

}  // namespace trireme
