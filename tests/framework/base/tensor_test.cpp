#include "framework/base/tensor.h"

#include <gtest/gtest.h>

#include <vector>

#include "framework/base/error.h"

namespace trireme {
namespace {

// 24 floats 0, 1, 2, ... as a (4, 6) tensor over memory that the test owns.
class TensorViews : public ::testing::Test {
 protected:
  TensorViews() {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<float>(i);
  }
  std::vector<float> memory_ = std::vector<float>(24);
  Tensor x_ = Tensor(std::make_shared<Storage>(memory_.data(), 96, std::function<void()>()), 0,
                     {4, 6}, DType::kF32);
};

TEST(Shape, ExtentsRowsAndColumns) {
  const Shape shape = {2, 3, 4};
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(shape.rows(), 6);
  EXPECT_EQ(shape.columns(), 4);
  EXPECT_EQ(shape.text(), "(2, 3, 4)");
  EXPECT_EQ(shape.with(0, 5), (Shape{5, 3, 4}));
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ((Shape{0, 4}).elements(), 0);
  EXPECT_THROW((Shape{-1}), Error);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1}), Error);
}

TEST_F(TensorViews, RowsElementsAndShapesShareMemory) {
  EXPECT_EQ(x_.sliced_rows(1, 3).as<float>()[0], 6.0f);
  EXPECT_EQ(x_.sliced_rows(1, 3).shape(), (Shape{2, 6}));
  EXPECT_EQ(x_.sliced_rows(4, 4).elements(), 0);
  EXPECT_EQ(x_.elements_at(13, {2, 2}).as<float>()[3], 16.0f);
  EXPECT_EQ(x_.sliced_rows(2, 4).reshaped({3, 4}).as<float>()[11], 23.0f);
  x_.sliced_rows(3, 4).as<float>()[0] = -1.0f;
  EXPECT_EQ(memory_[18], -1.0f);
}

TEST_F(TensorViews, ViewsThatDoNotFitAreRefused) {
  EXPECT_THROW(x_.sliced_rows(3, 5), Error);
  EXPECT_THROW(x_.sliced_rows(2, 1), Error);
  EXPECT_THROW(x_.elements_at(23, {2}), Error);
  EXPECT_THROW(x_.reshaped({5, 5}), Error);
  EXPECT_THROW(x_.as<double>(), Error);
}

TEST_F(TensorViews, KnowsWhetherItIsTheOnlyOwner) {
  EXPECT_TRUE(x_.sole_owner());
  {
    const Tensor view = x_.sliced_rows(0, 1);
    EXPECT_FALSE(x_.sole_owner());
  }
  EXPECT_TRUE(x_.sole_owner());
  EXPECT_FALSE(Tensor().defined());
}

TEST(Storage, IsReleasedWithTheLastView) {
  int released = 0;
  float memory[4];
  Tensor view;
  {
    const Tensor x(std::make_shared<Storage>(memory, 16, [&released] { ++released; }), 0, {4},
                   DType::kF32);
    view = x.sliced_rows(1, 2);
  }
  EXPECT_EQ(released, 0);
  view = Tensor();
  EXPECT_EQ(released, 1);
}

TEST(Storage, AViewBeyondTheBytesIsRefused) {
  float memory[4];
  const auto storage = std::make_shared<Storage>(memory, 16, std::function<void()>());
  EXPECT_NO_THROW(Tensor(storage, 8, {2}, DType::kF32));
  EXPECT_THROW(Tensor(storage, 8, {3}, DType::kF32), Error);
}

}  // namespace
}  // namespace trireme
