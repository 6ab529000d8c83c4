// merge_adapter of adapter.h: the base's files again, with adapters added.
//
// Legend: N outputs, K inputs of a linear, r rank; a stored matrix is (N, K), or (K, N) where the
// family keeps it transposed.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "framework/checkpoint/convert.h"
#include "framework/checkpoint/safetensors/safetensors_writer.h"
#include "recipes/huggingface/adapter.h"
#include "recipes/huggingface/companions.h"
#include "recipes/huggingface/folder.h"
#include "recipes/huggingface/generation_config.h"
#include "recipes/huggingface/making.h"

namespace trireme {

namespace {

constexpr std::int64_t kBlockBytes = std::int64_t{8} << 20;
constexpr std::string_view kPrefixes[] = {"base_model.model.", "transformer."};

struct AdapterConfig {
  double scale = 1;
  std::int64_t rank = 0;
  bool transposed = false;
};

// Fields that do not change what the matrices mean: names, which linears have some (the file
// tells), settings of training, and of what other fields switch on.
constexpr std::string_view kHarmless[] = {"peft_type",
                                          "peft_version",
                                          "task_type",
                                          "auto_mapping",
                                          "revision",
                                          "inference_mode",
                                          "target_modules",
                                          "base_model_name_or_path",
                                          "r",
                                          "lora_alpha",
                                          "lora_dropout",
                                          "exclude_modules",
                                          "fan_in_fan_out",
                                          "use_rslora",
                                          "layers_pattern",
                                          "layers_to_transform",
                                          "megatron_core",
                                          "megatron_config",
                                          "loftq_config",
                                          "corda_config",
                                          "eva_config",
                                          "lora_ga_config",
                                          "qalora_group_size",
                                          "ensure_weight_tying",
                                          "velora_config"};

// Beginnings of the adapters that leave the base as it is; others take a part out of its weights.
bool keeps_base(const Json& begins) {
  for (const char* plain : {"gaussian", "eva", "orthogonal", "mica"})
    if (begins == Json(plain)) return true;
  return begins.is_null() || begins.is(Json::Kind::kBoolean);
}

// All other fields, also those of later versions, with the values that mean nothing.
void expect_plain(const Json& config, const std::string& path) {
  const auto empty = [](const Json& v) {
    return v.is_null() || v == Json(false) || v == Json("none") || v == Json(Json::Object{}) ||
           v == Json(Json::Array{});
  };
  for (const auto& [field, value] : config.object(path)) {
    if (empty(value) ||
        std::find(std::begin(kHarmless), std::end(kHarmless), field) != std::end(kHarmless))
      continue;
    if (field != "init_lora_weights")
      fail(path, ": ", field, " = ", describe(value),
           " is not supported; adapters of linears alone are");
    check(keeps_base(value), path, ": ", field, " = ", describe(value),
          ": such adapters stand beside another base than the one they were made of; let peft "
          "convert them while it saves them (path_initial_model_for_weight_conversion)");
  }
}

AdapterConfig read_config(Files& files, const std::string& folder) {
  const std::string path = path_join(folder, "adapter_config.json");
  const Json config = parse_json(read_whole(files, path), path);
  const std::string type = config.at("peft_type", path).text(path + ": peft_type");
  check(type == "LORA", path, ": peft_type = ", type, " is not supported; LORA is");
  expect_plain(config, path);
  const auto flag = [&](const char* field) {
    const Json* value = config.find(field);
    return value && !value->is_null() && value->boolean(path + ": " + field);
  };
  AdapterConfig result{.rank = config.at("r", path).integer(path + ": r"),
                       .transposed = flag("fan_in_fan_out")};
  check(result.rank > 0, path, ": r = ", result.rank, "; at least 1 is expected");
  const auto rank = static_cast<double>(result.rank);
  result.scale = config.at("lora_alpha", path).number(path + ": lora_alpha") /
                 (flag("use_rslora") ? std::sqrt(rank) : rank);
  return result;
}

std::string without_prefix(std::string name) {
  for (const std::string_view prefix : kPrefixes)
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
  return name;
}

// The matrices, by the name of the weight that they are added to.
class Adapters {
 public:
  Adapters(Files& files, const std::string& folder)
      : config_(read_config(files, folder)),
        file_(files, path_join(folder, "adapter_model.safetensors")) {
    for (const SafeTensor& tensor : file_.tensors()) {
      const bool a = tensor.name.ends_with(".lora_A.weight");
      check(a || tensor.name.ends_with(".lora_B.weight"), file_.path(), ": tensor \"", tensor.name,
            "\" is no matrix of an adapter");
      check(tensor.shape.size() == 2 && tensor.shape[a ? 0 : 1] == config_.rank, file_.path(),
            ": tensor \"", tensor.name, "\" is ", tensor.text(), ", but r = ", config_.rank);
      constexpr std::string_view kEnd = "lora_A.weight";
      Pair& pair = pairs_[without_prefix(tensor.name.substr(0, tensor.name.size() - kEnd.size())) +
                          "weight"];
      (a ? pair.a : pair.b) = &tensor;
    }
    for (const auto& [name, pair] : pairs_)
      check(pair.a && pair.b, file_.path(), ": the adapter of ", name, " has only one matrix");
  }

