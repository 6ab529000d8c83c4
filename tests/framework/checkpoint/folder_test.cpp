// The checkpoints of a run beside each other: visible whole, never overwritten, removed whole.
#include <gtest/gtest.h>

#include <filesystem>

#include "framework/base/error.h"
#include "framework/checkpoint/checkpoint_folder.h"
#include "tests/framework/checkpoint/random_state.h"
#include "tests/support/simulated_files.h"

namespace trireme {
namespace {

using testing::difference_from;
using testing::flat_cut;
using testing::random_cut;
using testing::random_state;
using testing::RandomState;
using testing::save_state;
using testing::sentence_of;
using testing::SimulatedFiles;

using Steps = std::vector<std::int64_t>;

class FolderTest : public ::testing::Test {
 protected:
  void save(std::int64_t step) { save_state(files, folder, step, state, random_cut(state, 2, 3)); }
  void damage(std::int64_t step, const std::string& name) {
    const auto file = files.open(path_join(folder.folder_of(step), name), OpenMode::kReadWrite);
    char byte = 0;
    file->read(&byte, 1, file->size() / 2);
    byte = static_cast<char>(byte ^ 4);
    file->write(&byte, 1, file->size() / 2);
  }
  std::optional<std::int64_t> newest() {
    refused.clear();
    return folder.newest_good(refused);
  }

