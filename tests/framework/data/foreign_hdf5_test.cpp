// HDF5 files made by other programs, or on purpose to mislead: each is refused with a sentence.
#include <gtest/gtest.h>
#include <hdf5.h>

#include <functional>

#include "framework/base/error.h"
#include "framework/data/token_file.h"
#include "framework/data/token_seal.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::sentence_of;
using testing::TemporaryFolder;

// What a file gets unless a test changes it: everything as TokenWriter writes it.
struct Recipe {
  bool sealed = true;
  bool old_format = false;
  bool chunked = false;
  bool external = false;
  bool soft_link = false;
  bool group = false;
  bool late = false;
  hid_t type = H5T_STD_U8LE;
  std::vector<hsize_t> dims = {10};
  std::string without = {};  // an attribute to leave out
  std::int64_t version = 1;
  std::int64_t vocabulary = 256;
  std::int64_t count = 10;
  bool text_vocabulary = false;  // an attribute of another type
};

void number(hid_t file, const Recipe& recipe, const std::string& name, std::int64_t value) {
  if (name == recipe.without) return;
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t attribute =
      H5Acreate2(file, name.c_str(), H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, H5T_STD_I64LE, &value);
  H5Aclose(attribute);
  H5Sclose(space);
}

void text(hid_t file, const Recipe& recipe, const std::string& name, std::string value,
          std::size_t length) {
  if (name == recipe.without) return;
  value.resize(length, '\0');
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, length);
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t attribute = H5Acreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, type, value.data());
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

TokenRange dataset(hid_t file, const Recipe& recipe, const std::string& folder) {
  const int rank = static_cast<int>(recipe.dims.size());
  const hid_t space = H5Screate_simple(rank, recipe.dims.data(), nullptr);
  const hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
  if (!recipe.late) H5Pset_alloc_time(plan, H5D_ALLOC_TIME_EARLY);
  if (recipe.chunked) H5Pset_chunk(plan, rank, recipe.dims.data());
  if (recipe.external) H5Pset_external(plan, (folder + "/passwd").c_str(), 0, 10);
  const char* name = recipe.soft_link ? "elsewhere" : "tokens";
  const hid_t tokens = H5Dcreate2(file, name, recipe.type, space, H5P_DEFAULT, plan, H5P_DEFAULT);
  const haddr_t offset = H5Dget_offset(tokens);
  H5Dclose(tokens);
  if (recipe.soft_link) H5Lcreate_soft("/elsewhere", file, "tokens", H5P_DEFAULT, H5P_DEFAULT);
  H5Pclose(plan);
  H5Sclose(space);
  if (offset == HADDR_UNDEF) return {4096, 0};
  return {static_cast<std::int64_t>(offset), 10};
}

std::string refusal(const Recipe& recipe) {
  const TemporaryFolder folder;
  const std::string path = folder / "f.h5";
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_alignment(access, 1, 4096);
  if (!recipe.old_format) H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_LATEST);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  H5Pclose(access);
  number(file, recipe, "format_version", recipe.version);
  if (recipe.text_vocabulary)
    text(file, recipe, "vocabulary", "256", 8);
  else
    number(file, recipe, "vocabulary", recipe.vocabulary);
  number(file, recipe, "count", recipe.count);
  text(file, recipe, "tokenizer", "bytes", 64);
  text(file, recipe, "text_hash", std::string(32, '0'), 32);
  text(file, recipe, "token_hash", std::string(32, '0'), 32);
  TokenRange tokens{4096, 0};
  if (recipe.group)
    H5Gclose(H5Gcreate2(file, "tokens", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  else
    tokens = dataset(file, recipe, folder.path());
  H5Fclose(file);
  if (recipe.sealed) seal_token_file(*real_files()->open(path, OpenMode::kReadWrite), tokens);
  const std::string sentence = sentence_of([&] { TokenFile::open(*real_files(), path); });
  EXPECT_EQ(sentence.rfind("token file " + path, 0), 0u) << sentence;
  return sentence;
}

#define EXPECT_SAYS(sentence, part) \
  EXPECT_NE((sentence).find(part), std::string::npos) << (sentence)

TEST(ForeignHdf5, TheRecipeItselfFailsOnlyAtTheHash) {
  EXPECT_SAYS(refusal({}), "its tokens have the hash");
}

TEST(ForeignHdf5, WithoutOurSealLibhdf5NeverSeesIt) {
  EXPECT_SAYS(refusal({.sealed = false}), "was not written by trireme tokenize: it has no seal");
}

// With a seal, so that libhdf5 does see them: what it finds is checked once more.
TEST(ForeignHdf5, IsRefusedByName) {
  EXPECT_SAYS(refusal({.old_format = true}), "superblock has version 0, expected 3");
  EXPECT_SAYS(refusal({.chunked = true}), "chunked");
  EXPECT_SAYS(refusal({.external = true}), "another file");
  EXPECT_SAYS(refusal({.soft_link = true}), "link to somewhere else");
  EXPECT_SAYS(refusal({.group = true}), "\"tokens\" is not a dataset");
  EXPECT_SAYS(refusal({.late = true}), "do not fit");
  EXPECT_SAYS(refusal({.type = H5T_IEEE_F32LE}), "not of type u8, u16 or i32");
  EXPECT_SAYS(refusal({.type = H5T_STD_U16BE}), "not of type u8, u16 or i32");
  EXPECT_SAYS(refusal({.dims = {2, 5}}), "has rank 2, expected 1");
  EXPECT_SAYS(refusal({.version = 4}), "format version 4, this program reads 1 to 3");
  EXPECT_SAYS(refusal({.version = 2}), "the attribute \"about\" is missing");
  EXPECT_SAYS(refusal({.vocabulary = 257}), "a vocabulary of 257 does not go with");
  EXPECT_SAYS(refusal({.vocabulary = 0}), "a vocabulary of 0 does not go with");
  EXPECT_SAYS(refusal({.vocabulary = std::int64_t{1} << 40}), "does not go with");
  EXPECT_SAYS(refusal({.count = 11}), "has 10 tokens, the attribute \"count\" says 11");
  EXPECT_SAYS(refusal({.text_vocabulary = true}), "\"vocabulary\" is not a 64-bit integer");
}

TEST(ForeignHdf5, EveryMissingAttributeIsNamed) {
  for (const std::string name :
       {"format_version", "vocabulary", "count", "tokenizer", "text_hash", "token_hash"})
    EXPECT_SAYS(refusal({.without = name}), "the attribute \"" + name + "\" is missing");
}

TEST(ForeignHdf5, NoHandleIsLeftOpen) {
  refusal({.chunked = true});
  refusal({.external = true});
  refusal({});
  EXPECT_EQ(H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_ALL), 0);
}

}  // namespace
}  // namespace trireme
