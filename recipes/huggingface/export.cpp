#include "recipes/huggingface/export.h"

#include <algorithm>
#include <map>
#include <memory>

#include "framework/base/error.h"
#include "framework/checkpoint/safetensors/safetensors_writer.h"
#include "recipes/huggingface/companions.h"
#include "recipes/huggingface/config_write.h"
#include "recipes/huggingface/folder.h"
#include "recipes/huggingface/generation_config.h"
#include "recipes/huggingface/making.h"

namespace trireme {

namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{8} << 20;
// A tensor of the folder, and the logical ones that it is made of, by part.
struct Fused {
  SafeTensor stored;
  DType dtype = DType::kF32;
  bool transposed = false;
  std::vector<LogicalArray> parts;
};

// Layer 10 after layer 9.
std::vector<std::string> sort_key(const std::string& name) {
  std::vector<std::string> key(1);
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    const bool in_digits = !key.back().empty() && key.back()[0] >= '0' && key.back()[0] <= '9';
    if (digit != in_digits) key.emplace_back();
    key.back() += c;
  }
  for (std::string& part : key)
    if (!part.empty() && part[0] >= '0' && part[0] <= '9')
      part.insert(0, 20 - std::min<std::size_t>(20, part.size()), '0');
  return key;
}

// The type that a tensor is to have.
using TypeOf = std::function<DType(const std::string& name)>;

TypeOf types_of(Files& files, const HfExport& options) {
  if (options.dtype || options.base.empty())
    return [dtype = options.dtype.value_or(DType::kF32)](const std::string&) { return dtype; };
  const auto base = std::make_shared<const HfFolder>(files, options.base);
  const DType others = stored_types(*base).front();
  return [base, others](const std::string& name) {
    const SafeTensor* const stored = base->find(name);
    const auto dtype = stored ? dtype_of_safetensors(stored->dtype) : std::nullopt;
    return dtype && is_floating(*dtype) ? *dtype : others;
  };
}

std::vector<Fused> fused_tensors(const CheckpointReader& checkpoint, HfNaming naming,
                                 const TypeOf& type_of) {
  std::map<std::vector<std::string>, Fused> all;
  for (const LogicalArray& array : checkpoint.arrays()) {
    if (array.name.array != "value") continue;
    const std::optional<HfPlace> place = hf_place(naming, array.name.tensor);
    check(place.has_value(), "tensor ", array.name.tensor,
          " has no name in the files of this family");
    Fused& fused = all[sort_key(place->name)];
    fused.stored.name = place->name;
    fused.dtype = type_of(place->name);
    fused.stored.dtype = safetensors_name(fused.dtype);
    fused.transposed = place->transposed;
    fused.stored.shape = {array.rows() * place->parts};
    if (array.shape.dims() == 2) fused.stored.shape.push_back(array.columns());
    if (place->transposed) std::swap(fused.stored.shape[0], fused.stored.shape[1]);
    fused.parts.resize(static_cast<std::size_t>(place->parts));
    fused.parts[static_cast<std::size_t>(place->part)] = array;
  }
  std::vector<Fused> tensors;
  for (auto& [key, fused] : all) {
    for (const LogicalArray& part : fused.parts)
      check(!part.name.tensor.empty(), "a part of ", fused.stored.name,
            " is missing in the checkpoint");
    tensors.push_back(std::move(fused));
  }
  return tensors;
}

class WeightFiles {
 public:
  WeightFiles(Files& files, const CheckpointReader& checkpoint, std::string folder,
              const HfExport& options)
      : files_(files), checkpoint_(checkpoint), folder_(std::move(folder)), options_(options) {}

