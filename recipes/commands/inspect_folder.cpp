#include "recipes/commands/inspect_folder.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "framework/checkpoint/convert.h"
#include "framework/checkpoint/inspect.h"
#include "framework/data/tokenizer.h"
#include "recipes/huggingface/adapter.h"
#include "recipes/huggingface/folder.h"
#include "recipes/huggingface/generation_config.h"
#include "recipes/report/numbers.h"
#include "recipes/report/printable.h"
#include "recipes/report/table.h"

namespace trireme {

namespace {

constexpr std::int64_t kAtOnce = std::int64_t{1} << 18;  // elements

struct StoredSummary {
  SafeTensor tensor;
  std::optional<ArraySummary> values;  // of floating-point ones
};

std::string shape_text(const SafeTensor& tensor) {
  std::string text;
  for (const std::int64_t extent : tensor.shape) text += (text.empty() ? "" : ", ") + join(extent);
  return text;
}

StoredSummary summary_of(const SafetensorsFile& file, const SafeTensor& tensor) {
  StoredSummary summary{.tensor = tensor};
  const auto dtype = dtype_of_safetensors(tensor.dtype);
  if (!dtype || !is_floating(*dtype)) return summary;
  const std::int64_t width = size_of(*dtype);
  std::vector<std::byte> stored;
  std::vector<double> values;
  ValueSums sums;
  for (std::int64_t at = 0; at < tensor.elements(); at += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, tensor.elements() - at);
    stored.resize(static_cast<std::size_t>(count * width));
    values.resize(static_cast<std::size_t>(count));
    file.read(tensor, at * width, count * width, stored.data());
    converter(*dtype, DType::kF64)(stored.data(), reinterpret_cast<std::byte*>(values.data()),
                                   count);
    sums.add(values);
  }
  sums.tell(summary.values.emplace());
  return summary;
}

struct StoredModel {
  std::string about;                                          // "llama", "adapters"
  std::vector<std::pair<std::string, std::string>> settings;  // in words
  std::string chat_template;
  std::vector<std::string> files;
  std::vector<StoredSummary> tensors;
};

void read_files(Process& process, const std::vector<std::string>& paths, StoredModel& model) {
  for (const std::string& path : paths) {
    const SafetensorsFile file(process.files, path);
    model.files.push_back(path);
    for (const SafeTensor& tensor : file.tensors())
      model.tensors.push_back(summary_of(file, tensor));
  }
}

void read_tokenizer(Process& process, const std::string& folder, StoredModel& model) {
  if (!process.files.exists(path_join(folder, "tokenizer.json"))) return;
  const auto tokenizer = make_tokenizer(folder, process.files);
  const TokenizerSettings& settings = tokenizer->settings();
  model.settings.emplace_back("tokenizer",
                              join(tokenizer->name(), ", ", tokenizer->vocabulary(), " ids"));
  const auto add = [&](const char* name, std::optional<std::int32_t> id) {
    if (id) model.settings.emplace_back(name, join(*id, " ", printable(tokenizer->token_of(*id))));
  };
  add("bos", settings.bos);
  add("eos", settings.eos);
  add("pad", settings.pad);
  add("unk", settings.unk);
  for (const auto& [name, text] : settings.chat_templates)
    if (name == "default") model.chat_template = text;
}

StoredModel read_model(Process& process, const std::string& folder) {
  StoredModel model;
  if (!process.files.exists(path_join(folder, "config.json"))) {
    model.about = "adapters (PEFT)";
    model.settings.emplace_back("base", base_of_adapter(process.files, folder));
    read_files(process, {path_join(folder, "adapter_model.safetensors")}, model);
    return model;
  }
  const HfFolder read(process.files, folder);
  model.about = read.model().type;
  for (const auto& [key, value] : read.model().keys) model.settings.emplace_back(key, value);
  std::string ends;
  for (const std::int32_t id : end_ids_of(process.files, folder))
    ends += (ends.empty() ? "" : ", ") + join(id);
  if (!ends.empty()) model.settings.emplace_back("eos_token_id", ends);
  read_tokenizer(process, folder, model);
  read_files(process, read.paths(), model);
  return model;
}

std::string json_of(const std::string& folder, const StoredModel& model) {
  Json::Object settings;
  for (const auto& [key, value] : model.settings) settings.emplace_back(key, value);
  Json::Array tensors;
  for (const StoredSummary& s : model.tensors) {
    Json::Array shape;
    for (const std::int64_t extent : s.tensor.shape) shape.emplace_back(extent);
    Json::Object one{
        {"tensor", s.tensor.name}, {"dtype", s.tensor.dtype}, {"shape", std::move(shape)}};
    if (s.values) {
      const auto number = [](double x) { return std::isfinite(x) ? Json(x) : Json(); };
      one.emplace_back("norm", number(s.values->norm));
      one.emplace_back("min", number(s.values->smallest));
      one.emplace_back("max", number(s.values->largest));
      one.emplace_back("nan", s.values->nans);
      one.emplace_back("infinite", s.values->infinities);
    }
    tensors.emplace_back(std::move(one));
  }
  return to_text(Json(Json::Object{{"folder", folder},
                                   {"model", model.about},
                                   {"settings", std::move(settings)},
                                   {"chat_template", model.chat_template},
                                   {"tensors", std::move(tensors)}})) +
         "\n";
}

std::string text_of(const std::string& folder, const StoredModel& model) {
  std::int64_t values = 0, bytes = 0;
  std::vector<std::vector<std::string>> rows{
      {"tensor", "dtype", "shape", "norm", "min", "max", "NaN", "inf"}};
  for (const StoredSummary& s : model.tensors) {
    values += s.tensor.elements();
    bytes += s.tensor.bytes;
    rows.push_back({printable(s.tensor.name), s.tensor.dtype, shape_text(s.tensor)});
    for (const std::string& cell :
         s.values ? std::vector<std::string>{significant(s.values->norm, 6),
                                             significant(s.values->smallest, 4),
                                             significant(s.values->largest, 4),
                                             grouped(s.values->nans), grouped(s.values->infinities)}
                  : std::vector<std::string>(5, "-"))
      rows.back().push_back(cell);
  }
  std::string text = join(folder, ": ", model.about, ", ", grouped(values), " parameters, ",
                          bytes_text(bytes), " in ", model.files.size(), " file(s)\n");
  for (const auto& [key, value] : model.settings) text += "  " + key + " = " + value + "\n";
  if (!model.chat_template.empty())
    text += "\nchat template\n" + printable(model.chat_template) + "\n";
  return text + "\n" + table_text(rows);
}

}  // namespace

bool is_stored_model(Files& files, const std::string& folder) {
  return files.exists(path_join(folder, "config.json")) || is_adapter_folder(files, folder);
}

int inspect_stored_model(Process& process, const CommandLine& line, const std::string& folder) {
  const StoredModel model = read_model(process, folder);
  process.out << (line.options.contains("json") ? json_of(folder, model) : text_of(folder, model));
  return 0;
}

}  // namespace trireme
