// What backward must do: a linear list of closures, run in exact reverse order. Activations die as
// entries pop.
//
// Closures capture Parameter&, never its tensor, so that ZeRO may free weights between forward and
// backward. Weight gradients go through `later`: whoever starts a collective drains the queue while
// it is in flight (the overlap of Megatron-LM, arXiv 1909.08053), and a zero-bubble schedule (arXiv
// 2401.10241) leaves the queue for its W action. One tape per micro-batch and pipeline chunk; one
// rank's thread.
#pragma once

#include <functional>
#include <vector>

namespace trireme {

class Tape {
 public:
  using Entry = std::function<void()>;

  void record(Entry entry) { entries_.push_back(std::move(entry)); }
  // Work that only weight gradients wait for, queued during backward and run in order.
  void later(Entry work) { queue_.push_back(std::move(work)); }

  // Runs all entries in reverse, then drains the queue.
  void run_backward();
  // The B half of a split backward: as above, but the queue is left for a later drain().
  void run_backward_input();
  // Runs the queued work in order.
  void drain();
  // Called where a drain helps but is not needed (a collective is in flight, a unit's backward
  // ended): does nothing within run_backward_input().
  void drain_unless_split();

  // Inside run_backward_input()?
  bool split() const { return split_; }
  bool empty() const { return entries_.empty() && queue_.empty(); }

 private:
  void run_entries();

  std::vector<Entry> entries_;
  std::vector<Entry> queue_;
  bool split_ = false;
};

}  // namespace trireme
