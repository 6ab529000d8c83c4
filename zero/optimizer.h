// One optimizer step over all units of a rank, the same order at every stage (DESIGN: "order of a
// step"):
//
//   data reduction (started by the units) -> the sums that descriptors name, on this rank's data
//   shards, one flat buffer per group -> one world collective (WorldSum) -> unscale by the scale of
//   this step's backward, clip, update -> weights whole again.
//
// Every rank squares only its own data shard, in f64 and by segment, and each logical element is
// counted once over the world, so the norm has the same bits at every stage. The number of
// collectives never depends on what a rank holds. A non-finite gradient anywhere skips the step on
// all ranks; a skipped step counts neither for bias correction nor for the schedule. A norm over
// stop_on_norm is told and leaves everything as it was before the step, the loss scale included.
//
// Masters and moments live on the device, or in a store on the host or on disk. There the update is
// the host's: tile by tile, with gradients and 16-bit weights copied through staging tiles.
// Elements are updated by the same sequence of operations everywhere, so tiers and tiles change no
// bit.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/comm/mesh.h"
#include "optim/loss_scaler.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "zero/kept_arrays.h"
#include "zero/replicas.h"
#include "zero/unit.h"

namespace trireme {

struct ZeroOptions {
  OptimizerOptions optimizer;
  LrSchedule schedule;
  LossScaleOptions loss_scale;
  double clip = 0;          // largest global norm; 0 = off
  double stop_on_norm = 0;  // a larger global norm is a spike, whose update is not made; 0 = off
  // False: weights and masters stay zero until fill_initial() or until a checkpoint is loaded.
  bool initial_values = true;
  std::uint64_t seed = 0;  // of initial values: masters start from them, not from rounded weights
  Communicator* kv_replicas = nullptr;  // group of SumGroup::kKvReplicas, null if there is none
  bool counts_in_norm = true;  // false on all but one replica of each shard (hybrid sharding)
  bool check_replicas = true;  // compare copies every step (zero/replicas.h); alike on all ranks
  Backend* host = nullptr;     // for maths on what is at home there; null: the device's
  // Of masters and moments; null: on the device. Its shape is state_shape()'s. Must outlive.
  TiledStore* store = nullptr;
};

// Of such a store: one part per unit, the elements whose states this rank holds (0 if none is
// trained), and as arrays the master, if weights are narrower than the wide type, and the moments.
TiledShape state_shape(std::span<Unit* const> units, const OptimizerOptions& options);

// What ranks tell each other with a step, in its world collective: a rank's own, or the sum of all.
struct Wishes {
  double stop = 0;     // 1: this rank wants to end after this step
  double save = 0;     // 1: it wants a checkpoint after this step
  double written = 0;  // 1: it has written its part of the save in the background; a rank that
                       // failed to gives the number of ranks, which no sum of successes exceeds
};

struct StepRequest {
  Wishes wishes;
  double loss_scale = 1;    // what this step's loss was multiplied with, all over the world: the
                            // loss_scale() of before backward began
  std::int64_t number = 0;  // of the step, from 1 on, for sentences
  Tensor loss;              // (1) f64, added up over the ranks that give one; may be undefined
};

struct StepResult {
  double loss = 0;       // the sum of what ranks gave
  double grad_norm = 0;  // over the whole model, unscaled, before clipping
  double lr = 0;
  double loss_scale = 1;  // of this step
  bool skipped = false;
  bool spiked = false;        // over stop_on_norm: nothing was updated or counted, on any rank
  Wishes wishes;              // of all ranks
  std::string bad_parameter;  // of a skipped step: the first one with a non-finite gradient, by
                              // rank and order
};

// The one world collective of a step, f64 numbers. The last two are halves of one of 64 bits, which
// is 0 over the world while copies agree.
enum WorldSum : std::uint8_t {
  kBad,
  kSquares,
  kLoss,
  kStop,
  kSave,
  kWritten,
  kReplicasLow,
  kReplicasHigh,
  kWorldSums
};

class ZeroOptimizer final : public KeptArrays {
 public:
  // Allocates masters (when weights are narrower than the wide type) and moments. `units` and
  // `mesh` must outlive it.
  ZeroOptimizer(std::vector<Unit*> units, Backend& backend, const Mesh& mesh,
                const ZeroOptions& options);

  // Called once all backward passes ran. Collective over the world. Throws Error, on all ranks and
  // before anything is updated, when copies of weights or states differ as the step before left
  // them (zero/replicas.h).
  StepResult step(const StepRequest& request);
  // Whether step() compares copies, if the options want it at all; alike on all ranks. A step that
  // is run several times to be verified does not: it finds what differs by itself.
  void compare_copies(bool on) { compares_ = on; }
  std::int64_t steps_taken() const { return taken_; }
  double loss_scale() const { return scaler_.scale(); }  // for the next step's backward

  // For checkpoints (zero/train_state.h).
  std::vector<std::string> array_names() const override;
  FlatHome array(std::size_t unit, const std::string& name) const override;
  // All of these, and the compute weights beside masters: what copies are compared of.
  std::vector<ReplicatedArray> arrays() const;
  // The counts of a step: updates made, and the loss scale.
  struct Progress {
    std::int64_t steps_taken = 0;
    LossScalerState scaler;
  };
  Progress progress() const { return {taken_, scaler_.state()}; }
  void restore(const Progress& progress);
  void flush() override;

 private:
  struct State {
    Unit* unit;
    Range range;                   // whose states this rank holds
    bool own_master = false;       // else the weights are the master
    std::vector<FlatHome> arrays;  // like those of state_shape
    FlatHome master() const { return own_master ? arrays.front() : FlatHome(); }
  };

  FlatHome master(std::size_t unit) const override { return states_[unit].master(); }
  State make_state(Unit& unit, std::size_t index);
  void sum_group(SumGroup group, Communicator& comm);
  bool has_group(SumGroup group) const;
  void add_squares(const FlatHome& gradients, Range part, const Tensor& out);
  void add_all_squares(const Tensor& out);
  std::string first_bad_parameter();
  bool on_host() const { return options_.store != nullptr; }
  Tensor operand(const FlatHome& home, Range part, bool filled);
  void give_back(const FlatHome& home, Range part, const Tensor& x);
  void update(const OptimizerStep& step);
  void update_on_device(const State& state, const OptimizerStep& step);
  void update_part(const State& state, Range part, std::span<const Tensor> arrays,
                   const OptimizerStep& step);
  std::int64_t tile_of(const Unit& unit) const;

  Backend& backend_;
  const Mesh& mesh_;
  ZeroOptions options_;
  std::vector<State> states_;
  std::unique_ptr<ReplicaCheck> replicas_;  // null: off
  bool compares_ = true;
  Tensor sums_;  // (kWorldSums) f64
  std::int64_t taken_ = 0;
  LossScaler scaler_{options_.loss_scale};
};

}  // namespace trireme
