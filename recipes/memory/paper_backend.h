// A backend that computes nothing and keeps no bytes, and a group that moves none: a layer runs on
// them to tell what it takes and gives back. Scratch is real, since little of it is filled from the
// host.
#pragma once

#include <memory>
#include <vector>

#include "framework/backend/backend.h"
#include "framework/comm/communicator.h"

namespace trireme {

struct PaperEvent {
  bool take = true;
  int tensor = 0;  // a storage, numbered from 1
  std::int64_t bytes = 0;
  MemoryKind kind = MemoryKind::kActivations;
};

class PaperBackend final : public Backend {
 public:
  PaperBackend();
  ~PaperBackend() override;

  std::string_view name() const override { return "paper"; }
  bool computes(DType) const override { return true; }
  // What was taken and given back since the last call.
  std::vector<PaperEvent> events();
  // The number of a tensor's storage.
  static int number_of(const Tensor& x);

 protected:
  std::shared_ptr<Storage> do_allocate(std::int64_t bytes, MemoryKind kind) override;
  Kernels& do_kernels() override;
  TrainKernels& do_train_kernels() override;
  InferKernels& do_infer_kernels() override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// As describe_communicator's, but operations are done at once and touch nothing.
std::unique_ptr<Communicator> make_paper_communicator(int rank, int size, std::string axis);

}  // namespace trireme
