// Writes a safetensors file piece by piece: the header is known before the first byte of data, so a
// model larger than memory can be exported. The file appears whole under its name, or not at all.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "framework/checkpoint/safetensors/safetensors_file.h"

namespace trireme {

class SafetensorsWriter {
 public:
  // Tensors lie in the file in the order given; of each, name, dtype and shape are read. Error for
  // names that come twice. Takes the room at once.
  SafetensorsWriter(Files& files, const std::string& path, const std::vector<SafeTensor>& tensors,
                    const std::map<std::string, std::string>& metadata);

  // The next bytes of the data; tensors follow each other without gap.
  void write(const void* from, std::int64_t bytes);
  std::int64_t data_bytes() const { return end_ - begin_; }
  // Error when bytes are missing. Syncs and renames.
  void commit();

 private:
  AtomicFile file_;
  std::string path_;
  std::int64_t begin_ = 0, end_ = 0, at_ = 0;
};

}  // namespace trireme
