// What SafetensorsFile says of files, for bench/compare_safetensors.py: each line of standard input
// names a file, each line of output is {"error": sentence} or {"tensors": {name: [dtype, shape,
// bytes in hexadecimal]}, "metadata": {...}}.
#include <exception>
#include <iostream>

#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "framework/checkpoint/safetensors/safetensors_file.h"

using namespace trireme;

namespace {

std::string hexadecimal(const SafetensorsFile& file, const SafeTensor& tensor) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string bytes(static_cast<std::size_t>(tensor.bytes), '\0'), text;
  file.read(tensor, 0, tensor.bytes, bytes.data());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

Json described(Files& files, const std::string& path) {
  try {
    const SafetensorsFile file(files, path);
    Json::Object tensors, metadata;
    for (const SafeTensor& tensor : file.tensors()) {
      Json::Array shape(tensor.shape.begin(), tensor.shape.end());
      tensors.emplace_back(tensor.name,
                           Json::Array{tensor.dtype, std::move(shape), hexadecimal(file, tensor)});
    }
    for (const auto& [key, text] : file.metadata()) metadata.emplace_back(key, text);
    return Json::Object{{"tensors", std::move(tensors)}, {"metadata", std::move(metadata)}};
  } catch (const Error& error) {
    return Json::Object{{"error", error.what()}};
  }
}

}  // namespace

int main() try {
  const auto files = real_files();
  for (std::string path; std::getline(std::cin, path);)
    std::cout << to_text(described(*files, path)) << "\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
