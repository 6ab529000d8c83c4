// Stands in for framework/backend/cpu in builds without it.
#include "framework/backend/backend.h"
#include "framework/base/error.h"

namespace trireme {

std::unique_ptr<Backend> make_cpu_backend(std::shared_ptr<MemoryLedger>, int) {
  fail(
      "device.kind = cpu: this build has no cpu backend (sanitizer builds leave it out); use "
      "device.kind = reference");
}

bool cpu_multiplies_bf16() { return false; }

}  // namespace trireme
