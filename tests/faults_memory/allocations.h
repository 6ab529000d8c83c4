// Memory that runs out at a chosen moment, for the whole process: this test program has operator
// new of its own, and its libraries are linked with --wrap=aligned_alloc, which all memory of
// tensors comes from. libhdf5 and libc take theirs elsewhere and never fail here.
//
// Counted and failing only between begin() and end(), on every thread that is not spared.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::test {

enum class Scarce : std::uint8_t {
  kObjects,  // operator new
  kBlocks,   // aligned_alloc: what Backend::allocate and allocate_on_host take
  kThreads,  // pthread_create
};

struct MemoryFault {
  Scarce memory = Scarce::kObjects;
  std::int64_t at = 0;  // the request that fails, from 1; 0: none, they are only counted
  bool sticky = false;  // that one and all later ones
};

struct MemoryCount {
  std::int64_t requests = 0;
  std::int64_t failed = 0;
};

// While it lives, its thread has all the memory it asks for: the part of a test that is no part of
// what is tested. A few threads at a time.
class Spared {
 public:
  Spared() noexcept;
  ~Spared();
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;

 private:
  std::size_t place_;
};

// Not to be nested.
void begin_failing(const MemoryFault& fault) noexcept;
MemoryCount end_failing() noexcept;

}  // namespace trireme::test
