// A value on its way through the model, and the slot in which its gradient gathers.
//
// A null slot means that nothing upstream wants the gradient. Slots are shared between the Var and
// the tape entries that read or fill it; they belong to one rank's thread.
#pragma once

#include <functional>
#include <memory>

#include "framework/backend/backend.h"
#include "framework/base/tensor.h"

namespace trireme {

class GradSlot {
 public:
  // Adds a gradient. In place only when this slot alone owns the stored one: y = x + f(x) hands the
  // same tensor to two slots. Sums of mixed types are kept in the wider one.
  void add(Backend& backend, Tensor grad);
  bool empty() const { return !grad_.defined(); }
  // The gathered gradient, undefined if none came; the slot is empty afterwards.
  Tensor take();
  // A stored gradient that may be added to in place, taken out; undefined if there is none or it is
  // shared.
  Tensor take_if_owned(DType dtype);

 private:
  Tensor grad_;
};

struct Var {
  Tensor value;
  std::shared_ptr<GradSlot> grad = nullptr;
  // Selective recomputation: when set, consumers that need `value` in backward keep this closure
  // instead of the bytes.
  std::function<Tensor()> remake = nullptr;

  bool wants_grad() const { return grad != nullptr; }
};

// What a tape entry keeps of an input: the tensor, or the way to make it again.
class Saved {
 public:
  explicit Saved(const Var& x) : value_(x.remake ? Tensor() : x.value), remake_(x.remake) {}
  Tensor get() const { return remake_ ? remake_() : value_; }

 private:
  Tensor value_;
  std::function<Tensor()> remake_;
};

// A Var for an op's output: with a slot if `wants_grad`.
Var make_var(Tensor value, bool wants_grad);

}  // namespace trireme
