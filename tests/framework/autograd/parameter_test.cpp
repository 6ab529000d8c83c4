// Descriptors: sections that make sense, initial values that no layout changes.
#include "framework/autograd/parameter.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"

namespace trireme {
namespace {

ParameterSpec matrix(std::int64_t rows, std::int64_t columns, std::vector<Section> sections) {
  return {.name = "m",
          .shape = {rows, columns},
          .sections = std::move(sections),
          .init = {Init::Kind::kNormal, 2.0}};
}

std::vector<double> initial(const ParameterSpec& spec, std::uint64_t seed = 5) {
  std::vector<double> out(static_cast<std::size_t>(spec.shape.elements()), -1);
  local_values(spec, initial_values(spec.init, seed), 0, local_rows(spec), out.data());
  return out;
}

TEST(Parameter, SectionsMustFitAndNotOverlap) {
  const Section whole = whole_section("w", {4, 3});
  EXPECT_NO_THROW(Parameter(matrix(4, 3, {whole})));
  EXPECT_THROW(Parameter(matrix(3, 3, {whole})), Error);         // leaves the local matrix
  EXPECT_THROW(Parameter(matrix(8, 3, {whole, whole})), Error);  // overlap
  Section outside = whole;
  outside.global_row = 1;
  EXPECT_THROW(Parameter(matrix(4, 3, {outside})), Error);
  outside = whole;
  outside.global_column = 1;
  EXPECT_THROW(Parameter(matrix(4, 3, {outside})), Error);
}

TEST(Parameter, TheFirstContributionOfAStepOverwrites) {
  Parameter p(matrix(1, 1, {}));
  EXPECT_FALSE(p.written());
  EXPECT_FALSE(p.accumulate());
  EXPECT_TRUE(p.accumulate());
  p.reset_written();
  EXPECT_FALSE(p.accumulate());
  EXPECT_TRUE(p.spec().trainable);
  p.freeze();
  EXPECT_FALSE(p.spec().trainable);
}

TEST(Parameter, InitialValuesOfAShardAreThoseOfTheWhole) {
  const std::vector<double> whole = initial(matrix(4, 6, {whole_section("w", {4, 6})}));
  Section shard{.name = "w", .logical = {4, 6}, .rows = 2, .global_row = 1, .global_column = 3};
  const std::vector<double> part = initial(matrix(3, 3, {shard}));  // one padding row
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 3; ++j) EXPECT_EQ(part[i * 3 + j], whole[(i + 1) * 6 + j + 3]);
  for (std::size_t j = 0; j < 3; ++j) EXPECT_EQ(part[6 + j], 0.0);
  EXPECT_NE(initial(matrix(4, 6, {whole_section("v", {4, 6})})), whole);  // the name matters
  EXPECT_NE(initial(matrix(4, 6, {whole_section("w", {4, 6})}), 6), whole);
}

TEST(Parameter, LocalValuesAskForEachRectangleOnce) {
  Section a{.name = "a", .logical = {1, 2}, .rows = 1};
  Section b{.name = "b", .logical = {2, 2}, .local_row = 2, .rows = 2};
  const ParameterSpec spec = matrix(5, 2, {a, b});
  std::vector<double> out(10, -1);
  std::string asked;
  local_values(
      spec,
      [&](const Section& s, std::int64_t columns, std::span<double> rectangle) {
        EXPECT_EQ(columns, 2);
        EXPECT_EQ(static_cast<std::int64_t>(rectangle.size()), s.rows * 2);
        asked += s.name;
        std::fill(rectangle.begin(), rectangle.end(), s.name == "a" ? 1.0 : 2.0);
      },
      0, 5, out.data());
  EXPECT_EQ(asked, "ab");
  EXPECT_EQ(out, (std::vector<double>{1, 1, 0, 0, 2, 2, 2, 2, 0, 0}));
}

}  // namespace
}  // namespace trireme
