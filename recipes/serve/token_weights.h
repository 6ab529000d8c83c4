// exp() of a whole row of logits, which is most of what drawing a token costs.
#pragma once

#include <span>

namespace trireme {

// weights[i] = exp((x[i] - largest) / temperature), within 2 ulp; `largest` is at least each x,
// which may be -infinity. 0 where it would be below e^-700. As many weights as x. Only +, * and
// shifts: the same bits on every CPU.
void token_weights(std::span<const float> x, double largest, double temperature, double* weights);

}  // namespace trireme