  void write(const std::vector<Fused>& tensors) {
    std::vector<std::vector<const Fused*>> shards(1);
    std::int64_t bytes = 0;
    for (const Fused& tensor : tensors) {
      const std::int64_t own = tensor.stored.elements() * size_of(tensor.dtype);
      if (bytes > 0 && bytes + own > options_.shard_bytes) {
        shards.emplace_back();
        bytes = 0;
      }
      shards.back().push_back(&tensor);
      bytes += own;
      all_ += own;
    }
    Json::Object map;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const std::string name = shard_name(i, shards.size());
      write_shard(name, shards[i]);
      for (const Fused* tensor : shards[i]) map.emplace_back(tensor->stored.name, name);
    }
    if (shards.size() == 1) return;
    const Json index(Json::Object{{"metadata", Json::Object{{"total_size", all_}}},
                                  {"weight_map", std::move(map)}});
    write_whole_atomically(files_, path_join(folder_, "model.safetensors.index.json"),
                           to_text(index, 2) + "\n");
  }

 private:
  static std::string shard_name(std::size_t i, std::size_t count) {
    if (count == 1) return "model.safetensors";
    const auto five = [](std::size_t n) {
      const std::string digits = std::to_string(n);
      return std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
    };
    return "model-" + five(i + 1) + "-of-" + five(count) + ".safetensors";
  }

  void write_shard(const std::string& name, const std::vector<const Fused*>& tensors) {
    std::vector<SafeTensor> headers;
    for (const Fused* tensor : tensors) headers.push_back(tensor->stored);
    SafetensorsWriter writer(files_, path_join(folder_, name), headers, {{"format", "pt"}});
    for (const Fused* tensor : tensors)
      tensor->transposed ? write_transposed(*tensor, writer) : write_rows(*tensor, writer);
    writer.commit();
  }

  void told(SafetensorsWriter& writer, const std::vector<std::byte>& block, std::int64_t bytes) {
    writer.write(block.data(), bytes);
    done_ += bytes;
    if (options_.progress) options_.progress(done_, all_);
  }

  void write_rows(const Fused& tensor, SafetensorsWriter& writer) {
    for (const LogicalArray& part : tensor.parts) {
      const std::int64_t width = part.columns() * size_of(tensor.dtype);
      const std::int64_t step =
          std::max<std::int64_t>(1, kBlockBytes / std::max<std::int64_t>(1, width));
      std::vector<std::byte> block;
      for (std::int64_t row = 0; row < part.rows(); row += step) {
        const std::int64_t rows = std::min(step, part.rows() - row);
        block.resize(static_cast<std::size_t>(rows * width));
        checkpoint_.read(part.name, {row, 0, rows, part.columns()}, tensor.dtype, block.data());
        told(writer, block, rows * width);
      }
    }
  }

  // Stored rows are our columns; each holds those of all parts behind each other.
  void write_transposed(const Fused& tensor, SafetensorsWriter& writer) {
    const std::int64_t columns = tensor.stored.shape[0], all_rows = tensor.stored.shape[1];
    const std::int64_t width = size_of(tensor.dtype);
    const std::int64_t step = std::max<std::int64_t>(1, kBlockBytes / (all_rows * width));
    std::vector<std::byte> read, block;
    for (std::int64_t column = 0; column < columns; column += step) {
      const std::int64_t count = std::min(step, columns - column);
      block.resize(static_cast<std::size_t>(count * all_rows * width));
      std::int64_t first = 0;
      for (const LogicalArray& part : tensor.parts) {
        read.resize(static_cast<std::size_t>(part.rows() * count * width));
        checkpoint_.read(part.name, {0, column, part.rows(), count}, tensor.dtype, read.data());
        for (std::int64_t r = 0; r < part.rows(); ++r)
          for (std::int64_t c = 0; c < count; ++c)
            std::copy_n(read.data() + (r * count + c) * width, width,
                        block.data() + (c * all_rows + first + r) * width);
        first += part.rows();
      }
      told(writer, block, count * all_rows * width);
    }
  }

  Files& files_;
  const CheckpointReader& checkpoint_;
  std::string folder_;
  const HfExport& options_;
  std::int64_t done_ = 0, all_ = 0;
};

// The base's own config, with the type that the files have if another one was asked for.
Json config_for(Files& files, const Recipe& recipe, const HfExport& options) {
  if (options.base.empty()) return hf_config_of(recipe, options.dtype.value_or(DType::kF32));
  const std::string path = path_join(options.base, "config.json");
  Json::Object members = parse_json(read_whole(files, path), path).object(path);
  for (auto& [key, value] : members)
    if (options.dtype && (key == "torch_dtype" || key == "dtype"))
      value = torch_name(*options.dtype);
  return members;
}

std::string name_of_folder(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

std::string model_card(const Recipe& recipe, const Manifest& manifest, const HfExport& options) {
  std::string text =
      join("---\nlibrary_name: transformers\n",
           options.base.empty() ? "" : "base_model: " + name_of_folder(options.base) + "\n",
           "---\n\n# Model card\n\n");
  text += join("Trained for ", manifest.step, " steps of ", recipe.batch.global, " samples x ",
               recipe.batch.sequence, " tokens",
               recipe.data.text.empty() ? "" : " on " + recipe.data.text, ".\n");
  if (manifest.scalars.contains("loss"))
    text += join("Loss of the last step: ", manifest.number("loss"), ".\n");
  return text +
         "\nTo be written: what it is for, what it was trained on, what it must not be used "
         "for.\n";
}

}  // namespace

std::string tokenizer_folder(Files& files, const Recipe& recipe, const std::string& base) {
  const std::string& used = recipe.data.tokenizer;
  const FileKind kind = files.status(used).kind;
  if (kind == FileKind::kFile && used.ends_with("/tokenizer.json")) return folder_of(used);
  return kind == FileKind::kDirectory ? used : base;
}

std::vector<DType> stored_types(const HfFolder& folder) {
  std::map<DType, std::int64_t> bytes;
  for (const std::string& name : folder.names())
    if (const auto dtype = dtype_of_safetensors(folder.find(name)->dtype);
        dtype && is_floating(*dtype) && !is_hf_buffer(name))
      bytes[*dtype] += folder.find(name)->bytes;
  std::vector<DType> types;
  for (const auto& [dtype, count] : bytes) types.push_back(dtype);
  std::stable_sort(types.begin(), types.end(),
                   [&](DType a, DType b) { return bytes.at(a) > bytes.at(b); });
  if (types.empty()) types.push_back(DType::kF32);
  return types;
}

void export_model(Files& files, const CheckpointReader& checkpoint, const Recipe& recipe,
                  const std::string& to, const HfExport& options) {
  const Json config = config_for(files, recipe, options);
  const std::string type = config.at("model_type", "config.json").text("config.json: model_type");
  const std::vector<Fused> tensors = fused_tensors(
      checkpoint, type == "gpt2" ? HfNaming::kGpt2 : HfNaming::kLlama, types_of(files, options));
  make_folder(files, to, options.replace, [&](const std::string& making) {
    WeightFiles(files, checkpoint, making, options).write(tensors);
    const std::string tokenizer = tokenizer_folder(files, recipe, options.base);
    if (!tokenizer.empty()) copy_companions(files, tokenizer, making);
    write_generation_config(files, options.base.empty() ? tokenizer : options.base, making,
                            options.ends);
    if (!options.history.empty())
      write_whole_atomically(files, path_join(making, "trainer_state.json"), options.history);
    write_whole_atomically(files, path_join(making, "README.md"),
                           model_card(recipe, checkpoint.manifest(), options));
    write_whole_atomically(files, path_join(making, "config.json"), to_text(config, 2) + "\n");
  });
}

}  // namespace trireme
