#include "framework/checkpoint/safetensors/safetensors_writer.h"

#include <set>

#include "framework/base/checked.h"
#include "framework/base/error.h"
#include "framework/base/json/json.h"

namespace trireme {

namespace {

std::string header_of(const std::vector<SafeTensor>& tensors,
                      const std::map<std::string, std::string>& metadata, std::int64_t& data) {
  Json::Object header;
  if (!metadata.empty()) {
    Json::Object members;
    for (const auto& [key, text] : metadata) members.emplace_back(key, text);
    header.emplace_back("__metadata__", std::move(members));
  }
  std::set<std::string> names;
  for (const SafeTensor& tensor : tensors) {
    check(names.insert(tensor.name).second, "tensor \"", tensor.name, "\" comes twice");
    const std::optional<DType> dtype = dtype_of_safetensors(tensor.dtype);
    check(dtype.has_value(), "tensor \"", tensor.name, "\": dtype \"", tensor.dtype,
          "\" cannot be written");
    Json::Array shape;
    std::int64_t bytes = size_of(*dtype);
    for (const std::int64_t extent : tensor.shape) {
      shape.emplace_back(extent);
      bytes = checked_mul(bytes, extent, tensor.name);
    }
    header.emplace_back(tensor.name,
                        Json::Object{{"dtype", tensor.dtype},
                                     {"shape", std::move(shape)},
                                     {"data_offsets", Json::Array{data, data + bytes}}});
    data = checked_add(data, bytes, tensor.name);
  }
  std::string text = to_text(Json(std::move(header)));
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data then begins at a multiple of 8
  return text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(Files& files, const std::string& path,
                                     const std::vector<SafeTensor>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(files, path), path_(path) {
  std::int64_t data = 0;
  const std::string header = header_of(tensors, metadata, data);
  const std::uint64_t length = header.size();
  begin_ = at_ = static_cast<std::int64_t>(sizeof length + header.size());
  end_ = begin_ + data;
  const std::int64_t free = files.free_space(folder_of(path));
  check(end_ <= free, "write ", path, ": it needs ", end_, " bytes, the disk has ", free, " free");
  file_.file().preallocate(end_);
  file_.file().write(&length, sizeof length, 0);
  file_.file().write(header.data(), static_cast<std::int64_t>(header.size()), sizeof length);
}

void SafetensorsWriter::write(const void* from, std::int64_t bytes) {
  check(bytes <= end_ - at_, "write ", path_, ": ", bytes, " bytes more are given, but ",
        end_ - at_, " are missing");
  file_.file().write(from, bytes, at_);
  at_ += bytes;
}

void SafetensorsWriter::commit() {
  check(at_ == end_, "write ", path_, ": ", end_ - at_, " bytes of the tensors are missing");
  file_.commit();
}

}  // namespace trireme
