#include "framework/data/token_header.h"

#include <array>
#include <cstring>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/storage/hdf5_driver.h"
#include "framework/base/storage/hdf5_handle.h"
#include "framework/data/token_seal.h"

namespace trireme {

namespace {

constexpr std::int64_t kHashDigits = 32;
constexpr std::int64_t kNameLength = 64;
constexpr std::int64_t kAboutLength = 160;

using Handle = Hdf5Handle;

hid_t stored_type(std::int64_t width) {
  if (width == 1) return H5T_STD_U8LE;
  return width == 2 ? H5T_STD_U16LE : H5T_STD_I32LE;
}

void require(bool done, const File& file, const char* what) {
  check(done, "write ", file.path(), ": HDF5 cannot ", what);
}

void put_attribute(const File& file, hid_t where, const char* name, hid_t type, const void* value) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle attribute(H5Acreate2(where, name, type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  require(attribute >= 0 && H5Awrite(attribute, type, value) >= 0, file, "write an attribute");
}

void put_number(const File& file, hid_t where, const char* name, std::int64_t value) {
  put_attribute(file, where, name, H5T_STD_I64LE, &value);
}

// Of fixed length, whatever the text: so the layout of the file does not depend on it.
void put_text(const File& file, hid_t where, const char* name, std::string text,
              std::int64_t length) {
  const auto bytes = static_cast<std::size_t>(length);
  check(text.size() <= bytes, "write ", file.path(), ": ", name, " \"", text, "\" is longer than ",
        length, " bytes");
  text.resize(bytes, '\0');
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  require(H5Tset_size(type, bytes) >= 0 && H5Tset_strpad(type, H5T_STR_NULLPAD) >= 0, file,
          "make a text type");
  put_attribute(file, where, name, type, text.data());
}

std::int64_t version_of(const TokenHeader& header) {
  if (header.about.empty()) return kTokenFormat;
  return header.bounded ? kMarkedFormat : kDocumentFormat;
}

const char* marks_name(const TokenHeader& header) { return header.bounded ? "marks" : "mask"; }

void put_attributes(const File& file, hid_t root, const TokenHeader& header) {
  put_number(file, root, "format_version", version_of(header));
  put_number(file, root, "vocabulary", header.vocabulary);
  put_number(file, root, "count", header.count);
  put_text(file, root, "tokenizer", header.tokenizer, kNameLength);
  put_text(file, root, "text_hash", header.text_hash, kHashDigits);
  put_text(file, root, "token_hash", header.token_hash, kHashDigits);
  if (header.about.empty()) return;
  put_text(file, root, "about", header.about, kAboutLength);
  put_number(file, root, "documents", header.documents);
  put_number(file, root, "trained", header.trained);
}

std::int64_t put_dataset(const File& file, hid_t root, const char* name, hid_t stored,
                         std::int64_t elements) {
  const auto count = static_cast<hsize_t>(elements);
  const Handle space(H5Screate_simple(1, &count, nullptr), H5Sclose);
  const Handle plan(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  require(plan >= 0 && H5Pset_layout(plan, H5D_CONTIGUOUS) >= 0 &&
              H5Pset_alloc_time(plan, H5D_ALLOC_TIME_EARLY) >= 0 &&
              H5Pset_fill_time(plan, H5D_FILL_TIME_NEVER) >= 0 &&
              H5Pset_obj_track_times(plan, false) >= 0,
          file, "plan the dataset");
  const Handle tokens(H5Dcreate2(root, name, stored, space, H5P_DEFAULT, plan, H5P_DEFAULT),
                      H5Dclose);
  require(tokens >= 0, file, "make the dataset");
  const haddr_t offset = H5Dget_offset(tokens);
  require(offset != HADDR_UNDEF, file, "place the dataset");
  return static_cast<std::int64_t>(offset);
}

TokenRange put_datasets(const File& file, hid_t root, const TokenHeader& header) {
  TokenRange range{.bytes = header.count * header.width, .mask_bytes = header.mask_bytes()};
  range.begin = put_dataset(file, root, "tokens", stored_type(header.width), header.count);
  if (range.mask_bytes > 0)
    range.mask_begin = put_dataset(file, root, marks_name(header), H5T_STD_U8LE, range.mask_bytes);
  return range;
}

// Little-endian, unsigned, from the raw bytes of a superblock.
std::uint64_t number_at(const std::array<unsigned char, 48>& bytes, std::size_t position) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value |= std::uint64_t{bytes[position + i]} << (8 * i);
  return value;
}

// Looks at the superblock before libhdf5 does: a foreign or shortened file never reaches it.
// Layout: HDF5 file format specification 3.0, section II.A, versions 2 and 3.
void check_superblock(File& file) {
  constexpr unsigned char kSignature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  const std::string& path = file.path();
  const std::int64_t size = file.size();
  check(size > 0, "token file ", path, " is empty");
  std::array<unsigned char, 48> head{};
  const std::int64_t got = file.read_some(head.data(), 48, 0);
  const bool hdf5 = got >= 8 && std::memcmp(head.data(), kSignature, 8) == 0;
  check(hdf5, "token file ", path, " is not an HDF5 file; make one with trireme tokenize");
  check(got == 48, "token file ", path, " is truncated: ", size, " bytes");
  check((head[8] == 2 || head[8] == 3) && head[9] == 8 && head[10] == 8, "token file ", path,
        " was not written by trireme tokenize: its HDF5 superblock has version ", int{head[8]},
        ", expected 3");
  const std::uint64_t end = number_at(head, 28);
  check(end <= static_cast<std::uint64_t>(size), "token file ", path, " is truncated: it has ",
        size, " bytes and should have ", end);
}

// What is wrong with one attribute; `what` completes the sentence.
[[noreturn]] void bad(const File& file, const std::string& what) {
  fail("token file ", file.path(), ": ", what, "; make it again with trireme tokenize");
}

std::pair<hid_t, hid_t> open_attribute(const File& file, hid_t root, const char* name) {
  if (H5Aexists(root, name) <= 0) bad(file, join("the attribute \"", name, "\" is missing"));
  const hid_t attribute = H5Aopen(root, name, H5P_DEFAULT);
  if (attribute < 0) bad(file, join("the attribute \"", name, "\" cannot be opened"));
  return {attribute, H5Aget_type(attribute)};
}

void check_scalar(const File& file, hid_t attribute, const char* name) {
  const Handle space(H5Aget_space(attribute), H5Sclose);
  if (space < 0 || H5Sget_simple_extent_type(space) != H5S_SCALAR)
    bad(file, join("the attribute \"", name, "\" is not a single value"));
}

std::int64_t get_number(const File& file, hid_t root, const char* name) {
  const auto [attribute_id, type_id] = open_attribute(file, root, name);
  const Handle attribute(attribute_id, H5Aclose);
  const Handle type(type_id, H5Tclose);
  check_scalar(file, attribute, name);
  std::int64_t value = 0;
  if (type < 0 || H5Tequal(type, H5T_STD_I64LE) <= 0 || H5Aread(attribute, type, &value) < 0)
    bad(file, join("the attribute \"", name, "\" is not a 64-bit integer"));
  return value;
}

std::string get_text(const File& file, hid_t root, const char* name, std::int64_t length) {
  const auto [attribute_id, type_id] = open_attribute(file, root, name);
  const Handle attribute(attribute_id, H5Aclose);
  const Handle type(type_id, H5Tclose);
  check_scalar(file, attribute, name);
  std::string text(static_cast<std::size_t>(length), '\0');
  const bool fixed = type >= 0 && H5Tget_class(type) == H5T_STRING &&
                     H5Tis_variable_str(type) == 0 && H5Tget_size(type) == text.size();
  if (!fixed || H5Aread(attribute, type, text.data()) < 0)
    bad(file, join("the attribute \"", name, "\" is not a text of ", length, " bytes"));
  return text.substr(0, text.find('\0'));
}

std::int64_t width_of(const File& file, hid_t tokens) {
  const Handle type(H5Dget_type(tokens), H5Tclose);
  for (const std::int64_t width : {1, 2, 4})
    if (type >= 0 && H5Tequal(type, stored_type(width)) > 0) return width;
  bad(file, "the dataset \"tokens\" is not of type u8, u16 or i32 (little-endian)");
}

std::int64_t count_of(const File& file, hid_t tokens, const char* name) {
  const Handle space(H5Dget_space(tokens), H5Sclose);
  const int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
  if (rank != 1) bad(file, join("the dataset \"", name, "\" has rank ", rank, ", expected 1"));
  return H5Sget_simple_extent_npoints(space);
}

void check_layout(const File& file, hid_t tokens, const char* name) {
  const Handle plan(H5Dget_create_plist(tokens), H5Pclose);
  if (plan < 0 || H5Pget_external_count(plan) != 0)
    bad(file, join("the dataset \"", name, "\" keeps its bytes in another file"));
  if (H5Pget_layout(plan) != H5D_CONTIGUOUS)
    bad(file,
        join("the dataset \"", name, "\" is chunked, compact or virtual, expected contiguous"));
}

hid_t open_dataset(const File& file, hid_t root, const char* name) {
  H5L_info_t link{};
  if (H5Lexists(root, name, H5P_DEFAULT) <= 0)
    bad(file, join("there is no dataset \"", name, "\""));
  if (H5Lget_info(root, name, &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD)
    bad(file, join("\"", name, "\" is a link to somewhere else"));
  const hid_t tokens = H5Dopen2(root, name, H5P_DEFAULT);
  if (tokens < 0) bad(file, join("\"", name, "\" is not a dataset"));
  return tokens;
}

// Of `bytes` bytes from `offset` on.
void check_inside(File& file, haddr_t offset, std::int64_t elements, std::int64_t width) {
  const auto size = static_cast<std::uint64_t>(file.size());
  if (offset == HADDR_UNDEF || offset > size ||
      static_cast<std::uint64_t>(elements) > (size - offset) / static_cast<std::uint64_t>(width))
    bad(file, join(elements, " tokens of ", width, " bytes do not fit into the ", size,
                   " bytes of the file"));
}

void describe_mask(File& file, hid_t root, FoundTokens& found) {
  TokenHeader& header = found.header;
  header.about = get_text(file, root, "about", kAboutLength);
  header.documents = get_number(file, root, "documents");
  header.trained = get_number(file, root, "trained");
  if (header.about.empty() || header.documents < 0 || header.trained < 0 ||
      header.trained > header.count)
    bad(file, join("its attributes say ", header.trained, " trained of ", header.count,
                   " tokens and ", header.documents, " documents"));
  header.masked = header.trained != header.count;
  if (header.mask_bytes() == 0) return;
  const char* name = marks_name(header);
  const Handle mask(open_dataset(file, root, name), H5Dclose);
  check_layout(file, mask, name);
  const Handle type(H5Dget_type(mask), H5Tclose);
  if (type < 0 || H5Tequal(type, H5T_STD_U8LE) <= 0)
    bad(file, join("the dataset \"", name, "\" is not of type u8"));
  const std::int64_t stored = count_of(file, mask, name);
  if (stored != header.mask_bytes())
    bad(file, join("the dataset \"", name, "\" has ", stored, " bytes, ", header.count,
                   " tokens need ", header.mask_bytes()));
  const haddr_t offset = H5Dget_offset(mask);
  check_inside(file, offset, stored, 1);
  found.mask_offset = static_cast<std::int64_t>(offset);
}

FoundTokens describe_tokens(File& file, hid_t root) {
  FoundTokens found;
  TokenHeader& header = found.header;
  const std::int64_t version = get_number(file, root, "format_version");
  if (version < kTokenFormat || version > kMarkedFormat)
    bad(file, join("format version ", version, ", this program reads ", kTokenFormat, " to ",
                   kMarkedFormat));
  header.vocabulary = get_number(file, root, "vocabulary");
  header.tokenizer = get_text(file, root, "tokenizer", kNameLength);
  header.text_hash = get_text(file, root, "text_hash", kHashDigits);
  header.token_hash = get_text(file, root, "token_hash", kHashDigits);
  header.count = get_number(file, root, "count");

  const Handle tokens(open_dataset(file, root, "tokens"), H5Dclose);
  check_layout(file, tokens, "tokens");
  header.width = width_of(file, tokens);
  const std::int64_t stored = count_of(file, tokens, "tokens");
  if (stored != header.count || stored < 1)
    bad(file, join("the dataset \"tokens\" has ", stored, " tokens, the attribute \"count\" says ",
                   header.count));
  if (header.vocabulary < 1 || header.vocabulary > std::int64_t{0x7fffffff} ||
      token_width(header.vocabulary) != header.width)
    bad(file, join("a vocabulary of ", header.vocabulary, " does not go with tokens of type ",
                   token_type_name(header.width)));

  const haddr_t offset = H5Dget_offset(tokens);
  check_inside(file, offset, stored, header.width);
  found.offset = static_cast<std::int64_t>(offset);
  header.bounded = version == kMarkedFormat;
  if (version != kTokenFormat) describe_mask(file, root, found);
  return found;
}

}  // namespace

std::int64_t token_width(std::int64_t vocabulary) {
  check(vocabulary >= 1 && vocabulary <= std::int64_t{0x7fffffff}, "a vocabulary of ", vocabulary,
        " tokens cannot be stored; use 1 to 2147483647");
  if (vocabulary <= 256) return 1;
  return vocabulary <= 65536 ? 2 : 4;
}

std::string token_type_name(std::int64_t width) {
  if (width == 1) return "u8";
  return width == 2 ? "u16" : "i32";
}

TokenRange write_token_header(File& file, const TokenHeader& header) {
  check(header.count >= 1, "write ", file.path(), ": a token file needs at least one token");
  const QuietHdf5 quiet;
  Hdf5Driver driver(file);
  TokenRange range;
  {
    const Handle plan(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
    require(plan >= 0 && H5Pset_obj_track_times(plan, false) >= 0, file, "plan the file");
    // Nine attributes stay in the header of the root group, which holds eight by default.
    if (!header.about.empty())
      require(H5Pset_attr_phase_change(plan, 16, 8) >= 0, file, "plan the attributes");
    const Handle root(H5Fcreate("tokens", H5F_ACC_TRUNC, plan, driver.access_list()), H5Fclose);
    require(root >= 0, file, "make the file");
    put_attributes(file, root, header);
    range = put_datasets(file, root, header);
    require(H5Fflush(root, H5F_SCOPE_GLOBAL) >= 0, file, "flush the file");
  }
  driver.rethrow();
  seal_token_file(file, range);
  return range;
}

FoundTokens read_token_header(File& file) {
  check_superblock(file);
  const TokenRange sealed = check_seal(file);
  const QuietHdf5 quiet;
  H5PLset_loading_state(0);  // a file must not be able to name code to load
  Hdf5Driver driver(file);
  try {
    const Handle root(H5Fopen("tokens", H5F_ACC_RDONLY, driver.access_list()), H5Fclose);
    if (root < 0) bad(file, "its HDF5 structures are damaged");
    FoundTokens found = describe_tokens(file, root);
    const TokenRange described{found.offset, found.header.count * found.header.width,
                               found.mask_offset, found.header.mask_bytes()};
    if (described != sealed) bad(file, "HDF5 finds the tokens elsewhere than the seal says");
    return found;
  } catch (const Error&) {
    driver.rethrow();  // a read that failed is the better explanation
    throw;
  }
}

}  // namespace trireme
