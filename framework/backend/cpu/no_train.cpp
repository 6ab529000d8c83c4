// Stands in for framework/backend/cpu/train in builds for inference only (TRIREME_TRAINER=OFF).
#include "framework/backend/cpu/cpu_kernels.h"

namespace trireme {

std::unique_ptr<TrainKernels> make_cpu_train_kernels(Backend&, CpuKernels&, int) { return nullptr; }

}  // namespace trireme
