// Damage of every kind to a tiny checkpoint: each load is a sentence that names the file, or
// everything bit by bit; never zeros, never a signal.
#include <gtest/gtest.h>

#include <iostream>

#include "framework/base/error.h"
#include "tests/framework/checkpoint/random_state.h"
#include "tests/support/fault_count.h"
#include "tests/support/simulated_files.h"

namespace trireme {
namespace {

using testing::Cut;
using testing::difference_from;
using testing::flat_cut;
using testing::random_cut;
using testing::random_state;
using testing::RandomState;
using testing::save_state;
using testing::sentence_of;
using testing::SimulatedFiles;

constexpr std::int64_t kStep = 7;

class DamageTest : public ::testing::Test {
 protected:
  DamageTest() {
    for (RandomState* both : {&state, &old_state}) {
      both->arrays.resize(9);  // small, since 2,000 loads follow
      both->bytes.resize(9);
    }
    old_state.bytes[0][0] ^= std::byte{1};
    const Cut cut = random_cut(state, 2, 4);
    save_state(files, folder, kStep - 1, old_state, cut);
    save_state(files, folder, kStep, state, cut);
    where = folder.folder_of(kStep);
  }
  // The load of another layout than the one that saved.
  std::string load() {
    std::string differs;
    const std::string sentence = sentence_of([&] {
      const CheckpointReader reader(files, where);
      for (const auto& pieces : flat_cut(state, 3))
        for (const Piece& piece : pieces) {
          const auto expected = testing::bytes_of(state, piece.array, piece.at);
          std::vector<std::byte> read(expected.size());
          reader.read(piece.array.name, piece.at, piece.array.dtype, read.data());
          if (read != expected) differs = describe(piece.array.name);
        }
    });
    EXPECT_TRUE(!sentence.empty() || differs.empty()) << differs << " is wrong, and nobody said so";
    return sentence;
  }
  void replace(const std::string& path, const std::string& bytes) {
    files.remove_all(path);
    const auto file = files.open(path, OpenMode::kCreate);
    file->write(bytes.data(), static_cast<std::int64_t>(bytes.size()), 0);
  }
  // A load that must fail, naming the file; and so must verify.
  void expect_named(const std::string& name) {
    const std::string sentence = load();
    EXPECT_NE(sentence.find(name), std::string::npos) << sentence;
    expect_verify_names({name});
  }
  void expect_verify_names(const std::vector<std::string>& names) {
    const auto problems = verify_checkpoint(files, where);
    for (const std::string& name : names) {
      bool named = false;
      for (const std::string& problem : problems) named |= problem.find(name) != problem.npos;
      EXPECT_TRUE(named) << name;
    }
  }

