// Every layout trains like the serial run (f64, 1e-12): the promise the project stands on.
#include <gtest/gtest.h>

#include "tests/parity/train_layout.h"

namespace trireme::parity {
namespace {

constexpr double kTolerance = 1e-12;

void expect_parity(const Task& task, const Curve& serial, const Layout& layout) {
  SCOPED_TRACE(text_of(layout));
  const Curve curve = train(task, layout);
  EXPECT_LE(distance(serial, curve), kTolerance);
  EXPECT_LE(distance(serial.gradients, curve.gradients), kTolerance);
  EXPECT_LE(distance(serial.weights, curve.weights), kTolerance);
}

TEST(Parity, Simple) {
  for (ModelOptions model : {tiny_gpt2(), tiny_llama(2), tiny_mlp()}) {
    model.dropout = 0.1;
    const Task task{.model = model};
    const Curve serial = train(task, {});
    for (const Layout& layout :
         {Layout{.mesh = {.data = 2}}, Layout{.mesh = {.tensor = 2}},
          Layout{.mesh = {.pipeline = 2}}, Layout{.mesh = {.data = 2, .pipeline = 2, .tensor = 2}}})
      expect_parity(task, serial, layout);
  }
}

}  // namespace
}  // namespace trireme::parity