  const AdapterConfig& config() const { return config_; }
  const std::string& path() const { return file_.path(); }
  bool has(const std::string& stored) const { return pairs_.contains(without_prefix(stored)); }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& [name, pair] : pairs_) names.insert(name);
    return names;
  }

  // Factors of what is added to a stored matrix: (rows, r) and (r, columns).
  struct Factors {
    std::vector<float> left, right;
  };
  Factors factors(const SafeTensor& weight) const {
    const Pair& pair = pairs_.at(without_prefix(weight.name));
    const std::int64_t outputs = pair.b->shape[0], inputs = pair.a->shape[1], r = config_.rank;
    std::vector<std::int64_t> expected{outputs, inputs};
    if (config_.transposed) std::swap(expected[0], expected[1]);
    check(weight.shape == expected, path(), ": the adapter of ", weight.name, " is (", outputs,
          " outputs, ", inputs, " inputs), but the base's tensor is ", weight.text());
    const std::vector<float> a = values(*pair.a), b = values(*pair.b);
    if (!config_.transposed) return {b, a};
    return {turned(a, r, inputs), turned(b, outputs, r)};
  }

 private:
  struct Pair {
    const SafeTensor *a = nullptr, *b = nullptr;
  };

  std::vector<float> values(const SafeTensor& tensor) const {
    const auto dtype = dtype_of_safetensors(tensor.dtype);
    check(dtype && is_floating(*dtype), path(), ": tensor \"", tensor.name, "\" is ", tensor.dtype,
          "; F64, F32, F16 and BF16 can be read");
    std::vector<std::byte> raw(static_cast<std::size_t>(tensor.bytes));
    file_.read(tensor, 0, tensor.bytes, raw.data());
    std::vector<float> result(static_cast<std::size_t>(tensor.elements()));
    converter(*dtype, DType::kF32)(raw.data(), reinterpret_cast<std::byte*>(result.data()),
                                   tensor.elements());
    return result;
  }

  static std::vector<float> turned(const std::vector<float>& x, std::int64_t rows,
                                   std::int64_t columns) {
    std::vector<float> y(x.size());
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        y[static_cast<std::size_t>(j * rows + i)] = x[static_cast<std::size_t>(i * columns + j)];
    return y;
  }

  AdapterConfig config_;
  SafetensorsFile file_;
  std::map<std::string, Pair> pairs_;
};

// Tensors from the base's files to ours.
class Merging {
 public:
  Merging(Files& files, const Adapters& adapters, const HfFolder& base, const AdapterMerge& options)
      : files_(files), adapters_(adapters), options_(options) {
    for (const std::string& name : base.names()) all_ += base.find(name)->bytes;
  }

  void file(const std::string& from, const std::string& to) {
    const SafetensorsFile read(files_, from);
    SafetensorsWriter writer(files_, to, read.tensors(), read.metadata());
    for (const SafeTensor& tensor : read.tensors())
      adapters_.has(tensor.name) ? add(read, tensor, writer) : copy(read, tensor, writer);
    writer.commit();
  }

