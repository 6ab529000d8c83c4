#include "framework/checkpoint/hdf5_layout.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/storage/hdf5_driver.h"
#include "framework/base/storage/hdf5_handle.h"
#include "framework/checkpoint/root_times.h"

namespace trireme {

namespace {

using Handle = Hdf5Handle;

constexpr hsize_t kAlignment = 4096;

struct Extents {
  int dims = 0;
  hsize_t start[2] = {0, 0};
  hsize_t count[2] = {1, 1};
};

Extents extents_of(const LogicalArray& array, const Rectangle& at) {
  return {array.shape.dims(),
          {static_cast<hsize_t>(at.row), static_cast<hsize_t>(at.column)},
          {static_cast<hsize_t>(at.rows), static_cast<hsize_t>(at.columns)}};
}

// Little-endian, as the values lie in memory.
hid_t stored_type(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return H5Tcopy(H5T_IEEE_F64LE);
    case DType::kF32:
      return H5Tcopy(H5T_IEEE_F32LE);
    case DType::kBF16:
      return H5Tcopy(H5T_STD_U16LE);
    case DType::kF16: {
      const hid_t half = H5Tcopy(H5T_IEEE_F32LE);
      H5Tset_fields(half, 15, 10, 5, 0, 10);
      H5Tset_size(half, 2);
      H5Tset_ebias(half, 15);
      return half;
    }
    default:
      return -1;
  }
}

// An HDF5 file that is being made.
class NewFile {
 public:
  explicit NewFile(File& file)
      : path_(file.path()),
        group_plan_(H5Pcreate(H5P_GROUP_CREATE), H5Pclose),
        scalar_(H5Screate(H5S_SCALAR), H5Sclose),
        driver_(file) {
    require(group_plan_ >= 0 && H5Pset_obj_track_times(group_plan_, false) >= 0, "plan groups");
    root_.emplace(create(driver_.access_list()), H5Fclose);
    require(scalar_ >= 0 && *root_ >= 0, "make the file");
  }

  void group(const std::string& name) {
    if (!groups_.insert(name).second) return;
    const Handle made(H5Gcreate2(*root_, name.c_str(), H5P_DEFAULT, group_plan_, H5P_DEFAULT),
                      H5Gclose);
    require(made >= 0, "make a group");
  }
  hid_t dataset(const std::string& name, DType dtype, hid_t space, hid_t plan) {
    const Handle type(stored_type(dtype), H5Tclose);
    const hid_t made =
        H5Dcreate2(*root_, name.c_str(), type, space, H5P_DEFAULT, plan, H5P_DEFAULT);
    require(made >= 0, "make a dataset");
    if (dtype == DType::kBF16) text(made, "dtype", "bf16");
    return made;
  }
  void number(hid_t where, const char* name, std::int64_t value) {
    attribute(where, name, H5T_STD_I64LE, &value);
  }
  // All other handles are closed by now. libhdf5 writes much of the file here.
  void close() {
    require(H5Fflush(*root_, H5F_SCOPE_GLOBAL) >= 0, "flush the file");
    root_.reset();
    driver_.rethrow();
    forget_root_times(driver_.file());
  }
  void require(bool done, const char* what) const {
    if (done) return;
    driver_.rethrow();
    fail("write ", path_, ": HDF5 cannot ", what);
  }

