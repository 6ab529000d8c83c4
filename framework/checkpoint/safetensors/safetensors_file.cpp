#include "framework/checkpoint/safetensors/safetensors_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

#include "framework/base/checked.h"
#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "framework/base/lfs_pointer.h"

namespace trireme {

namespace {

static_assert(std::endian::native == std::endian::little, "bytes are used as they lie in the file");

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kMostHeaderBytes = 100'000'000;
// About 50,000 tensors: ten times what published files have; bounds what a header may cost.
constexpr JsonLimits kHeaderLimits{.bytes = kMostHeaderBytes, .values = 400'000, .depth = 8};

struct Type {
  std::string_view name;
  std::int64_t bytes;
  std::optional<DType> dtype;
};
constexpr std::array<Type, 15> kTypes = {{{"F64", 8, DType::kF64},
                                          {"F32", 4, DType::kF32},
                                          {"BF16", 2, DType::kBF16},
                                          {"F16", 2, DType::kF16},
                                          {"I32", 4, DType::kI32},
                                          {"U8", 1, DType::kU8},
                                          {"BOOL", 1, {}},
                                          {"I8", 1, {}},
                                          {"F8_E5M2", 1, {}},
                                          {"F8_E4M3", 1, {}},
                                          {"I16", 2, {}},
                                          {"U16", 2, {}},
                                          {"U32", 4, {}},
                                          {"I64", 8, {}},
                                          {"U64", 8, {}}}};

const Type* type_of(std::string_view name) {
  for (const Type& type : kTypes)
    if (type.name == name) return &type;
  return nullptr;
}

std::string known_types() {
  std::string text;
  for (const Type& type : kTypes) text += (text.empty() ? "" : ", ") + std::string(type.name);
  return text;
}

// Begin and end count from the first byte behind the header, here.
struct Entry {
  SafeTensor tensor;
  std::int64_t end = 0;
};

std::vector<std::int64_t> shape_of(const Json& json, const std::string& what) {
  std::vector<std::int64_t> shape;
  for (const Json& extent : json.array(what)) {
    shape.push_back(extent.integer(what));
    check(shape.back() >= 0, what, ": an extent is ", shape.back(), "; at least 0 is expected");
  }
  return shape;
}

Entry entry_of(const std::string& name, const Json& json, const std::string& path) {
  const std::string what = join(path, ": tensor \"", name, "\"");
  Entry entry{.tensor = {.name = name, .dtype = json.at("dtype", what).text(what + ": dtype")}};
  const Type* type = type_of(entry.tensor.dtype);
  if (type == nullptr)
    fail(what, ": dtype \"", entry.tensor.dtype, "\" is none of ", known_types());
  entry.tensor.shape = shape_of(json.at("shape", what), what + ": shape");
  const Json::Array& offsets = json.at("data_offsets", what).array(what + ": data_offsets");
  check(offsets.size() == 2, what, ": data_offsets has ", offsets.size(),
        " numbers; begin and end are expected");
  entry.tensor.begin = offsets[0].integer(what + ": data_offsets");
  entry.end = offsets[1].integer(what + ": data_offsets");
  check(entry.tensor.begin >= 0 && entry.end >= entry.tensor.begin, what, ": data_offsets [",
        entry.tensor.begin, ", ", entry.end, "] are no range");
  entry.tensor.bytes = entry.end - entry.tensor.begin;
  std::int64_t needed = type->bytes;
  for (const std::int64_t extent : entry.tensor.shape)
    needed = checked_mul(needed, extent, what + ": bytes");
  check(needed == entry.tensor.bytes, what, ": ", entry.tensor.text(), " has ", needed,
        " bytes, but its data_offsets span ", entry.tensor.bytes);
  return entry;
}

void expect_no_gap(const std::vector<Entry>& entries, std::int64_t data_bytes,
                   const std::string& path) {
  std::int64_t at = 0;
  for (const Entry& entry : entries) {
    check(entry.tensor.begin == at, path, ": tensor \"", entry.tensor.name, "\" begins at byte ",
          entry.tensor.begin, " of the data, but what comes before it ends at ", at);
    at = entry.end;
  }
  check(at == data_bytes, path, ": its tensors have ", at, " bytes, but ", data_bytes,
        " follow the header");
}

}  // namespace

std::int64_t SafeTensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::string SafeTensor::text() const {
  std::string extents;
  for (const std::int64_t extent : shape)
    extents += (extents.empty() ? "" : ", ") + std::to_string(extent);
  return dtype + " (" + extents + ")";
}

std::optional<DType> dtype_of_safetensors(std::string_view name) {
  const Type* type = type_of(name);
  return type == nullptr ? std::nullopt : type->dtype;
}

std::string_view safetensors_name(DType dtype) {
  return std::find_if(kTypes.begin(), kTypes.end(),
                      [&](const Type& type) { return type.dtype == dtype; })
      ->name;
}

SafetensorsFile::SafetensorsFile(Files& files, const std::string& path)
    : path_(path), file_(files.open(path, OpenMode::kRead)) {
  const std::int64_t all = file_->size();
  check(all >= kLengthBytes, path, ": ", all,
        " bytes are no safetensors file, which begins with the 8 bytes of its header's length");
  std::string begin(static_cast<std::size_t>(std::min<std::int64_t>(all, 64)), '\0');
  file_->read(begin.data(), std::ssize(begin), 0);
  refuse_lfs_pointer(begin, path);
  std::uint64_t length = 0;
  file_->read(&length, kLengthBytes, 0);
  check(length <= static_cast<std::uint64_t>(kMostHeaderBytes), path, ": a header of ", length,
        " bytes is announced; at most ", kMostHeaderBytes, " are legal");
  const auto bytes = static_cast<std::int64_t>(length);
  check(bytes <= all - kLengthBytes, path, ": a header of ", bytes,
        " bytes is announced, but the file has ", all, " bytes in all");
  std::string header(static_cast<std::size_t>(bytes), '\0');
  file_->read(header.data(), bytes, kLengthBytes);
  check(!header.empty() && header[0] == '{', path, ": the header does not begin with {");
  take_header(header, all);
}

void SafetensorsFile::take_header(std::string_view header, std::int64_t file_bytes) {
  const Json json = parse_json(header, path_ + ": header", kHeaderLimits);
  const auto first = kLengthBytes + static_cast<std::int64_t>(header.size());
  std::vector<Entry> entries;
  for (const auto& [name, value] : json.object(path_ + ": header")) {
    if (name != "__metadata__") {
      entries.push_back(entry_of(name, value, path_));
      continue;
    }
    if (value.is_null()) continue;  // as the package takes it
    const std::string what = path_ + ": __metadata__";
    for (const auto& [key, text] : value.object(what)) metadata_[key] = text.text(what);
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.tensor.begin, a.end) < std::tie(b.tensor.begin, b.end);
  });
  expect_no_gap(entries, file_bytes - first, path_);
  for (Entry& entry : entries) {
    entry.tensor.begin += first;
    index_[entry.tensor.name] = tensors_.size();
    tensors_.push_back(std::move(entry.tensor));
  }
}

const SafeTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

void SafetensorsFile::read(const SafeTensor& tensor, std::int64_t from, std::int64_t bytes,
                           void* into) const {
  check(from >= 0 && bytes >= 0 && from <= tensor.bytes && bytes <= tensor.bytes - from, path_,
        ": tensor \"", tensor.name, "\": bytes ", from, " to ", from + bytes, " of ", tensor.bytes);
  file_->read(into, bytes, tensor.begin + from);
}

}  // namespace trireme
