#include "recipes/memory/paper_backend.h"

#include <utility>

#include "framework/backend/infer_kernels.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr int kNumberBit = 40;  // above any offset in a storage

class NoKernels final : public Kernels {
 public:
  void matmul(const Matmul&) override {}
  void add(const Tensor&, const Tensor&, const Tensor&) override {}
  void add_bias(const Tensor&, const Tensor&) override {}
  void cast(const Tensor&, const Tensor&) override {}
  void fill(const Tensor&, double) override {}
  void scale(const Tensor&, double) override {}
  void dropout(const Dropout&, const Tensor&, const Tensor&) override {}
  void embedding(const Tensor&, const Tensor&, std::int64_t, const Tensor&) override {}
  void add_positions(const Tensor&, const Positions&, const Tensor&) override {}
  void layer_norm(const Tensor&, const Tensor&, const Tensor&, double, const Tensor&,
                  const Tensor&) override {}
  void rms_norm(const Tensor&, const Tensor&, const RmsNorm&, const Tensor&,
                const Tensor&) override {}
  void head_norm(const HeadNorm&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                 const Tensor&) override {}
  void activation(Activation, bool, const Tensor&, const Tensor&) override {}
  void rotary(const Rotary&, const Tensor&) override {}
  void attention(const Attention&, const Tensor&, const Tensor&, const Tensor&) override {}
  void row_max(const CrossEntropy&, const Tensor&, const Tensor&) override {}
  void cross_entropy_sums(const CrossEntropy&, const Tensor&, const Tensor&, const Tensor&,
                          const Tensor&) override {}
  void cross_entropy_loss(const CrossEntropy&, const Tensor&, const Tensor&,
                          const Tensor&) override {}
  void sum_in_order(std::span<const Tensor>, const Tensor&) override {}
  void max_of(std::span<const Tensor>, const Tensor&) override {}
};

class NoTrainKernels final : public TrainKernels {
 public:
  void layer_norm_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                           const Tensor&, bool, const Tensor&, const Tensor&, bool) override {}
  void rms_norm_backward(const Tensor&, const Tensor&, const RmsNorm&, const Tensor&, const Tensor&,
                         const Tensor&, bool, const Tensor&, bool) override {}
  void head_norm_backward(const HeadNorm&, const Tensor&, const Tensor&, const Tensor&,
                          const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool,
                          const Tensor&, bool) override {}
  void activation_backward(Activation, bool, const Tensor&, const Tensor&, const Tensor&) override {
  }
  void column_sum(const Tensor&, const Tensor&, bool) override {}
  void embedding_backward(const Tensor&, const Tensor&, std::int64_t, const Tensor&,
                          bool) override {}
  void add_positions_backward(const Tensor&, const Positions&, const Tensor&, bool) override {}
  void attention_backward(const Attention&, const Tensor&, const Tensor&, const Tensor&,
                          const Tensor&, const Tensor&) override {}
  void cross_entropy_backward(const CrossEntropy&, const Tensor&, const Tensor&, const Tensor&,
                              const Tensor&, double, const Tensor&) override {}
  void sum_of_squares(const Tensor&, const Tensor&) override {}
  void fingerprint(const Tensor&, std::uint64_t, std::int64_t, std::uint64_t,
                   const Tensor&) override {}
  void adam(const AdamStep&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
            const Tensor&) override {}
  void sgd(const SgdStep&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) override {}
};

class NoInferKernels final : public InferKernels {
 public:
  void linear(const Tensor&, const Tensor&, const Tensor&, const Tensor&) override {}
  void linear(const Tensor&, const QuantizedMatrix&, const Tensor&, const Tensor&) override {}
  void lookup(const Tensor&, const QuantizedMatrix&, std::int64_t, const Tensor&) override {}
  void quantize(const Tensor&, const QuantizedCut&, const QuantizedMatrix&) override {}
  void append(const PagedAttention&, const Tensor&, const KvPages&) override {}
  void attention(const PagedAttention&, const Tensor&, const KvPages&, const Tensor&) override {}
};

class PaperCommunicator final : public Communicator {
 public:
  PaperCommunicator(int rank, int size, std::string axis)
      : Communicator(std::move(axis)), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void attach(Backend&) override {}
  Pending all_reduce(const Tensor&, ReduceOp) override { return {}; }
  Pending all_gather(const Tensor&, const Tensor&) override { return {}; }
  Pending reduce_scatter(const Tensor&, const Tensor&) override { return {}; }
  Pending broadcast(const Tensor&, int) override { return {}; }
  Pending send(const Tensor&, int) override { return {}; }
  Pending recv(const Tensor&, int) override { return {}; }
  void barrier() override {}
  std::unique_ptr<Communicator> split(int, int, std::string) override {
    fail("paper group \"", axis(), "\": it cannot be split");
  }
  void abort(const std::string&) noexcept override {}
  void set_place(std::string) override {}
  void set_observer(CommObserver) override {}
  const Traffic& traffic() const override { return traffic_; }
  void reset_traffic() override {}
  std::string recent_calls() const override { return {}; }

 private:
  int rank_, size_;
  Traffic traffic_;  // always empty
};

}  // namespace

struct PaperBackend::State {
  NoKernels kernels;
  NoTrainKernels train;
  NoInferKernels infer;
  std::shared_ptr<std::vector<PaperEvent>> events = std::make_shared<std::vector<PaperEvent>>();
  int last = 0;
};

PaperBackend::PaperBackend()
    : Backend(std::make_shared<MemoryLedger>()), state_(std::make_unique<State>()) {}
PaperBackend::~PaperBackend() = default;

std::vector<PaperEvent> PaperBackend::events() { return std::exchange(*state_->events, {}); }
int PaperBackend::number_of(const Tensor& x) {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(x.data()) >> kNumberBit);
}

Kernels& PaperBackend::do_kernels() { return state_->kernels; }
TrainKernels& PaperBackend::do_train_kernels() { return state_->train; }
InferKernels& PaperBackend::do_infer_kernels() { return state_->infer; }

std::shared_ptr<Storage> PaperBackend::do_allocate(std::int64_t bytes, MemoryKind kind) {
  if (kind == MemoryKind::kWorkspace) {
    auto scratch = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
    return make_storage(scratch->data(), bytes, [scratch] { static_cast<void>(scratch); });
  }
  PaperEvent event{.take = true, .tensor = ++state_->last, .bytes = bytes, .kind = kind};
  state_->events->push_back(event);
  event.take = false;
  // No address that anybody may look at: it tells the number.
  auto* address = reinterpret_cast<void*>(static_cast<std::uintptr_t>(event.tensor) << kNumberBit);
  return make_storage(address, bytes,
                      [events = state_->events, event] { events->push_back(event); });
}

std::unique_ptr<Communicator> make_paper_communicator(int rank, int size, std::string axis) {
  return std::make_unique<PaperCommunicator>(rank, size, std::move(axis));
}

}  // namespace trireme
