// A schedule flattened to uses of list entries.
#include "pipeline/uses.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"

namespace trireme {
namespace {

std::string text(const std::vector<Use>& uses) {
  std::string out;
  for (const Use& use : uses) {
    out += use.kind == Use::Kind::kForward ? 'F' : use.kind == Use::Kind::kBackward ? 'B' : 'W';
    out += std::to_string(use.micro) + "." + std::to_string(use.entry) + " ";
  }
  return out;
}

TEST(Uses, ForwardInListOrderBackwardInReverse) {
  EXPECT_EQ(text(flatten(gpipe(1, 2, 0), {3})),
            "F0.0 F0.1 F0.2 F1.0 F1.1 F1.2 B1.2 B1.1 B1.0 B0.2 B0.1 B0.0 ");
  EXPECT_EQ(text(flatten(zero_bubble_h1(1, 1, 0), {2})), "F0.0 F0.1 B0.1 B0.0 W0.1 W0.0 ");
}

TEST(Uses, EntriesOfLaterChunksComeAfterThoseOfEarlierOnes) {
  const std::vector<Use> uses = flatten(interleaved(1, 1, 2, 0), {2, 1});
  EXPECT_EQ(text(uses), "F0.0 F0.1 F0.2 B0.2 B0.1 B0.0 ");
}

TEST(Uses, EveryEntryIsUsedOncePerMicroBatch) {
  for (ScheduleKind kind : {ScheduleKind::kGPipe, ScheduleKind::kOneFOneB,
                            ScheduleKind::kZeroBubbleH1, ScheduleKind::kInterleaved}) {
    const int chunks = kind == ScheduleKind::kInterleaved ? 2 : 1;
    const Schedule all = make_schedule(kind, 4, 8, chunks);
    for (const ActionList& actions : all) {
      const std::vector<int> entries(static_cast<std::size_t>(chunks), 3);
      const std::vector<Use> uses = flatten(actions, entries);
      EXPECT_EQ(backward_uses(uses, 3 * chunks),
                std::vector<std::int64_t>(static_cast<std::size_t>(3 * chunks), 8));
      for (const Use& use : uses)
        EXPECT_FALSE(is_communication(actions[static_cast<std::size_t>(use.action)].kind));
    }
  }
}

TEST(Uses, AChunkThatIsNotThereIsRefused) {
  EXPECT_THROW(flatten(interleaved(1, 1, 2, 0), {2}), Error);
}

}  // namespace
}  // namespace trireme