  SimulatedFiles files;
  CheckpointFolder folder{files, "run/checkpoints"};
  RandomState state = random_state(2, 12);
  std::vector<std::string> refused;
};

TEST_F(FolderTest, EmptyHasNothing) {
  EXPECT_TRUE(folder.steps().empty());
  EXPECT_FALSE(newest().has_value());
  EXPECT_FALSE(folder.latest().has_value());
  folder.prune(1, {});
  folder.discard();
  EXPECT_FALSE(files.exists("run"));
}

TEST_F(FolderTest, StepsAreThoseCommitted) {
  for (const std::int64_t step : {500, 20, 1234567}) save(step);
  EXPECT_EQ(folder.steps(), (Steps{20, 500, 1234567}));
  EXPECT_EQ(folder.folder_of(500), "run/checkpoints/step-000500");
  EXPECT_EQ(read_whole(files, "run/checkpoints/latest"), "step-1234567\n");
  EXPECT_EQ(folder.latest(), 1234567);
  EXPECT_EQ(newest(), 1234567);
  EXPECT_TRUE(refused.empty());
  EXPECT_EQ(read_whole(files, path_join(folder.folder_of(20), "recipe.cfg")),
            "[train]\nsteps = 3 # a \"comment\"\n");
  for (const char* name : {"step-5", "step-0000500", "step-000500.bak", "step--00001", "other"})
    files.make_directories(path_join("run/checkpoints", name));
  EXPECT_EQ(folder.steps(), (Steps{20, 500, 1234567}));
}

TEST_F(FolderTest, ASaveThatIsNotCommittedIsIgnoredAndLaterRemoved) {
  save(8);
  const std::string rubbish = folder.begin(9);
  testing::write_files(files, rubbish, state, random_cut(state, 2, 3));
  EXPECT_EQ(folder.steps(), Steps{8});
  EXPECT_EQ(newest(), 8);
  EXPECT_TRUE(files.exists(rubbish));
  save(10);
  EXPECT_FALSE(files.exists(rubbish));
  EXPECT_EQ(files.list("run/checkpoints"),
            (std::vector<std::string>{"latest", "step-000008", "step-000010"}));
}

TEST_F(FolderTest, TheSameStepAgainMustBeTheSame) {
  save(5);
  files.sync_all();
  const std::string before = read_whole(files, "run/checkpoints/step-000005/manifest.json");
  save(5);
  // Under another layout, too: the old one stays.
  save_state(files, folder, 5, state, flat_cut(state, 3));
  EXPECT_EQ(read_whole(files, "run/checkpoints/step-000005/manifest.json"), before);
  RandomState other = state;
  other.bytes[0][0] ^= std::byte{1};
  const std::string sentence =
      sentence_of([&] { save_state(files, folder, 5, other, flat_cut(state, 3)); });
  EXPECT_NE(sentence.find("step-000005 is there already, whole, and differs"), std::string::npos)
      << sentence;
  EXPECT_EQ(read_whole(files, "run/checkpoints/step-000005/manifest.json"), before);
  EXPECT_EQ(files.list("run/checkpoints"), (std::vector<std::string>{"latest", "step-000005"}));
}

TEST_F(FolderTest, ADamagedOneGivesWay) {
  save(4);
  save(5);
  damage(5, "ranks-0.h5");
  EXPECT_EQ(newest(), 4);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_NE(refused[0].find("step-000005/ranks-0.h5 is damaged"), std::string::npos) << refused[0];
  save(5);
  EXPECT_EQ(newest(), 5);
  EXPECT_EQ(files.list("run/checkpoints"),
            (std::vector<std::string>{"latest", "step-000004", "step-000005"}));
}

// On a real disk: a link to a checkpoint is one; what it leads to outlives it; one that leads
// nowhere is passed over, and gives way.
TEST(FolderLinks, AreFollowedReplacedAndNeverEmptied) {
  namespace fs = std::filesystem;
  const testing::TemporaryFolder place;
  const auto files = real_files();
  const RandomState state = random_state(2, 12);
  CheckpointFolder folder(*files, place / "checkpoints");
  const auto save = [&](std::int64_t step) {
    save_state(*files, folder, step, state, random_cut(state, 2, 3));
  };
  for (const std::int64_t step : {4, 5}) save(step);
  fs::rename(folder.folder_of(4), place / "four");
  fs::create_directory_symlink(place / "four", folder.folder_of(4));
  fs::rename(folder.folder_of(5), place / "five");
  fs::create_directory_symlink(place / "nowhere", folder.folder_of(5));
  std::vector<std::string> refused;
  EXPECT_EQ(folder.newest_good(refused), 4);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_NE(refused[0].find("step-000005 has no manifest.json"), std::string::npos) << refused[0];
  save(5);
  refused.clear();
  EXPECT_EQ(folder.newest_good(refused), 5);
  EXPECT_EQ(refused, std::vector<std::string>{});
  EXPECT_FALSE(fs::is_symlink(folder.folder_of(5)));
  folder.prune(1, {});
  EXPECT_EQ(folder.steps(), Steps{5});
  EXPECT_EQ(verify_checkpoint(*files, place / "four"), std::vector<std::string>{});
}

TEST_F(FolderTest, NoneLeftNamesAll) {
  save(4);
  save(5);
  damage(5, "manifest.json");
  files.remove(path_join(folder.folder_of(4), "manifest.json"));
  EXPECT_FALSE(newest().has_value());
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_NE(refused[0].find("step-000005/manifest.json"), std::string::npos) << refused[0];
  EXPECT_NE(refused[1].find("step-000004 has no manifest.json"), std::string::npos) << refused[1];
}

TEST_F(FolderTest, ARenamedOneIsNotTakenForAnotherStep) {
  save(4);
  files.rename(folder.folder_of(4), folder.folder_of(9));
  EXPECT_FALSE(newest().has_value());
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_NE(refused[0].find("holds another step"), std::string::npos);
}

TEST_F(FolderTest, PruneKeepsTheNewestAndTheNamed) {
  for (std::int64_t step = 1; step <= 6; ++step) save(step);
  const std::int64_t before = files.used();
  std::int64_t freed = 0;
  Steps gone;
  for (const auto& [step, bytes] : folder.prune(2, {2, 6, 99})) {
    gone.push_back(step);
    freed += bytes;
  }
  EXPECT_EQ(folder.steps(), (Steps{2, 5, 6}));
  EXPECT_EQ(gone, (Steps{1, 3, 4}));
  EXPECT_EQ(freed, before - files.used());
  folder.prune(10, {});
  EXPECT_EQ(folder.steps(), (Steps{2, 5, 6}));
  EXPECT_NE(sentence_of([&] { folder.prune(0, {}); }), "");
  EXPECT_EQ(files.list("run/checkpoints").size(), 4u);
}

TEST_F(FolderTest, PruneKeepsMultiples) {
  for (std::int64_t step = 1; step <= 7; ++step) save(step);
  folder.prune(1, {}, 3);
  EXPECT_EQ(folder.steps(), (Steps{3, 6, 7}));
}

TEST_F(FolderTest, WhatIsNotWholeIsNotCommitted) {
  const auto refusal = [&](const auto& change) {
    Manifest manifest;
    manifest.step = 3;
    const std::string temporary = folder.begin(3);
    manifest.files = testing::write_files(files, temporary, state, random_cut(state, 2, 3));
    change(temporary, manifest);
    const std::string sentence = sentence_of([&] { folder.commit(manifest); });
    EXPECT_TRUE(folder.steps().empty());
    EXPECT_TRUE(files.list("run/checkpoints").empty());
    return sentence;
  };
  EXPECT_NE(
      refusal([](const std::string&, Manifest& m) { m.files.pop_back(); }).find("is in no piece"),
      std::string::npos);
  EXPECT_NE(refusal([&](const std::string& where, Manifest&) {
              files.remove(path_join(where, "ranks-1.h5"));
            }).find("ranks-1.h5"),
            std::string::npos);
  EXPECT_NE(refusal([&](const std::string& where, Manifest& m) {
              files.open(path_join(where, "ranks-1.h5"), OpenMode::kReadWrite)
                  ->truncate(m.files[1].bytes - 1);
            }).find("ranks-1.h5"),
            std::string::npos);
  EXPECT_NE(refusal([](const std::string&, Manifest& m) { m.recipe = "\xff"; }), "");
  Manifest manifest;
  manifest.step = 77;
  EXPECT_NE(sentence_of([&] { folder.commit(manifest); }).find("was not begun"), std::string::npos);
}

TEST_F(FolderTest, LatestIsReadStrictly) {
  save(3);
  for (const std::string text :
       {"", "step-000003", "step-000004\n", "step-3\n", "../x\n", "step-000003\n\n"}) {
    files.remove("run/checkpoints/latest");
    const auto file = files.open("run/checkpoints/latest", OpenMode::kCreate);
    file->write(text.data(), static_cast<std::int64_t>(text.size()), 0);
    EXPECT_NE(sentence_of([&] { folder.latest(); }).find("run/checkpoints/latest"),
              std::string::npos)
        << text;
  }
  EXPECT_EQ(newest(), 3);  // needs it not
}

}  // namespace
}  // namespace trireme