  SimulatedFiles files;
  CheckpointFolder folder{files, "run/checkpoints"};
  RandomState state = random_state(1, 20);
  RandomState old_state = random_state(1, 20);  // an older step's; the shapes are the same
  std::string where;
};

// R13.
TEST_F(DamageTest, OneFlippedBitIsNamedOrHarmless) {
  struct Target {
    std::string path, bytes;
  };
  std::vector<Target> targets;
  for (const std::string& name : files.list(where)) {
    const std::string path = path_join(where, name);
    targets.push_back({path, read_whole(files, path)});
  }
  targets.push_back({"run/checkpoints/latest", read_whole(files, "run/checkpoints/latest")});
  std::mt19937_64 random(11);
  int named = 0, harmless = 0, unverified = 0;
  for (int i = 0; i < 2000; ++i) {
    const Target& target = targets[static_cast<std::size_t>(i) % targets.size()];
    // Most bytes of these small files are padding: half of the flips go where something is.
    std::size_t at = random() % target.bytes.size();
    if (i % 2 == 0)
      while (target.bytes[at] == 0) at = random() % target.bytes.size();
    const auto file = files.open(target.path, OpenMode::kReadWrite);
    const char flipped = static_cast<char>(target.bytes[at] ^ (1 << (random() % 8)));
    file->write(&flipped, 1, static_cast<std::int64_t>(at));
    const std::string sentence = load();
    if (sentence.empty())
      ++harmless;
    else
      ++named;
    EXPECT_TRUE(sentence.empty() || sentence.find(target.path) != sentence.npos) << sentence;
    // A whole verification misses nothing in the folder.
    const auto problems = verify_checkpoint(files, where);
    const bool inside = target.path.find(where) == 0;
    EXPECT_EQ(problems.size(), inside ? 1u : 0u) << target.path << " byte " << at;
    for (const std::string& problem : problems)
      EXPECT_NE(problem.find(target.path), std::string::npos) << problem;
    if (!inside) {
      std::optional<std::int64_t> latest;
      const std::string said = sentence_of([&] { latest = folder.latest(); });
      EXPECT_TRUE(said.find(target.path) != said.npos || latest == kStep - 1) << said;
      ++unverified;
    }
    file->write(&target.bytes[at], 1, static_cast<std::int64_t>(at));
  }
  EXPECT_EQ(load(), "");
  EXPECT_GT(named, 400);
  EXPECT_GT(harmless, 400);
  EXPECT_GT(unverified, 100);
  test::tell({.row = "R13",
              .what = "flipped bits of a checkpoint",
              .runs = 2000,
              .injected = named + harmless,
              .lost = HasFailure() ? 1 : 0});
}

// R15.
TEST_F(DamageTest, FilesThatAreGoneOrOfAnotherSizeAreNamed) {
  for (const std::string name :
       {"ranks-0.h5", "ranks-1.h5", "checkpoint.h5", "recipe.cfg", "manifest.json"}) {
    SCOPED_TRACE(name);
    const std::string path = path_join(where, name);
    const std::string bytes = read_whole(files, path);
    files.remove(path);
    expect_named(name);
    replace(path + ".x", bytes);
    files.rename(path + ".x", path);
    replace(path, bytes.substr(0, bytes.size() - 1));
    expect_named(name);
    replace(path, bytes + '\0');
    expect_named(name);
    replace(path, "");
    expect_named(name);
    replace(path, bytes);
    EXPECT_EQ(load(), "");
  }
  test::tell({.row = "R15",
              .what = "files of a checkpoint that are gone, cut or longer",
              .runs = 20,
              .injected = 20,
              .lost = HasFailure() ? 1 : 0});
}

// Cut anywhere, lengthened by anything.
TEST_F(DamageTest, FortyOtherLengthsAreNamed) {
  const std::vector<std::string> names = files.list(where);
  std::mt19937_64 random(15);
  for (std::size_t i = 0; i < 40; ++i) {
    const std::string& name = names[i % names.size()];
    const std::string path = path_join(where, name), bytes = read_whole(files, path);
    const std::size_t length =
        i % 4 == 3 ? bytes.size() + 1 + random() % 5000 : random() % bytes.size();
    SCOPED_TRACE(name + " of " + std::to_string(length) + " bytes");
    files.open(path, OpenMode::kReadWrite)->truncate(static_cast<std::int64_t>(length));
    expect_named(name);
    replace(path, bytes);
    ASSERT_EQ(load(), "");
  }
  test::tell({.row = "R15",
              .what = "files of a checkpoint of 40 other lengths",
              .runs = 40,
              .injected = 40,
              .lost = HasFailure() ? 1 : 0});
}

TEST_F(DamageTest, ADirectoryInPlaceOfAFileIsNamed) {
  files.remove(path_join(where, "ranks-1.h5"));
  files.make_directories(path_join(where, "ranks-1.h5"));
  expect_named("ranks-1.h5");
}

TEST_F(DamageTest, AllBadFilesAreListed) {
  files.remove(path_join(where, "ranks-0.h5"));
  files.open(path_join(where, "ranks-1.h5"), OpenMode::kReadWrite)->truncate(5);
  files.remove(path_join(where, "recipe.cfg"));
  EXPECT_EQ(verify_checkpoint(files, where).size(), 3u);
  expect_verify_names({"ranks-0.h5", "ranks-1.h5", "recipe.cfg"});
  EXPECT_NE(load().find("2 more of its files"), std::string::npos);
}

// Files of one size, so that nothing but the hashes can tell: each two of a step, each of an older
// step in the place of each, and what a step has once.
TEST_F(DamageTest, FilesOfAnotherPlaceOrStepAreNamed) {
  constexpr int kFiles = 5;
  const LogicalArray array{{"w", "value"}, {2 * kFiles, 100}, DType::kF32};
  RandomState twin;
  twin.arrays = {array};
  twin.bytes.emplace_back(800 * kFiles);
  for (std::size_t i = 0; i < twin.bytes[0].size(); ++i)
    twin.bytes[0][i] = static_cast<std::byte>(i * 7 + i / 800);
  Cut cut;
  for (int i = 0; i < kFiles; ++i) cut.push_back({{array, {2 * i, 0, 2, 100}}});
  save_state(files, folder, 20, twin, cut);
  for (std::size_t i = 0; i < kFiles; ++i) twin.bytes[0][800 * i + 3] ^= std::byte{1};
  save_state(files, folder, 21, twin, cut);
  const std::string old = folder.folder_of(20);
  where = folder.folder_of(21);
  state = twin;
  ASSERT_EQ(load(), "");
  int swaps = 0;
  const auto give = [&](const std::string& name, const std::string& bytes) {
    replace(path_join(where, name), bytes);
  };
  const auto file = [](int i) { return "ranks-" + std::to_string(i) + ".h5"; };
  const auto of = [&](const std::string& from, const std::string& name) {
    return read_whole(files, path_join(from, name));
  };
  for (int a = 0; a < kFiles; ++a)
    for (int b = a + 1; b < kFiles; ++b, ++swaps) {
      SCOPED_TRACE(file(a) + " and " + file(b));
      const std::string first = of(where, file(a)), second = of(where, file(b));
      ASSERT_EQ(first.size(), second.size());
      give(file(a), second);
      give(file(b), first);
      expect_named(file(a));
      expect_verify_names({file(a), file(b)});
      give(file(a), first);
      give(file(b), second);
    }
  for (int a = 0; a < kFiles; ++a)
    for (int b = 0; b < kFiles; ++b, ++swaps) {
      SCOPED_TRACE(file(a) + " of the step before as " + file(b));
      const std::string own = of(where, file(b));
      give(file(b), of(old, file(a)));
      expect_named(file(b));
      give(file(b), own);
    }
  for (const std::string name : {"checkpoint.h5", "recipe.cfg", "ranks-0.h5", "manifest.json"}) {
    SCOPED_TRACE(name);
    const std::string other = name == "checkpoint.h5" ? "recipe.cfg" : "checkpoint.h5";
    const std::string own = of(where, name);
    give(name, of(where, other));
    expect_named(name);
    give(name, own);
    ++swaps;
  }
  give("manifest.json", of(old, "manifest.json"));  // whole, and of the older step
  EXPECT_NE(load(), "");
  ++swaps;
  EXPECT_EQ(swaps, 40);
  test::tell({.row = "R15",
              .what = "files that are swapped, or of another step",
              .runs = swaps,
              .injected = swaps,
              .lost = HasFailure() ? 1 : 0});
}

// A whole other manifest: what it lists is not what lies there.
TEST_F(DamageTest, TheManifestOfAnotherStepIsNotBelieved) {
  RandomState other = random_state(2, 20);
  save_state(files, folder, 30, other, random_cut(other, 2, 9));
  replace(path_join(where, "manifest.json"),
          read_whole(files, path_join(folder.folder_of(30), "manifest.json")));
  EXPECT_NE(load(), "");
  EXPECT_FALSE(verify_checkpoint(files, where).empty());
}

}  // namespace
}  // namespace trireme
