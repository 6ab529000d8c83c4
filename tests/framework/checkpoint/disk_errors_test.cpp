// Saves and loads on a disk that errs: at every call an error once and for ever, no room, too few
// open files, short counts. The answer is right or a sentence, and the older checkpoint stays
// whole.
#include <gtest/gtest.h>

#include <iostream>

#include "framework/base/error.h"
#include "framework/checkpoint/checkpoint_reader.h"
#include "tests/framework/checkpoint/toy_saves.h"
#include "tests/support/fault_count.h"

namespace trireme {
namespace {

using testing::every_persistence;
using testing::Fault;
using testing::find_toy;
using testing::FoundToy;
using testing::is_tidy;
using testing::kToyFolder;
using testing::Persistence;
using testing::save_toy;
using testing::sentence_of;
using testing::SimulatedFiles;

// After a save of step 2 that may have failed: old or new, and the next one works. Tries every
// `stride`-th choice of a power cut, from `first` on.
void check_after_failure(SimulatedFiles& files, const std::string& failure, std::size_t first = 0,
                         std::size_t stride = 1) {
  const auto expect_sound = [&](const FoundToy& found) {
    EXPECT_TRUE(found.step == 2 || (!failure.empty() && found.step == 1)) << text_of(found);
    EXPECT_TRUE(found.complaints.empty()) << text_of(found);
  };
  files.trouble({});
  EXPECT_EQ(files.open_now(), 0);
  expect_sound(find_toy(files));
  const auto choices = every_persistence();
  for (std::size_t i = first % stride; i < choices.size(); i += stride) {
    SCOPED_TRACE(text_of(choices[i]));
    expect_sound(find_toy(*files.restart(choices[i], first + 1)));
  }
  EXPECT_EQ(sentence_of([&] { save_toy(files, 3, 1); }), "");
  EXPECT_EQ(find_toy(files).step, 3);
  EXPECT_TRUE(is_tidy(files));
}

// R11 for saves. An error of a sync, for one, drops what it was to save: nobody may believe it.
TEST(SaveUnderErrors, IsWholeOrASentence) {
  std::int64_t fired = 0, refused = 0, runs = 0;
  for (const Fault fault :
       {Fault::kIoError, Fault::kDiskFull, Fault::kInterrupted, Fault::kOneByte, Fault::kHalf})
    for (const bool sticky : {false, true}) {
      const bool harmless = fault == Fault::kOneByte || fault == Fault::kHalf ||
                            (fault == Fault::kInterrupted && !sticky);
      const bool all = fault == Fault::kIoError || (fault == Fault::kDiskFull && !sticky);
      const bool slow = fault == Fault::kInterrupted && sticky;  // each call is tried 1000 times
      for (std::int64_t k = 1;; k += all ? 1 : slow ? 61 : 7) {
        SCOPED_TRACE(::testing::Message() << "fault " << static_cast<int>(fault)
                                          << (sticky ? " sticky" : "") << " at call " << k);
        SimulatedFiles files;
        save_toy(files, 1, 2);
        files.trouble({.plan = {.fault = fault, .at = k, .sticky = sticky}});
        const std::string failure = sentence_of([&] { save_toy(files, 2, 2); });
        fired += files.fired();
        refused += failure.empty() ? 0 : 1;
        ++runs;
        EXPECT_TRUE(!harmless || failure.empty()) << failure;
        const bool over = files.calls() < k;
        check_after_failure(files, failure, static_cast<std::size_t>(k), 8);
        if (over) break;
        ASSERT_FALSE(HasFailure());
      }
    }
  EXPECT_GT(refused, 100);
  test::tell({.row = "R11",
              .what = "saves under errors at every call",
              .runs = runs,
              .injected = fired,
              .lost = HasFailure() ? 1 : 0});
}

// R9.
TEST(SaveOnAFullDisk, SaysWhatItNeedsAndLeavesNothing) {
  SimulatedFiles files;
  save_toy(files, 1, 2);
  const std::int64_t before = files.used();
  save_toy(files, 2, 2);
  const std::int64_t bytes = files.used() - before;
  for (const std::int64_t room : {std::int64_t{0}, std::int64_t{1}, bytes / 2, bytes - 1}) {
    SCOPED_TRACE(::testing::Message() << room << " of " << bytes << " bytes");
    SimulatedFiles full;
    save_toy(full, 1, 2);
    full.trouble({.capacity = before + room});
    const std::string failure = sentence_of([&] { save_toy(full, 2, 2); });
    EXPECT_NE(failure, "");
    EXPECT_TRUE(failure.find("free") != failure.npos || failure.find("No space") != failure.npos)
        << failure;
    full.trouble({.capacity = before + room});
    CheckpointFolder(full, kToyFolder).discard();
    EXPECT_TRUE(is_tidy(full));
    EXPECT_EQ(full.used(), before);
    check_after_failure(full, failure);
  }
  test::tell({.row = "R9",
              .what = "a disk that is full in a save",
              .runs = 4,
              .injected = 4,
              .lost = HasFailure() ? 1 : 0});
}

TEST(SaveWithFewOpenFiles, IsASentence) {
  for (std::int64_t limit = 0; limit < 2; ++limit) {
    SimulatedFiles poor;
    save_toy(poor, 1, 2);
    poor.trouble({.open_files = limit});
    const std::string failure = sentence_of([&] { save_toy(poor, 2, 2); });
    EXPECT_NE(failure.find("Too many open files"), failure.npos) << failure;
    check_after_failure(poor, failure);
  }
}

// R12.
TEST(SaveUnderStutter, ChangesNoByte) {
  SimulatedFiles quiet;
  save_toy(quiet, 1, 2);
  SimulatedFiles stuttering({.stutter = true});
  save_toy(stuttering, 1, 2);
  EXPECT_GT(stuttering.fired(), 50);
  const FoundToy found = find_toy(stuttering);  // reading stutters too
  EXPECT_EQ(found.step, 1);
  EXPECT_TRUE(found.complaints.empty()) << text_of(found);
  const std::string folder = CheckpointFolder(quiet, kToyFolder).folder_of(1);
  for (const std::string& name : quiet.list(folder))
    EXPECT_EQ(read_whole(quiet, path_join(folder, name)),
              read_whole(stuttering, path_join(folder, name)))
        << name;
  test::tell({.row = "R12",
              .what = "a save with short counts and EINTR",
              .runs = 1,
              .injected = stuttering.fired(),
              .lost = HasFailure() ? 1 : 0});
}

// R10: files of the newest that cannot be read are all named, and the older one is taken.
TEST(LoadFromABadDisk, NamesTheFileAndTakesTheOlder) {
  SimulatedFiles files;
  save_toy(files, 1, 2);
  save_toy(files, 2, 2);
  const std::string newest = CheckpointFolder(files, kToyFolder).folder_of(2);
  for (const std::string name : {"ranks-0.h5", "ranks-1.h5", "manifest.json"}) {
    files.trouble(
        {.broken = [&](const std::string& path) { return path == path_join(newest, name); }});
    const FoundToy found = find_toy(files);
    EXPECT_EQ(found.step, 1) << name;
    EXPECT_TRUE(found.complaints.empty()) << text_of(found);
    ASSERT_EQ(found.refused.size(), 1u);
    EXPECT_NE(found.refused[0].find(name), std::string::npos) << found.refused[0];
  }
  files.trouble(
      {.broken = [](const std::string& path) { return path.find("ranks-") != path.npos; }});
  const auto damages = verify_checkpoint(files, newest);
  EXPECT_GE(damages.size(), 2u);
  EXPECT_EQ(find_toy(files).step, 0);
  test::tell({.row = "R10",
              .what = "files of the newest checkpoint that cannot be read",
              .runs = 4,
              .injected = 4,
              .lost = HasFailure() ? 1 : 0});
}

// Reading under an error at every call: the right step, or an older one with a sentence.
TEST(LoadUnderErrors, IsRightOrASentence) {
  SimulatedFiles files;
  save_toy(files, 1, 2);
  save_toy(files, 2, 2);
  std::int64_t fired = 0;
  for (const Fault fault : {Fault::kIoError, Fault::kInterrupted, Fault::kOneByte, Fault::kHalf})
    for (std::int64_t k = 1;; ++k) {
      SCOPED_TRACE(::testing::Message() << "fault " << static_cast<int>(fault) << " at " << k);
      files.trouble({.plan = {.fault = fault, .at = k}});
      const FoundToy found = find_toy(files);
      fired += files.fired();
      const bool quiet = found.step == 2 && found.complaints.empty() && found.refused.empty();
      const bool told = !found.complaints.empty() || !found.refused.empty();
      EXPECT_TRUE(quiet || told) << text_of(found);
      EXPECT_TRUE(quiet || fault == Fault::kIoError) << text_of(found);
      if (files.calls() < k) break;
    }
  EXPECT_GT(fired, 50);
}

}  // namespace
}  // namespace trireme
