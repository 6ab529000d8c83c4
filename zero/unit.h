// A unit: parameters that are gathered, reduced and released together, in flat buffers.
//
// Its home buffers are whole or this data rank's shard, as the stage says (zero/stage.h), and lie
// on the device or in a store of another tier. gather() makes weights whole for a use and is
// counted, so uses may nest; where they stay whole it moves nothing. Gradients of a step are summed
// over data ranks onto the own shard by reduce-scatters, the only gradient reduction there is: one
// after the last backward of the step while they stay whole (stages 0-1), else one after each
// micro-batch, added up in the shard. At one micro-batch all stages and tiers give the same bits.
//
// Hybrid sharding (MiCS, arXiv 2205.00119; HSDP): `data` is then a group of some data ranks, and
// the shards' sums are added over the groups' replicas once a step.
//
// Owns the flat tensors; the parameters are owned by their modules and must outlive the unit. A
// unit may have several users (a tied embedding table is used by the first and the last list
// entry): its backward ends when that of all of them did.
#pragma once

#include <string>
#include <vector>

#include "framework/backend/backend.h"
#include "framework/comm/communicator.h"
#include "offload/weight_stream.h"
#include "zero/flat_home.h"
#include "zero/flat_layout.h"
#include "zero/stage.h"

namespace trireme {

class Unit;

// Lets one unit's reduction be in flight at a time: a new one waits for the one before. Shared by
// the units of a rank; bounds the whole gradients that wait to two.
class ReductionQueue {
 public:
  void enter(Unit& unit);

 private:
  Unit* busy_ = nullptr;
};

// Stores that homes lie in, each with a part per unit; null: on the device. They outlive the units.
struct HomeStores {
  Backend* host = nullptr;  // for maths on what is at home there
  TiledStore* weights = nullptr;
  TiledStore* gradients = nullptr;
  std::size_t part = 0;  // of this unit
  // Weights of a model that is only run pass through this one's slots; instead of `weights`.
  WeightStream* stream = nullptr;
};

struct UnitOptions {
  DType compute = DType::kF32;    // of the weights
  bool bytes = false;             // they are held as bytes: some may be quantized, none is trained
  DType gradients = DType::kF32;  // of the gradient buffer
  StagePolicy policy;
  bool overlap = true;                   // reductions of whole gradients go on while backward does
  ReductionQueue* reductions = nullptr;  // null: a reduction of a micro-batch is waited for at once
  Communicator* replicas = nullptr;      // of the shards, under hybrid sharding
  HomeStores homes;
};

// How parameters lie in a unit of `ranks` data ranks; `bytes` as in UnitOptions.
FlatLayout layout_of(const std::vector<Parameter*>& parameters, int ranks, DType compute,
                     bool bytes);

class Unit {
 public:
  // Allocates zeros and, where they stay whole, points the parameters into the buffers.
  Unit(std::string name, std::vector<Parameter*> parameters, Backend& backend, Communicator& data,
       const UnitOptions& options);

  const std::string& name() const { return name_; }
  const FlatLayout& layout() const { return layout_; }
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  Range own_shard() const { return layout_.shard(data_.rank()); }
  // One more list entry uses this unit in every micro-batch.
  void add_user() { ++users_; }

  // Makes weights whole for a use, and lets them go after it. Counted. Collective over the data
  // ranks at stage 3. hold() only starts the gather, as one more user; the next gather() waits for
  // it.
  void gather();
  void hold();
  void release();
  // A pass of a model that is only run ended with an exception: nothing is held any more.
  void abandon() noexcept;

  // A step begins: nothing is accumulated yet, and `backward_uses` backward passes over this unit
  // will come. None: the unit's gradients are zero in this step.
  void begin_step(std::int64_t backward_uses);
  // Around one backward use: gradients may be added to between them. The end of the last use of the
  // step, or of a micro-batch from stage 2 on, starts a reduction.
  void begin_backward();
  void end_backward();
  // Waits for a reduction in flight and adds it up. Nothing happens without one.
  void complete_reduction();
  // After all backward passes: the own shard of gradients() holds the sum over data ranks.
  void finish_reduction();
  // Whole gradients hold that sum everywhere (stage 0 updates from them).
  void share_gradients();
  // The own shard of weights that stay whole was updated: starts to make them whole again.
  [[nodiscard]] Pending share_weights();

  // Sets all weights, and `master` (wider; may be undefined) to the same values before rounding: to
  // their initial values, or to those of logical tensors, e.g. a checkpoint's. Works in pieces of
  // bounded size.
  void fill_initial(std::uint64_t seed, const FlatHome& master);
  void load_values(const SectionSource& source, const FlatHome& master);

  // Weights that stay whole on the device, in the compute type, are put into the order in which the
  // backend multiplies them (InferKernels::tile), where it has one. Once all values are in and
  // nothing but forward passes follows: weights() then mean nothing to anybody else.
  void tile_weights();

  const FlatHome& weights() const { return weights_; }      // compute type, or bytes
  const FlatHome& gradients() const { return gradients_; }  // empty if nothing is trained
  bool holds_bytes() const { return options_.bytes; }       // then weights() are kU8
  bool trainable() const { return trainable_; }             // has it a parameter that is?
  const StagePolicy& policy() const { return policy_; }

 private:
  void fill(std::size_t parameter, const SectionSource& source, const FlatHome& master);
  FlatHome make_home(TiledStore* store, Range range, DType dtype, MemoryKind kind);
  void point_weights(const Tensor& whole);
  void point_gradients(const Tensor& whole);
  void start_gather();
  void start_streamed();
  void zero_unwritten();
  void put_away();
  void take_turn();
  void reduce_step();
  void reduce_micro_batch();
  void sum_over_replicas();

  void fill_bytes(std::size_t parameter, const SectionSource& source);
  void fill_quantized(std::size_t parameter, const SectionSource& source);
  void keep_bytes(std::int64_t at, const Tensor& bytes);

  std::string name_;
  std::vector<Parameter*> parameters_;
  Backend& backend_;
  Communicator& data_;
  UnitOptions options_;
  StagePolicy policy_;
  FlatLayout layout_;
  bool trainable_ = false;
  FlatHome weights_, gradients_;
  Tensor gathered_;  // whole weights during uses, at stage 3; in a slot, if they are streamed
  Pending gathering_;
  Tensor open_gradients_;  // whole gradients of a micro-batch where home is not that
  std::int64_t users_ = 0;
  std::int64_t gathers_ = 0;                    // uses now
  std::int64_t open_ = 0;                       // backward uses now
  std::int64_t uses_left_ = 0, uses_done_ = 0;  // backward ones of this step
  bool accumulated_ = false;                    // has the home gradients of this step?
  struct Reduction {
    Tensor whole, piece;
    Pending pending;
  } reduction_;
};

}  // namespace trireme
