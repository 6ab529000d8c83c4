// Preloaded into the program: a rank of mpirun whose requests for tensors' memory (aligned_alloc)
// fail from a moment on. SCARCE_RANK: which rank; SCARCE_BEHIND: counting begins when this path
// exists; SCARCE_AT: the request that fails, once.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace {

bool is_this_rank() {
  const char* chosen = std::getenv("SCARCE_RANK");
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return chosen != nullptr && rank != nullptr && std::strcmp(chosen, rank) == 0;
}

bool strikes() {
  static const bool chosen = is_this_rank();
  static std::atomic<long> requests{0};
  if (!chosen || access(std::getenv("SCARCE_BEHIND"), F_OK) != 0) return false;
  return ++requests == std::atol(std::getenv("SCARCE_AT"));
}

}  // namespace

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  using Allocate = void* (*)(std::size_t, std::size_t);
  static const auto real = reinterpret_cast<Allocate>(dlsym(RTLD_NEXT, "aligned_alloc"));
  return strikes() ? nullptr : real(alignment, bytes);
}
