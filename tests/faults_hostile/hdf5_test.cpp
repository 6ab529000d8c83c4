// R24: HDF5 files with traps, as tokens and in a checkpoint's folder with a manifest that fits
// them. Each is a sentence or what the manifest says, before libhdf5 has followed anything: no file
// but the given one is opened, no library is loaded.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstdlib>
#include <cstring>

#include "framework/base/error.h"
#include "framework/checkpoint/checkpoint_folder.h"
#include "framework/checkpoint/rest_hash.h"
#include "framework/data/token_file.h"
#include "framework/data/token_seal.h"
#include "tests/faults_hostile/hdf5_bombs.h"
#include "tests/faults_hostile/watched_files.h"
#include "tests/support/fault_count.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using test::Bomb;
using test::WatchedFiles;
using testing::sentence_of;
using testing::TemporaryFolder;

// Made once: a hundred thousand attributes take their time.
class Hdf5Bombs : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    setenv("HDF5_PLUGIN_PATH", (*folder_ / "plugins").c_str(), 1);
    bombs_ = test::make_bombs(folder_->path());
  }
  static void TearDownTestSuite() {
    folder_.reset();
    unsetenv("HDF5_PLUGIN_PATH");
  }

  const TemporaryFolder& folder = *folder_;
  const std::vector<Bomb>& bombs = bombs_;

 private:
  static inline std::unique_ptr<TemporaryFolder> folder_;
  static inline std::vector<Bomb> bombs_;
};

// Runs `call`, which may open `allowed` and load nothing.
template <typename Call>
std::string quietly(const std::set<std::string>& allowed, const std::string& what,
                    const Call& call) {
  WatchedFiles files;
  const auto libraries = test::loaded_libraries();
  const auto paths = test::open_paths();
  const std::string sentence = sentence_of([&] { call(files); });
  EXPECT_EQ(test::loaded_libraries(), libraries) << what;
  EXPECT_EQ(test::open_paths(), paths) << what;
  for (const std::string& path : files.opened) EXPECT_TRUE(allowed.contains(path)) << path;
  return sentence;
}

TEST_F(Hdf5Bombs, AsTokensAreRefusedByName) {
  test::FaultCount count{.row = "R24", .what = "HDF5 traps as data.tokens, with and without seal"};
  for (const Bomb& bomb : bombs)
    for (const bool sealed : {false, true}) {
      if (sealed) {
        const auto file = real_files()->open(bomb.path, OpenMode::kReadWrite);
        if (file->size() > (1 << 20)) continue;  // a seal is over little, or it is none
        seal_token_file(*file, {std::max<std::int64_t>(bomb.offset, 4096),
                                bomb.offset > 0 ? std::int64_t{10} : std::int64_t{0}});
      }
      const std::string sentence =
          quietly({bomb.path}, bomb.name, [&](Files& files) { TokenFile::open(files, bomb.path); });
      ++count.runs;
      ++count.injected;
      const bool told = sentence.starts_with("token file " + bomb.path);
      EXPECT_TRUE(told) << bomb.name << ": " << sentence;
      count.lost += told ? 0 : 1;
    }
  test::tell(count);
}

// The suite can fail: a reader that trusts libhdf5 walks into the trap, and reads the secret.
TEST_F(Hdf5Bombs, CatchWhoFollowsThem) {
  const hid_t file = H5Fopen((folder / "external_storage.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t tokens = H5Dopen2(file, "tokens", H5P_DEFAULT);
  std::string read(10, ' ');
  H5Dread(tokens, H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, read.data());
  H5Dclose(tokens);
  H5Fclose(file);
  EXPECT_EQ(read, "0123456789");
}

// And the tokens of a whole file are not refused.
TEST_F(Hdf5Bombs, AWholeTokenFileIsNoTrap) {
  const std::string path = folder / "whole.h5";
  const auto files = real_files();
  TokenWriter writer(*files, path, "bytes", 256);
  writer.add({1, 2, 3});
  writer.finish(std::string(32, '0'));
  EXPECT_EQ(quietly({path}, "whole", [&](Files& watched) { TokenFile::open(watched, path); }), "");
  EXPECT_NE(sentence_of([&] {
              WatchedFiles watched;
              TokenFile::open(watched, folder / "secret");
            }),
            "");
}

// A manifest that fits the trap: each byte of the file is as it says. Loading goes by its offsets
// alone, so what HDF5 would have followed is never looked at; the one array is what it is.
TEST_F(Hdf5Bombs, InACheckpointAreNeverFollowed) {
  test::FaultCount count{.row = "R24",
                         .what = "HDF5 traps in a checkpoint with a fitting manifest"};
  const auto files = real_files();
  std::int64_t step = 0;
  for (const Bomb& bomb : bombs) {
    CheckpointFolder checkpoints(*files, folder / "run");
    const std::string temporary = checkpoints.begin(++step);
    const std::string bytes = read_whole(*files, bomb.path);
    write_whole_atomically(*files, path_join(temporary, "ranks-0.h5"), bytes);
    StoredFile stored{.name = "ranks-0.h5", .bytes = static_cast<std::int64_t>(bytes.size())};
    const std::int64_t begin = bomb.offset > 0 ? bomb.offset : 64;
    StoredPiece piece;
    piece.piece = {{{"w", "value"}, {2}, DType::kF32}, {0, 0, 2, 1}};
    piece.dataset = dataset_path(piece.piece);
    piece.offset = begin;
    piece.hashes = {block_hash(bytes.data() + begin, 8)};
    stored.pieces = {piece};
    const auto raw = files->open(path_join(temporary, "ranks-0.h5"), OpenMode::kRead);
    stored.rest_hash = rest_hash(*raw, stored);
    checkpoints.commit({.run = "x", .step = step, .files = {stored}});
    const std::string where = checkpoints.folder_of(step);
    std::vector<float> read(2);
    std::set<std::string> allowed;
    for (const std::string& name : files->list(where)) allowed.insert(path_join(where, name));
    const std::string sentence = quietly(allowed, bomb.name, [&](Files& watched) {
      const CheckpointReader reader(watched, where);
      reader.read({"w", "value"}, {0, 0, 2, 1}, DType::kF32, read.data());
      for (const std::string& problem : verify_checkpoint(watched, where)) fail(problem);
    });
    ++count.runs;
    ++count.injected;
    const bool as_told = sentence.empty() && std::memcmp(read.data(), bytes.data() + begin, 8) == 0;
    EXPECT_TRUE(as_told) << bomb.name << ": " << sentence;
    count.lost += as_told ? 0 : 1;
  }
  test::tell(count);
}

}  // namespace
}  // namespace trireme
