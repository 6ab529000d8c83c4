// Windows against a count token by token.
#include "recipes/commands/score_windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace trireme {
namespace {

TEST(ScoreWindows, EachTokenButTheFirstOnceBehindTheMostThatItsWindowsShow) {
  for (std::int64_t tokens = 2; tokens < 40; ++tokens)
    for (std::int64_t window = 1; window < 12; ++window)
      for (std::int64_t stride = 1; stride <= window; ++stride) {
        const ScoreWindows w{.tokens = tokens, .window = window, .stride = stride};
        std::vector<std::int64_t> context(static_cast<std::size_t>(tokens), -1);
        for (std::int64_t k = 0; k < w.count(); ++k) {
          ASSERT_LE(w.end(k) - w.begin(k), window);
          ASSERT_LT(w.end(k), tokens);
          for (std::int64_t at = w.first_scored(k); at < w.last_scored(k); ++at) {
            ASSERT_EQ(context[static_cast<std::size_t>(at)], -1);
            context[static_cast<std::size_t>(at)] = at - w.begin(k);
          }
        }
        ASSERT_EQ(context[0], -1);
        for (std::int64_t at = 1; at < tokens; ++at) {
          // The first window, of all that begin at multiples of the stride, that reaches its
          // predecessor: no later one shows more.
          std::int64_t begin = 0;
          while (begin + window < at) begin += stride;
          ASSERT_EQ(context[static_cast<std::size_t>(at)], at - begin);
          ASSERT_GE(at - begin, std::min(at, window - stride + 1));
        }
      }
}

}  // namespace
}  // namespace trireme
