// A safetensors file: 8 bytes of header length (little-endian), a JSON header, then the tensors'
// bytes. Read from strangers, so everything is checked before anything is used: the same files are
// accepted as by the safetensors package (format 0.4; bench/compare_safetensors.py), with sentences
// for all others and where it is lenient: a key twice, blanks before the header.
//
// Checked: the header is at most 100 MB of JSON that begins with {, no key twice; every tensor has
// a known dtype, a shape of integers >= 0 whose product fits, and a range of bytes of exactly that
// size; ranges follow each other without hole or overlap and end where the file ends. Tensors
// without dims or without elements are legal.
//
// Bytes are read, not mapped: a file that shrinks later is an Error then, where a mapping would end
// the process.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/base/dtype.h"
#include "framework/base/files.h"

namespace trireme {

struct SafeTensor {
  std::string name;
  std::string dtype;  // as the file spells it: "BF16"
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, bytes = 0;  // in the file

  std::int64_t elements() const;
  std::string text() const;  // "BF16 (3072, 1024)"
};

// The element type of this name ("F32"); nothing for those that this project does not compute with.
std::optional<DType> dtype_of_safetensors(std::string_view name);
// "F32" for f32 and so on.
std::string_view safetensors_name(DType dtype);

class SafetensorsFile {
 public:
  // Error naming the file and what is wrong in it.
  SafetensorsFile(Files& files, const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<SafeTensor>& tensors() const { return tensors_; }  // by their place in the file
  const SafeTensor* find(std::string_view name) const;                 // null: not in here
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Bytes [from, from + bytes) of a tensor of this file. May be called from any thread.
  void read(const SafeTensor& tensor, std::int64_t from, std::int64_t bytes, void* into) const;

 private:
  void take_header(std::string_view header, std::int64_t file_bytes);

  std::string path_;
  std::unique_ptr<File> file_;
  std::vector<SafeTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace trireme
