// What other programs see: the files through libhdf5 with its own file access, and through h5py
// where that is installed.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "tests/framework/checkpoint/random_state.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::Cut;
using testing::flat_cut;
using testing::random_cut;
using testing::random_state;
using testing::RandomState;
using testing::save_state;
using testing::TemporaryFolder;

class ViewTest : public ::testing::Test {
 protected:
  ViewTest() {
    save_state(*files, checkpoints, 3, state, random_cut(state, 3, 2));
    where = checkpoints.folder_of(3);
  }

  TemporaryFolder folder;
  std::unique_ptr<Files> files = real_files();
  CheckpointFolder checkpoints{*files, folder / "checkpoints"};
  RandomState state = random_state(8, 50);
  std::string where;
};

std::vector<std::byte> whole(hid_t file, const LogicalArray& array) {
  const hid_t data =
      H5Dopen2(file, ("/" + array.name.tensor + "/" + array.name.array).c_str(), H5P_DEFAULT);
  const hid_t type = H5Dget_type(data), space = H5Dget_space(data);
  hsize_t extents[2] = {0, 1};
  EXPECT_EQ(H5Sget_simple_extent_dims(space, extents, nullptr), array.shape.dims());
  EXPECT_EQ(static_cast<std::int64_t>(extents[0]), array.rows());
  EXPECT_EQ(static_cast<std::int64_t>(extents[1]), array.columns());
  EXPECT_EQ(H5Tget_size(type), static_cast<std::size_t>(size_of(array.dtype)));
  EXPECT_EQ(H5Aexists(data, "dtype") > 0, array.dtype == DType::kBF16);
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(array.rows() * array.columns() * size_of(array.dtype)));
  EXPECT_GE(H5Dread(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), 0);
  H5Sclose(space);
  H5Tclose(type);
  H5Dclose(data);
  return bytes;
}

TEST_F(ViewTest, EveryArrayIsWholeThroughLibhdf5) {
  const hid_t file = H5Fopen((where + "/checkpoint.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  for (std::size_t a = 0; a < state.arrays.size(); ++a)
    EXPECT_EQ(whole(file, state.arrays[a]), state.bytes[a]) << describe(state.arrays[a].name);
  H5Fclose(file);
}

// The names of the files are relative: a checkpoint may be moved.
TEST_F(ViewTest, StaysWholeInAnotherPlace) {
  const std::string moved = folder / "moved";
  files->rename(where, moved);
  const hid_t file = H5Fopen((moved + "/checkpoint.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  EXPECT_EQ(whole(file, state.arrays[0]), state.bytes[0]);
  H5Fclose(file);
}

TEST_F(ViewTest, PiecesSayWhereTheyBelong) {
  const Manifest manifest = read_manifest(*files, where);
  const StoredFile& stored = manifest.files[1];
  const hid_t file = H5Fopen(path_join(where, stored.name).c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  for (const StoredPiece& piece : stored.pieces) {
    const hid_t data = H5Dopen2(file, piece.dataset.c_str(), H5P_DEFAULT);
    ASSERT_GE(data, 0) << piece.dataset;
    EXPECT_EQ(static_cast<std::int64_t>(H5Dget_offset(data)), piece.offset);
    std::int64_t row = -1, column = -1;
    for (const auto& [name, value] : {std::pair{"row", &row}, std::pair{"column", &column}}) {
      const hid_t attribute = H5Aopen(data, name, H5P_DEFAULT);
      EXPECT_GE(H5Aread(attribute, H5T_NATIVE_INT64, value), 0);
      H5Aclose(attribute);
    }
    EXPECT_EQ(row, piece.piece.at.row);
    EXPECT_EQ(column, piece.piece.at.column);
    H5Dclose(data);
  }
  H5Fclose(file);
}

TEST_F(ViewTest, OurWritingLeavesNoHandleOpen) {
  EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0);
}

struct Ran {
  int status = -1;
  std::string output;
};
Ran run(const std::string& command) {
  Ran ran;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> buffer{};
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe))
    ran.output.append(buffer.data(), got);
  ran.status = ::pclose(pipe);
  return ran;
}

// An interpreter that has h5py; "" if there is none.
std::string python_with_h5py() {
  for (const std::string python : {"python3", "/usr/bin/python3"})
    if (run(python + " -c 'import h5py, numpy' 2>&1").status == 0) return python;
  return "";
}

TEST_F(ViewTest, H5pyReadsTheSameBytes) {
  const std::string python = python_with_h5py();
  if (python.empty()) GTEST_SKIP() << "no python3 with h5py here";
  for (std::size_t a = 0; a < state.arrays.size(); ++a) {
    const auto file = files->open(folder / (std::to_string(a) + ".bytes"), OpenMode::kCreate);
    file->write(state.bytes[a].data(), static_cast<std::int64_t>(state.bytes[a].size()), 0);
  }
  std::string script = "import h5py, sys\nf = h5py.File(sys.argv[1] + '/checkpoint.h5', 'r')\n";
  const auto numpy_type = [](DType dtype) {
    if (dtype == DType::kF64) return "float64";
    if (dtype == DType::kF32) return "float32";
    return dtype == DType::kF16 ? "float16" : "uint16";
  };
  for (std::size_t a = 0; a < state.arrays.size(); ++a) {
    const LogicalArray& array = state.arrays[a];
    script += "d = f['" + array.name.tensor + "/" + array.name.array + "']\nassert d.dtype == '" +
              numpy_type(array.dtype) +
              "', d.dtype\nassert d[()].tobytes() == open(sys.argv[2] + '/" + std::to_string(a) +
              ".bytes', 'rb').read(), d.name\n";
    if (array.dtype == DType::kBF16)
      script += "assert bytes(d.attrs['dtype']) == b'bf16', d.attrs['dtype']\n";
  }
  script += "print(len(f), 'tensors')\n";
  const auto file = files->open(folder / "read.py", OpenMode::kCreate);
  file->write(script.data(), static_cast<std::int64_t>(script.size()), 0);
  const Ran ran =
      run(python + " '" + (folder / "read.py") + "' '" + where + "' '" + folder.path() + "' 2>&1");
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_EQ(ran.output, "11 tensors\n");
}

}  // namespace
}  // namespace trireme
