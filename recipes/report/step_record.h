// What is known after a step, and its forms: a line for people, an object for metrics.jsonl.
//
// One voice: rank 0 makes these from numbers that are already reduced over all ranks. A number that
// nobody computed is absent, never a placeholder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trireme {

struct StepRecord {
  std::int64_t step = 0;   // from 1
  std::int64_t steps = 0;  // of the run
  double loss = 0;         // nats a label, over the global batch
  std::optional<double> validation_loss;
  double grad_norm = 0;           // before clipping
  double lr = 0;                  // of this step
  double loss_scale = 1;          // of this step; 1: none
  std::int64_t tokens = 0;        // labels of this step, over all ranks
  double seconds = 0;             // of this step, without evaluation and samples
  double tokens_per_s = 0;        // over all ranks
  double flops_per_s = 0;         // model FLOP, over all ranks
  double measured_peak = 0;       // FLOP/s of a measured matrix product, all ranks; 0: not measured
  std::int64_t skipped = 0;       // steps skipped so far
  std::int64_t memory = 0;        // bytes at the peak of the fullest rank, device tier
  std::int64_t memory_limit = 0;  // bytes of one rank; 0: none
  std::optional<double> bubble;   // measured share of time in which stages wait
  std::optional<double> remaining;  // seconds to the end, evaluation included
};

// step 120/2000 6.0% loss 3.4123 val 3.51 |g| 0.84 lr 2.9e-4 18.4k tok/s 412 GFLOP/s (41% of
// measured peak) mem 1.21/2.00 GiB bubble 8% eta 3m12s Parts that are not known are left out;
// "scale 65536" (of the loss, when not 1) and "skipped 2" (if there are any) follow the learning
// rate.
std::string step_line(const StepRecord& record);

// {"step": ..., ...} without a line's end: the keys of the contract, 17 digits; validation_loss
// only when evaluated. Not-finite numbers are null.
std::string metrics_line(const StepRecord& record);

}  // namespace trireme
