#include "tests/faults_memory/allocations.h"

#include <dlfcn.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

namespace trireme::test {

namespace {

// Of the process, as memory is; operator new cannot be handed an object.
std::atomic<bool> armed{false};
MemoryFault plan;
std::atomic<std::int64_t> requests{0}, failed{0};
std::array<std::atomic<pthread_t>, 16> spared{};  // 0: nobody

bool strikes(Scarce memory) noexcept {
  if (!armed.load(std::memory_order_acquire) || memory != plan.memory) return false;
  for (const auto& one : spared)
    if (one.load() == pthread_self()) return false;
  const std::int64_t number = requests.fetch_add(1) + 1;
  const bool due = number == plan.at || (plan.sticky && plan.at > 0 && number > plan.at);
  if (due) failed.fetch_add(1);
  return due;
}

}  // namespace

void begin_failing(const MemoryFault& fault) noexcept {
  plan = fault;
  requests = failed = 0;
  armed.store(true, std::memory_order_release);
}

Spared::Spared() noexcept : place_(0) {
  for (;; place_ = (place_ + 1) % spared.size()) {
    pthread_t nobody = 0;
    if (spared[place_].compare_exchange_strong(nobody, pthread_self())) return;
  }
}

Spared::~Spared() { spared[place_] = 0; }

MemoryCount end_failing() noexcept {
  armed.store(false, std::memory_order_release);
  return {requests.load(), failed.load()};
}

}  // namespace trireme::test

using trireme::test::Scarce;
using trireme::test::strikes;

// The other forms of new call this one; their deletes call that one.
void* operator new(std::size_t bytes) {
  void* const memory = strikes(Scarce::kObjects) ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

extern "C" {
void* __real_aligned_alloc(std::size_t alignment, std::size_t bytes);
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return strikes(Scarce::kBlocks) ? nullptr : __real_aligned_alloc(alignment, bytes);
}

// In place of the C library's, for std::thread.
int pthread_create(pthread_t* thread, const pthread_attr_t* traits, void* (*body)(void*),
                   void* given) {
  if (strikes(Scarce::kThreads)) return EAGAIN;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, traits, body, given);
}
}