 private:
  static hid_t create(std::int64_t access) {
    const Handle plan(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
    // Free room is not kept track of: with alignment, that takes time by the square of the
    // datasets.
    const bool ready = plan >= 0 && H5Pset_obj_track_times(plan, false) >= 0 &&
                       H5Pset_file_space_strategy(plan, H5F_FSPACE_STRATEGY_NONE, false, 1) >= 0 &&
                       H5Pset_alignment(access, kAlignment, kAlignment) >= 0;
    if (!ready) return -1;
    return H5Fcreate("checkpoint", H5F_ACC_TRUNC, plan, access);
  }
  void text(hid_t where, const char* name, const std::string& value) {
    const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
    require(type >= 0 && H5Tset_size(type, value.size()) >= 0 &&
                H5Tset_strpad(type, H5T_STR_NULLPAD) >= 0,
            "make a text type");
    attribute(where, name, type, value.data());
  }
  void attribute(hid_t where, const char* name, hid_t type, const void* value) {
    const Handle made(H5Acreate2(where, name, type, scalar_, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
    require(made >= 0 && H5Awrite(made, type, value) >= 0, "write an attribute");
  }

  QuietHdf5 quiet_;
  std::string path_;
  Handle group_plan_;
  Handle scalar_;
  Hdf5Driver driver_;
  std::optional<Handle> root_;
  std::set<std::string> groups_;
};

std::string group_of(const ArrayName& name) { return "/" + name.tensor; }
std::string path_of(const ArrayName& name) { return group_of(name) + "/" + name.array; }

std::int64_t add_piece(NewFile& file, const Piece& piece, hid_t plan) {
  const ArrayName& name = piece.array.name;
  file.group(group_of(name));
  file.group(path_of(name));
  const Extents extents = extents_of(piece.array, piece.at);
  const Handle space(H5Screate_simple(extents.dims, extents.count, nullptr), H5Sclose);
  const Handle made(file.dataset(dataset_path(piece), piece.array.dtype, space, plan), H5Dclose);
  file.number(made, "row", piece.at.row);
  file.number(made, "column", piece.at.column);
  const haddr_t offset = H5Dget_offset(made);
  file.require(offset != HADDR_UNDEF, "place a dataset");
  return static_cast<std::int64_t>(offset);
}

struct Source {
  std::string file;
  const StoredPiece* stored = nullptr;
};

void add_whole(NewFile& file, const LogicalArray& array, const std::vector<Source>& sources) {
  const Extents whole = extents_of(array, {0, 0, array.rows(), array.columns()});
  const Handle space(H5Screate_simple(whole.dims, whole.count, nullptr), H5Sclose);
  const Handle plan(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  bool ready = space >= 0 && plan >= 0 && H5Pset_obj_track_times(plan, false) >= 0;
  for (const Source& source : sources) {
    const Extents part = extents_of(array, source.stored->piece.at);
    const Handle from(H5Screate_simple(part.dims, part.count, nullptr), H5Sclose);
    ready =
        ready && from >= 0 &&
        H5Sselect_hyperslab(space, H5S_SELECT_SET, part.start, nullptr, part.count, nullptr) >= 0 &&
        H5Pset_virtual(plan, space, source.file.c_str(), source.stored->dataset.c_str(), from) >= 0;
  }
  file.require(ready && H5Sselect_all(space) >= 0, "plan a virtual dataset");
  file.group(group_of(array.name));
  const Handle made(file.dataset(path_of(array.name), array.dtype, space, plan), H5Dclose);
}

// libhdf5 (1.10.8: the names of attributes) reads through what malloc refused it, which ends the
// process. Asking for its room first makes a sentence of most of that; what others take meanwhile,
// and what an allocator cannot give in small pieces, still hits it.
void expect_room_for_library(const File& file, std::size_t pieces) {
  const std::size_t needed = (std::size_t{8} << 20) + pieces * (std::size_t{16} << 10);
  void* const room = std::malloc(needed);
  check(room != nullptr, "write ", file.path(), ": out of memory: HDF5 needs about ", needed,
        " bytes to make ", pieces, " datasets");
  std::free(room);
}

}  // namespace

std::vector<std::int64_t> write_piece_datasets(File& file, const std::vector<Piece>& pieces) {
  std::vector<std::int64_t> offsets;
  expect_room_for_library(file, pieces.size());
  NewFile made(file);
  const Handle plan(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  made.require(plan >= 0 && H5Pset_layout(plan, H5D_CONTIGUOUS) >= 0 &&
                   H5Pset_alloc_time(plan, H5D_ALLOC_TIME_EARLY) >= 0 &&
                   H5Pset_fill_time(plan, H5D_FILL_TIME_NEVER) >= 0 &&
                   H5Pset_obj_track_times(plan, false) >= 0,
               "plan datasets");
  for (const Piece& piece : pieces)
    offsets.push_back(piece.at.elements() == 0 ? -1 : add_piece(made, piece, plan));
  made.close();
  return offsets;
}

std::int64_t structure_bytes(const std::vector<Piece>& pieces) {
  // A dataset takes its header, a group too, and from nine members on a heap and a tree, which grow
  // with the members.
  constexpr std::int64_t kFile = 16 << 10;
  constexpr std::int64_t kObject = 1 << 10;
  std::set<std::string> groups;
  for (const Piece& piece : pieces) {
    groups.insert(group_of(piece.array.name));
    groups.insert(path_of(piece.array.name));
  }
  return kFile + kObject * static_cast<std::int64_t>(pieces.size() + groups.size());
}

void write_virtual_datasets(File& file, const Manifest& manifest) {
  std::map<ArrayName, std::pair<LogicalArray, std::vector<Source>>> arrays;
  for (const StoredFile& stored : manifest.files)
    for (const StoredPiece& piece : stored.pieces) {
      auto& entry = arrays[piece.piece.array.name];
      entry.first = piece.piece.array;
      entry.second.push_back({stored.name, &piece});
    }
  NewFile made(file);
  for (const auto& [name, entry] : arrays) add_whole(made, entry.first, entry.second);
  made.close();
}

}  // namespace trireme
