#include "tests/faults_hostile/hdf5_bombs.h"

#include <hdf5.h>

#include <fstream>
#include <functional>

#include "framework/base/files.h"

namespace trireme::test {

namespace {

constexpr hsize_t kTokens = 10;

// A token file as ours, but for the dataset, which `trap` makes.
class BombMaker {
 public:
  explicit BombMaker(std::string folder) : folder_(std::move(folder)) {}

  // `trap` gets the open file and returns an open object or 0.
  void add(const std::string& name, const std::function<hid_t(hid_t)>& trap) {
    const std::string path = folder_ + "/" + name + ".h5";
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_alignment(access, 1, 4096);
    H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_LATEST);
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pclose(access);
    number(file, "format_version", 1);
    number(file, "vocabulary", 256);
    number(file, "count", static_cast<std::int64_t>(kTokens));
    text(file, "tokenizer", "bytes", 64);
    text(file, "text_hash", std::string(32, '0'), 32);
    text(file, "token_hash", std::string(32, '0'), 32);
    const hid_t made = trap(file);
    const bool is_dataset = made > 0 && H5Iget_type(made) == H5I_DATASET;
    const haddr_t offset = is_dataset ? H5Dget_offset(made) : HADDR_UNDEF;
    if (made > 0) H5Oclose(made);
    H5Fclose(file);
    bombs.push_back({name, path, offset == HADDR_UNDEF ? 0 : static_cast<std::int64_t>(offset)});
  }

  // A dataset of the name "tokens".
  static hid_t dataset(hid_t file, hid_t type, hid_t plan, hsize_t extent = kTokens) {
    const hid_t space = H5Screate_simple(1, &extent, nullptr);
    const hid_t made = H5Dcreate2(file, "tokens", type, space, H5P_DEFAULT, plan, H5P_DEFAULT);
    H5Sclose(space);
    return made;
  }
  static hid_t early() {
    const hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_alloc_time(plan, H5D_ALLOC_TIME_EARLY);
    return plan;
  }
  hid_t of_type(hid_t file, hid_t type) {
    const hid_t plan = early();
    const hid_t made = dataset(file, type, plan);
    H5Pclose(plan);
    return made;
  }
  hid_t virtual_of(hid_t file, const std::string& source) {
    const hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t space = H5Screate_simple(1, &kTokens, nullptr);
    H5Pset_virtual(plan, space, source.c_str(), "tokens", space);
    H5Sclose(space);
    const hid_t made = dataset(file, H5T_STD_U8LE, plan);
    H5Pclose(plan);
    return made;
  }
  void number(hid_t where, const std::string& name, std::int64_t value) {
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t made =
        H5Acreate2(where, name.c_str(), H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(made, H5T_STD_I64LE, &value);
    H5Aclose(made);
    H5Sclose(space);
  }

  std::vector<Bomb> bombs;

 private:
  static void text(hid_t file, const char* name, std::string value, std::size_t length) {
    value.resize(length, '\0');
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, length);
    H5Tset_strpad(type, H5T_STR_NULLPAD);
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t made = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(made, type, value.data());
    H5Aclose(made);
    H5Sclose(space);
    H5Tclose(type);
  }

  std::string folder_;
};

hid_t with_unknown_filter(hid_t file) {
  const hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(plan, 1, &kTokens);
  H5Pset_filter(plan, 32000, H5Z_FLAG_OPTIONAL, 0, nullptr);  // optional: may be named unavailable
  const hid_t made = BombMaker::dataset(file, H5T_STD_U8LE, plan);
  H5Pclose(plan);
  const std::vector<unsigned char> bytes(kTokens, 7);
  H5Dwrite(made, H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
  return made;
}

hid_t nested(hid_t file, int depth) {
  hid_t inner = H5Gcreate2(file, "tokens", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  for (int i = 1; i < depth; ++i) {
    const hid_t next = H5Gcreate2(inner, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(inner);
    inner = next;
  }
  return inner;
}

void add_links(BombMaker& maker, const std::string& folder) {
  maker.add("external_storage", [&](hid_t file) {
    const hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(plan, (folder + "/secret").c_str(), 0, kTokens);
    const hid_t made = BombMaker::dataset(file, H5T_STD_U8LE, plan);
    H5Pclose(plan);
    return made;
  });
  maker.add("external_link", [&](hid_t file) {
    H5Lcreate_external((folder + "/secret").c_str(), "/tokens", file, "tokens", H5P_DEFAULT,
                       H5P_DEFAULT);
    return hid_t{0};
  });
  maker.add("virtual_absolute",
            [&](hid_t file) { return maker.virtual_of(file, folder + "/secret"); });
  maker.add("virtual_parent", [&](hid_t file) { return maker.virtual_of(file, "../secret"); });
  maker.add("link_loop", [](hid_t file) {
    H5Lcreate_soft("/b", file, "tokens", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/tokens", file, "b", H5P_DEFAULT, H5P_DEFAULT);
    return hid_t{0};
  });
}

void add_types(BombMaker& maker) {
  maker.add("compound", [&](hid_t file) {
    const hid_t type = H5Tcreate(H5T_COMPOUND, 1);
    H5Tinsert(type, "id", 0, H5T_STD_U8LE);
    const hid_t made = maker.of_type(file, type);
    H5Tclose(type);
    return made;
  });
  maker.add("variable_length", [&](hid_t file) {
    const hid_t type = H5Tvlen_create(H5T_STD_U8LE);
    const hid_t made = maker.of_type(file, type);
    H5Tclose(type);
    return made;
  });
  maker.add("reference", [&](hid_t file) { return maker.of_type(file, H5T_STD_REF_OBJ); });
}

void add_sizes(BombMaker& maker) {
  maker.add("extent_2_60", [](hid_t file) {  // late: or libhdf5 would make room for it
    return BombMaker::dataset(file, H5T_STD_U8LE, H5P_DEFAULT, hsize_t{1} << 60);
  });
  maker.add("attributes_10_5", [&](hid_t file) {
    for (int i = 0; i < 100000; ++i) maker.number(file, std::to_string(i), i);
    return hid_t{0};
  });
  maker.add("nested_10_4", [](hid_t file) { return nested(file, 10000); });
}

}  // namespace

std::vector<Bomb> make_bombs(const std::string& folder) {
  std::ofstream(folder + "/secret") << "0123456789";
  real_files()->make_directories(folder + "/plugins");
  std::ofstream(folder + "/plugins/libfilter.so") << "not a library";
  BombMaker maker(folder);
  add_links(maker, folder);
  add_types(maker);
  add_sizes(maker);
  maker.add("unknown_filter", with_unknown_filter);
  return maker.bombs;
}

}  // namespace trireme::test