 private:
  void write(SafetensorsWriter& to, const std::vector<std::byte>& bytes) {
    to.write(bytes.data(), std::ssize(bytes));
    done_ += std::ssize(bytes);
    if (options_.progress) options_.progress(done_, all_);
  }

  void copy(const SafetensorsFile& from, const SafeTensor& tensor, SafetensorsWriter& to) {
    std::vector<std::byte> block;
    for (std::int64_t at = 0; at < tensor.bytes; at += kBlockBytes) {
      block.resize(static_cast<std::size_t>(std::min(kBlockBytes, tensor.bytes - at)));
      from.read(tensor, at, std::ssize(block), block.data());
      write(to, block);
    }
  }

  void add(const SafetensorsFile& from, const SafeTensor& tensor, SafetensorsWriter& to) {
    const auto dtype = dtype_of_safetensors(tensor.dtype);
    check(dtype && is_floating(*dtype), from.path(), ": tensor \"", tensor.name, "\" is ",
          tensor.dtype, "; F64, F32, F16 and BF16 can be added to");
    const Adapters::Factors factors = adapters_.factors(tensor);
    const std::int64_t columns = tensor.shape[1], width = columns * size_of(*dtype);
    const std::int64_t r = adapters_.config().rank;
    const auto scale = static_cast<float>(adapters_.config().scale);
    std::vector<std::byte> raw(static_cast<std::size_t>(width));
    std::vector<float> row(static_cast<std::size_t>(columns)), sum(row.size());
    for (std::int64_t i = 0; i < tensor.shape[0]; ++i) {
      from.read(tensor, i * width, width, raw.data());
      converter(*dtype, DType::kF32)(raw.data(), reinterpret_cast<std::byte*>(row.data()), columns);
      std::fill(sum.begin(), sum.end(), 0.0f);
      for (std::int64_t k = 0; k < r; ++k) {
        const float factor = factors.left[static_cast<std::size_t>(i * r + k)];
        const float* right = factors.right.data() + k * columns;
        for (std::size_t j = 0; j < row.size(); ++j) sum[j] += factor * right[j];
      }
      for (std::size_t j = 0; j < row.size(); ++j) row[j] += scale * sum[j];
      converter(DType::kF32, *dtype)(reinterpret_cast<const std::byte*>(row.data()), raw.data(),
                                     columns);
      write(to, raw);
    }
  }

  Files& files_;
  const Adapters& adapters_;
  const AdapterMerge& options_;
  std::int64_t done_ = 0, all_ = 0;
};

// Files of a model, as they are; folders and other formats of the weights stay behind.
bool goes_along(const std::string& name) {
  for (const std::string_view end : {".json", ".jinja", ".model", ".txt", ".md"})
    if (name.ends_with(end)) return name != "adapter_config.json";
  return name == "LICENSE";
}

}  // namespace

void merge_adapter(Files& files, const std::string& adapter, const std::string& base,
                   const std::string& to, const AdapterMerge& options) {
  const Adapters adapters(files, adapter);
  const HfFolder folder(files, base);
  std::string missing;
  for (const std::string& name : adapters.names())
    if (!folder.find(name)) missing += (missing.empty() ? "" : ", ") + name;
  check(missing.empty(), adapters.path(), ": the base ", base, " has no tensor ", missing);
  make_folder(files, to, false, [&](const std::string& making) {
    Merging merging(files, adapters, folder, options);
    for (const std::string& name : files.list(base)) {
      const std::string from = path_join(base, name), place = path_join(making, name);
      if (files.status(from).kind != FileKind::kFile) continue;
      if (folder.reads(from))
        merging.file(from, place);
      else if (goes_along(name) && !is_companion(name))
        write_whole_atomically(files, place, read_whole(files, from));
    }
    copy_companions(files, options.tokenizer.empty() ? base : options.tokenizer, making);
    if (!options.ends.empty()) write_generation_config(files, base, making, options.ends);
  });
}

}  // namespace trireme
