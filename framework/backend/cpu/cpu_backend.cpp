// The cpu backend: memory from a pool, kernels of CpuKernels.
#include <memory>

#include "framework/backend/backend.h"
#include "framework/backend/cpu/cpu_infer_kernels.h"
#include "framework/backend/cpu/cpu_kernels.h"
#include "framework/backend/cpu/matrix_tiles.h"
#include "framework/backend/cpu/parallel.h"
#include "framework/backend/cpu/pool.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend(std::shared_ptr<MemoryLedger> ledger, int threads)
      : Backend(std::move(ledger)),
        threads_(threads),
        pool_(std::make_shared<Pool>()),
        kernels_(*this, threads, cpu_multiplies_bf16()),
        train_kernels_(make_cpu_train_kernels(*this, kernels_, threads)),
        infer_kernels_(*this, kernels_, threads, cpu_multiplies_bf16(),
                       cpu_multiplies_bf16() && request_matrix_tiles()) {}

  std::string_view name() const override { return "cpu"; }
  bool computes(DType dtype) const override { return is_floating(dtype) && dtype != DType::kF64; }

  void share(std::int64_t n,
             const std::function<void(std::int64_t begin, std::int64_t end)>& f) override {
    parallel_ranges(threads_, n, 4, [&](std::int64_t begin, std::int64_t end) { f(begin, end); });
  }

  std::byte* host_address(const Tensor& t) const override {
    return static_cast<std::byte*>(t.data());
  }

 protected:
  std::shared_ptr<Storage> do_allocate(std::int64_t bytes, MemoryKind kind) override {
    const auto& counted = shared_ledger();
    counted->add(Tier::kDevice, kind, bytes);
    void* block = pool_->take(bytes);
    if (!block) {
      counted->remove(Tier::kDevice, kind, bytes);
      fail("out of memory: this machine has no ", bytes, " bytes more for ", name_of(kind),
           "; in use on the device tier:\n", counted->table(Tier::kDevice));
    }
    return make_storage(block, bytes, [pool = pool_, counted, block, bytes, kind] {
      pool->give(block);
      counted->remove(Tier::kDevice, kind, bytes);
    });
  }
  Kernels& do_kernels() override { return kernels_; }
  TrainKernels& do_train_kernels() override { return existing(train_kernels_); }
  InferKernels& do_infer_kernels() override { return infer_kernels_; }

 private:
  int threads_;
  std::shared_ptr<Pool> pool_;
  CpuKernels kernels_;
  std::unique_ptr<TrainKernels> train_kernels_;
  CpuInferKernels infer_kernels_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(std::shared_ptr<MemoryLedger> ledger, int threads) {
  check(threads >= 1, "cpu backend: the number of threads must be at least 1, got ", threads);
  return std::make_unique<CpuBackend>(std::move(ledger), threads);
}

}  // namespace trireme
