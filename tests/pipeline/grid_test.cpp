#include "pipeline/grid.h"

#include <gtest/gtest.h>

#include <fstream>

#include "framework/base/error.h"

namespace trireme {
namespace {

TEST(Grid, TextOfOneFOneB) {
  const auto run = simulate(make_schedule(ScheduleKind::kOneFOneB, 3, 3, 1), PassCosts{});
  EXPECT_EQ(grid_text(run),
            "stage 0  F0 F1 F2 .  .  .  .  B0 -  .  B1 -  .  B2 -\n"
            "stage 1  .  F0 F1 .  .  B0 -  F2 B1 -  .  B2 -  .  .\n"
            "stage 2  .  .  F0 B0 -  F1 B1 -  F2 B2 -  .  .  .  .\n");
}

TEST(Grid, TextMarksChunks) {
  const auto run = simulate(make_schedule(ScheduleKind::kForwardOnly, 2, 2, 2), PassCosts{});
  EXPECT_EQ(grid_text(run),
            "stage 0  F0  F1  F0' F1' .\n"
            "stage 1  .   F0  F1  F0' F1'\n");
}

TEST(Grid, SvgHasABoxForEachComputation) {
  const auto run = simulate(make_schedule(ScheduleKind::kZeroBubbleH1, 4, 8, 1), PassCosts{});
  const std::string svg = grid_svg(run);
  std::size_t boxes = 0;
  for (std::size_t at = svg.find("<rect"); at != std::string::npos; at = svg.find("<rect", at + 1))
    ++boxes;
  EXPECT_EQ(boxes, 4u * 8 * 3);
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_EQ(svg, grid_svg(run));
  EXPECT_LT(svg.size(), 20000u);
}

// The README's picture is this one; ctest runs in the top folder.
TEST(Grid, TheReadmeShowsTheScheduleAsItIs) {
  std::ifstream file("docs/zero-bubble.svg");
  const std::string picture{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(picture,
            grid_svg(simulate(make_schedule(ScheduleKind::kZeroBubbleH1, 4, 8, 1), PassCosts{})));
}

TEST(Grid, RefusesComputationsOfNoLength) {
  const auto run = simulate(make_schedule(ScheduleKind::kGPipe, 2, 2, 1), PassCosts{0, 1, 1});
  EXPECT_THROW(grid_text(run), Error);
}

}  // namespace
}  // namespace trireme
