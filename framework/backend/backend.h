// A device of one rank: memory, copies, kernels.
//
// One Backend object belongs to one rank; its handles, workspaces and primitive caches are members,
// never globals. Only code in backends and communicators touches device memory; everybody else goes
// through the calls here. `kernels()` and `train_kernels()` return a lease: device memory is
// accessible while a lease lives, which lets a test backend protect it at all other times.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "framework/backend/kernels.h"
#include "framework/base/memory_ledger.h"
#include "framework/base/tensor.h"

namespace trireme {

class InferKernels;  // framework/backend/infer_kernels.h

class Backend {
 public:
  // Keeps device memory accessible while alive. Use as a temporary: backend.kernels()->add(a, b,
  // out);
  template <typename T>
  class Lease {
   public:
    Lease(Backend& backend, T& target) : backend_(backend), target_(target) {
      backend_.begin_access();
    }
    ~Lease() { backend_.end_access(); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    T* operator->() const { return &target_; }

   private:
    Backend& backend_;
    T& target_;
  };

  explicit Backend(std::shared_ptr<MemoryLedger> ledger) : ledger_(std::move(ledger)) {}
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;     // "reference", "cpu"
  virtual bool computes(DType dtype) const = 0;  // may matmul operands have this type?
  MemoryLedger& ledger() { return *ledger_; }
  const std::shared_ptr<MemoryLedger>& shared_ledger() const { return ledger_; }

  // Uninitialised, 64-byte aligned device memory, counted under `kind` on the device tier. A tensor
  // of 0 elements is legal and defined. Throws Error when the ledger's limit would be exceeded or
  // memory is exhausted.
  Tensor allocate(Shape shape, DType dtype, MemoryKind kind);
  Tensor zeros(Shape shape, DType dtype, MemoryKind kind);

  // Copies between host memory and a tensor; `bytes()` of the tensor are moved. Synchronous.
  void upload(const void* host, const Tensor& to);
  void download(const Tensor& from, void* host);
  // Device to device, same type and element count. Regions may not overlap.
  void copy(const Tensor& from, const Tensor& to);

  Lease<Kernels> kernels() { return {*this, do_kernels()}; }
  // Error in a build for inference only, which has none.
  Lease<TrainKernels> train_kernels() { return {*this, do_train_kernels()}; }
  Lease<InferKernels> infer_kernels() { return {*this, do_infer_kernels()}; }

  // Where threads of the machine, and files being read, may write to a tensor at any time: on
  // backends whose memory is the machine's. Null: such bytes have to be uploaded.
  virtual std::byte* host_address(const Tensor&) const { return nullptr; }

  // Work of the host on [0, n): f(begin, end) on parts of it, by the threads that this backend
  // computes with; all of it by the caller where it has none on the host. f must not throw.
  virtual void share(std::int64_t n,
                     const std::function<void(std::int64_t begin, std::int64_t end)>& f);

  // Opens and closes access to device memory; calls nest. Used by leases and by communicators.
  virtual void begin_access() {}
  virtual void end_access() {}

 protected:
  // Returns memory for `bytes` > 0 whose Storage gives the bytes back to the allocator and the
  // ledger.
  virtual std::shared_ptr<Storage> do_allocate(std::int64_t bytes, MemoryKind kind) = 0;
  virtual Kernels& do_kernels() = 0;
  virtual TrainKernels& do_train_kernels() = 0;
  virtual InferKernels& do_infer_kernels() = 0;

  // *kernels; Error if there are none.
  static TrainKernels& existing(const std::unique_ptr<TrainKernels>& kernels);

 private:
  std::shared_ptr<MemoryLedger> ledger_;
};

// The oracle: plain loops, every floating type (16 bits are storage, computed in f32), one thread.
// Slow and readable.
std::unique_ptr<Backend> make_reference_backend(std::shared_ptr<MemoryLedger> ledger);

// oneDNN matmuls and own vector kernels on `threads` OpenMP threads; takes f32, bf16 and f16. What
// the CPU does not multiply at 16 bits (f16; bf16 unless cpu_multiplies_bf16()) is storage: its
// products are those of f32, of blocks that are converted on the way. Throws Error when this build
// has no cpu backend (sanitizer builds).
std::unique_ptr<Backend> make_cpu_backend(std::shared_ptr<MemoryLedger> ledger, int threads);

// Can this CPU multiply bf16 matrices at speed (AVX-512 with bf16, as oneDNN requires)? False where
// the build has no cpu backend.
bool cpu_multiplies_bf16();

}  // namespace trireme
