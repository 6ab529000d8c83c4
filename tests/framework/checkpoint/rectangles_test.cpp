// Flat runs as rectangles, and whether rectangles cover a matrix.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "framework/base/error.h"
#include "framework/checkpoint/cover.h"
#include "framework/checkpoint/logical.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

TEST(RectanglesOf, EveryRunIsItsElementsInOrder) {
  for (std::int64_t columns = 1; columns <= 6; ++columns)
    for (std::int64_t begin = 0; begin <= 20; ++begin)
      for (std::int64_t end = begin; end <= 20; ++end) {
        Rectangle parts[3];
        const int count = rectangles_of(begin, end, columns, parts);
        ASSERT_LE(count, 3);
        std::vector<std::int64_t> elements, expected;
        for (int p = 0; p < count; ++p) {
          EXPECT_GT(parts[p].elements(), 0);
          for (std::int64_t i = 0; i < parts[p].elements(); ++i) {
            const std::int64_t column = parts[p].column + i % parts[p].columns;
            EXPECT_LT(column, columns);
            elements.push_back((parts[p].row + i / parts[p].columns) * columns + column);
          }
        }
        for (std::int64_t e = begin; e < end; ++e) expected.push_back(e);
        EXPECT_EQ(elements, expected) << begin << " to " << end << " of " << columns;
      }
}

TEST(RectanglesOf, AreAsFewAsCanBe) {
  Rectangle parts[3];
  EXPECT_EQ(rectangles_of(0, 12, 4, parts), 1);  // whole rows
  EXPECT_EQ(rectangles_of(5, 7, 4, parts), 1);   // inside a row
  EXPECT_EQ(rectangles_of(3, 12, 4, parts), 2);
  EXPECT_EQ(rectangles_of(3, 11, 4, parts), 3);
  EXPECT_EQ(rectangles_of(7, 100, 1, parts), 1);  // a vector
  EXPECT_EQ(rectangles_of(7, 7, 5, parts), 0);
}

std::vector<int> counts(std::int64_t rows, std::int64_t columns,
                        const std::vector<Rectangle>& rectangles) {
  std::vector<int> count(static_cast<std::size_t>(rows * columns));
  for (const Rectangle& r : rectangles)
    for (std::int64_t i = 0; i < r.elements(); ++i)
      ++count[static_cast<std::size_t>((r.row + i / r.columns) * columns + r.column +
                                       i % r.columns)];
  return count;
}

// Against counting, on thousands of small random cases.
TEST(Cover, NamesTheFirstFault) {
  std::mt19937_64 random(1);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  int whole = 0, missing = 0, doubled = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::int64_t rows = 1 + below(4), columns = 1 + below(4);
    std::vector<Rectangle> rectangles;
    for (std::int64_t n = below(5); n >= 0; --n) {
      const std::int64_t row = below(rows), column = below(columns);
      rectangles.push_back({row, column, below(rows - row + 1), below(columns - column + 1)});
    }
    const auto count = counts(rows, columns, rectangles);
    const auto found = cover_fault(rows, columns, rectangles);
    const auto twice = overlap(rectangles);
    const auto first = std::find_if(count.begin(), count.end(), [](int n) { return n != 1; });
    const auto first_twice = std::find_if(count.begin(), count.end(), [](int n) { return n > 1; });
    ASSERT_EQ(found.has_value(), first != count.end());
    ASSERT_EQ(twice.has_value(), first_twice != count.end());
    if (!found) {
      ++whole;
      continue;
    }
    ASSERT_EQ(found->row * columns + found->column, first - count.begin());
    ASSERT_EQ(found->doubled, *first > 1);
    ++(found->doubled ? doubled : missing);
    if (twice) {
      ASSERT_EQ(twice->row * columns + twice->column, first_twice - count.begin());
    }
  }
  EXPECT_GT(whole, 100);
  EXPECT_GT(missing, 100);
  EXPECT_GT(doubled, 100);
}

TEST(PlainNames, HaveNothingThatAPathWouldUnderstand) {
  for (const std::string name : {"layers.0.attention.q.weight", "ranks-12.h5", "a", "A_b+c"})
    EXPECT_TRUE(is_plain_name(name)) << name;
  for (const std::string name :
       {"", ".", "..", "../x", "/x", "a/b", "a\\b", "a b", "a\n", "\xc3\xa9"})
    EXPECT_FALSE(is_plain_name(name)) << name;
  EXPECT_TRUE(is_plain_name(std::string(200, 'a')));
  EXPECT_FALSE(is_plain_name(std::string(201, 'a')));
  EXPECT_FALSE(is_plain_name(std::string("a\0b", 3)));
}

TEST(CheckPiece, RefusesWhatCannotBeStored) {
  const auto refusal = [](const Piece& piece) {
    return testing::sentence_of([&] { check_piece(piece, "here"); });
  };
  const LogicalArray array{{"w", "value"}, {4, 6}, DType::kF32};
  EXPECT_EQ(refusal({array, {0, 0, 4, 6}}), "");
  EXPECT_EQ(refusal({array, {4, 0, 0, 6}}), "");
  EXPECT_EQ(refusal({array, {1, 2, 4, 3}}),
            "here: tensor \"w\" (value): 4 x 3 elements at row 1, column 2 are not inside its "
            "shape (4, 6)");
  constexpr std::int64_t kMost = std::int64_t{0x7fffffffffffffff};
  EXPECT_NE(refusal({array, {1, 0, kMost, 1}}), "");
  EXPECT_NE(refusal({array, {-1, 0, 1, 1}}), "");
  const std::int64_t side = std::int64_t{1} << 32;
  EXPECT_NE(refusal({{{"w", "value"}, {side, side}, DType::kF32}, {0, 0, 1, 1}}).find("64 bits"),
            std::string::npos);
  const std::int64_t half = std::int64_t{1} << 31;
  EXPECT_NE(refusal({{{"w", "value"}, {half, half}, DType::kF32}, {0, 0, 1, 1}}).find("64 bits"),
            std::string::npos);  // in bytes only
  EXPECT_NE(refusal({{{"w", "value"}, {4}, DType::kI32}, {0, 0, 1, 1}}), "");
  EXPECT_NE(refusal({{{"w", "value"}, {2, 2, 2}, DType::kF32}, {0, 0, 1, 1}}), "");
  EXPECT_NE(refusal({{{"../w", "value"}, {4}, DType::kF32}, {0, 0, 1, 1}}), "");
}

}  // namespace
}  // namespace trireme
