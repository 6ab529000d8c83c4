// A unit: parameters that are gathered, reduced and released together, in flat buffers.
//
// At stage 0 every data rank keeps weights, gradients and optimizer states whole, so gather and
// release move nothing, and the end of the last backward of a step starts the one gradient
// reduction there is: the sum over data ranks, as a reduce-scatter onto this rank's own shard of
// the buffer. ZeroOptimizer finishes it.
//
// Owns the flat tensors; the parameters are owned by their modules and must outlive the unit. A
// unit may have several users (a tied embedding table is used by the first and the last list
// entry): its backward ends when that of all of them did.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/backend/backend.h"
#include "framework/comm/communicator.h"
#include "zero/flat_layout.h"

namespace trireme {

struct UnitOptions {
  DType compute = DType::kF32;    // of the weights
  DType gradients = DType::kF32;  // of the gradient buffer
};

class Unit {
 public:
  // Allocates zeros and points the parameters into the buffers.
  Unit(std::string name, std::vector<Parameter*> parameters, Backend& backend, Communicator& data,
       const UnitOptions& options);

  const std::string& name() const { return name_; }
  const FlatLayout& layout() const { return layout_; }
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  Range own_shard() const { return layout_.shard(data_.rank()); }

  // Makes weights available for a use, and lets them go after it.
  void gather() {}
  void release() {}

  // A step begins: nothing is accumulated yet, and `backward_uses` backward passes over this unit
  // will come. None: the unit's gradients are zero in this step.
  void begin_step(std::int64_t backward_uses);
  // Around one backward use. The end of the last one starts the reduction.
  void begin_backward() {}
  void end_backward();
  // Waits for the reduction: then the own shard of gradients() holds the sum over data ranks.
  void finish_reduction();

  // Sets all weights, and `master` (padded, wider; may be undefined) to the same values before
  // rounding: to their initial values, or to those of logical tensors, e.g. a checkpoint's. Works
  // in pieces of bounded size.
  void fill_initial(std::uint64_t seed, const Tensor& master);
  void load_values(const SectionSource& source, const Tensor& master);

  const Tensor& weights() const { return weights_; }      // (padded) compute type
  const Tensor& gradients() const { return gradients_; }  // (padded), (0) if nothing is trained
  bool trainable() const { return trainable_; }           // has it a parameter that is?
  // Full values of one parameter, converted to double (for tests, checkpoints and hashes): padding
  // rows included.
  std::vector<double> values_of(const Parameter& parameter) const;

 private:
  void fill(std::size_t parameter, const SectionSource& source, const Tensor& master);

  std::string name_;
  std::vector<Parameter*> parameters_;
  Backend& backend_;
  Communicator& data_;
  FlatLayout layout_;
  Tensor weights_;
  bool trainable_ = false;
  Tensor gradients_;
  std::int64_t uses_left_ = 0;
  Pending reduction_;
};

}  // namespace trireme
