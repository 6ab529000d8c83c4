// A model folder of the Hugging Face layout: config.json and the weights, in model.safetensors or
// in the files that model.safetensors.index.json names. Only files inside the folder are opened,
// and only those that are named; a shard that is missing, or a tensor that the index names and no
// file has, is an Error before anything is read. May be read by several threads.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "framework/checkpoint/logical.h"
#include "framework/checkpoint/safetensors/safetensors_file.h"
#include "recipes/huggingface/config.h"
#include "recipes/huggingface/tensors.h"

namespace trireme {

// What to do about a folder that is not there and may be meant as a model of the hub; begins with
// "; ". Empty where it is a path.
std::string hub_advice(Files& files, const std::string& missing);

// What config.json of the folder says; Error if there is none.
HfModel hf_model_of(Files& files, const std::string& folder);

class HfFolder {
 public:
  HfFolder(Files& files, const std::string& folder);

  const std::string& path() const { return folder_; }
  const HfModel& model() const { return model_; }
  // Names of all tensors, without the prefix of the whole model.
  std::set<std::string> names() const;
  // Of the files with its weights.
  std::vector<std::string> paths() const;
  // Is that one of the files with its weights?
  bool reads(const std::string& file) const;
  // Null if there is none.
  const SafeTensor* find(const std::string& name) const;

  // Of a logical tensor; Error for one that is missing or no floating-point one.
  DType stored_type(const std::string& logical) const;

  // A rectangle of a logical tensor of that shape, row-major, converted to `dtype`. Error naming
  // both shapes if the stored one differs.
  void read(const std::string& logical, const Shape& shape, const Rectangle& at, DType dtype,
            void* out) const;
  // Where that rectangle lies in a file as `dtype`, row-major; or what prevents it, a few words.
  struct Stored {
    std::string path;
    std::int64_t offset = 0;
    std::string obstacle;
  };
  Stored stored(const std::string& logical, const Shape& shape, const Rectangle& at,
                DType dtype) const;
  // Error naming the tensors that are neither of these logical ones nor make nothing of a model,
  // and for a tied head that is there with other values than the embedding's.
  void expect_all_used(const std::vector<std::string>& logical, bool tied) const;

 private:
  struct Found {
    const SafetensorsFile* file;
    const SafeTensor* tensor;
  };
  void open_weights(Files& files);
  void open_shards(Files& files, const std::string& index);
  void add(std::unique_ptr<SafetensorsFile> file);
  Found at(const std::string& logical, const HfPlace& place) const;
  Found expected_at(const std::string& logical, const Shape& shape, const HfPlace& place) const;
  void read_rows(const Found& found, std::int64_t first, std::int64_t rows, std::int64_t column,
                 std::int64_t columns, DType dtype, std::byte* out) const;
  void read_transposed(const Found& found, std::int64_t first, const Rectangle& at, DType dtype,
                       std::byte* out) const;
  HfNaming naming() const;
  std::string embedding_name() const;
  bool tied() const;
  void expect_one_table() const;

  std::string folder_;
  HfModel model_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Found> tensors_;  // by name without prefix
};

}  // namespace trireme
