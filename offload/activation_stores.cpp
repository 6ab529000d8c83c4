// Recompute's inputs cut over tensor ranks, and on the host. The disk has a file of its own.
#include "offload/activation_stores.h"

#include <utility>

#include "framework/base/error.h"
#include "offload/tiled_store.h"

namespace trireme {

namespace {

class PartitionedActivations final : public ActivationStore {
 public:
  PartitionedActivations(Backend& backend, Communicator& tensor, ActivationStore& inner)
      : backend_(backend), tensor_(tensor), inner_(inner) {}

  Fetch keep(Tensor x) override {
    if (tensor_.size() == 1) return inner_.keep(std::move(x));
    const Shape shape = x.shape();
    const DType dtype = x.dtype();
    Fetch fetch = inner_.keep(own_piece(x));
    x = Tensor();
    return [&backend = backend_, &tensor = tensor_, shape, dtype, fetch = std::move(fetch)] {
      const Tensor piece = fetch();
      Tensor whole = backend.allocate(shape, dtype, MemoryKind::kActivations);
      tensor.all_gather(piece, whole.reshaped({whole.elements()})).wait();
      return whole;
    };
  }

 private:
  Tensor own_piece(const Tensor& x) const {
    const std::int64_t begin = piece_begin(x.elements(), tensor_.size(), tensor_.rank());
    const std::int64_t end = piece_begin(x.elements(), tensor_.size(), tensor_.rank() + 1);
    Tensor piece = backend_.allocate({end - begin}, x.dtype(), MemoryKind::kActivations);
    backend_.copy(x.elements_at(begin, {end - begin}), piece);
    return piece;
  }

  Backend& backend_;
  Communicator& tensor_;
  ActivationStore& inner_;
};

class HostActivations final : public ActivationStore {
 public:
  explicit HostActivations(Backend& backend) : backend_(backend) {}

  Fetch keep(Tensor x) override {
    Tensor home =
        allocate_on_host(backend_.shared_ledger(), x.shape(), x.dtype(), MemoryKind::kActivations);
    backend_.download(x, home.data());
    return [&backend = backend_, home = std::move(home)]() mutable {
      check(home.defined(), "offload: a kept input is fetched a second time");
      const Tensor from = std::exchange(home, Tensor());
      Tensor back = backend.allocate(from.shape(), from.dtype(), MemoryKind::kActivations);
      backend.upload(from.data(), back);
      return back;
    };
  }

 private:
  Backend& backend_;
};

}  // namespace

std::unique_ptr<ActivationStore> partition_activations(Backend& backend, Communicator& tensor,
                                                       ActivationStore& inner) {
  return std::make_unique<PartitionedActivations>(backend, tensor, inner);
}

std::unique_ptr<ActivationStore> activations_on_host(Backend& backend) {
  return std::make_unique<HostActivations>(backend);
}

}  // namespace trireme
