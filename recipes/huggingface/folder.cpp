#include "recipes/huggingface/folder.h"

#include <algorithm>
#include <cstring>

#include "framework/base/error.h"
#include "framework/checkpoint/convert.h"
#include "recipes/huggingface/adapter.h"

namespace trireme {

namespace {

constexpr std::int64_t kMostJson = std::int64_t{64} << 20;
constexpr std::string_view kHead = "lm_head.weight";
constexpr std::int64_t kCompared = std::int64_t{1} << 18;  // elements at once
constexpr std::string_view kPrefix = "transformer.";       // GPT-2's, which some files leave out

// A name that a file of the folder can have: no way out of it.
void expect_inside(const std::string& name, const std::string& where) {
  check(!name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
            name.find('\\') == std::string::npos && name.find('\0') == std::string::npos,
        where, ": \"", name, "\" is no plain file name");
}

std::string stored_name(const std::string& name) {
  return name.rfind(kPrefix, 0) == 0 ? name.substr(kPrefix.size()) : name;
}

DType element_type(const SafeTensor& tensor, const std::string& path) {
  const std::optional<DType> dtype = dtype_of_safetensors(tensor.dtype);
  check(dtype && is_floating(*dtype), path, ": tensor \"", tensor.name, "\" is ", tensor.dtype,
        "; F64, F32, F16 and BF16 can be read");
  return *dtype;
}

}  // namespace

std::string hub_advice(Files& files, const std::string& missing) {
  const std::size_t slash = missing.find('/');
  const bool owned = slash != std::string::npos && slash > 0 && slash + 1 < missing.size() &&
                     missing.find('/', slash + 1) == std::string::npos;
  if (!owned || missing[0] == '.' || missing[0] == '~' || files.exists(missing.substr(0, slash)))
    return {};
  return join("; if that is a name in the Hugging Face hub: models are not fetched from there; ",
              "hf download ", missing, " --local-dir FOLDER does it");
}

HfModel hf_model_of(Files& files, const std::string& folder) {
  const std::string path = path_join(folder, "config.json");
  check(files.exists(folder), folder, ": there is no such folder", hub_advice(files, folder));
  if (!files.exists(path)) expect_no_adapter(files, folder);
  check(files.exists(path), folder, ": there is no config.json; a folder with config.json and ",
        "model.safetensors is expected");
  return read_hf_config(parse_json(read_whole(files, path, kMostJson), path), path);
}

HfFolder::HfFolder(Files& files, const std::string& folder)
    : folder_(folder), model_(hf_model_of(files, folder)) {
  open_weights(files);
}

HfNaming HfFolder::naming() const {
  return model_.type == "gpt2" ? HfNaming::kGpt2 : HfNaming::kLlama;
}

// Of both, `transformers` reads the whole file.
void HfFolder::open_weights(Files& files) {
  const std::string whole = path_join(folder_, "model.safetensors"), index = whole + ".index.json";
  if (files.exists(whole)) return add(std::make_unique<SafetensorsFile>(files, whole));
  if (files.exists(index)) return open_shards(files, index);
  expect_no_adapter(files, folder_);
  std::string others;
  for (const std::string& name : files.list(folder_))
    if (name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".gguf") ||
        name.ends_with(".safetensors"))
      others += (others.empty() ? "" : ", ") + name;
  fail(folder_, ": there is neither model.safetensors nor model.safetensors.index.json",
       others.empty() ? ""
                      : "; not read: " + others +
                            "; of what transformers reads it makes the former: "
                            "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(OUT)");
}

void HfFolder::open_shards(Files& files, const std::string& index) {
  const Json json = parse_json(read_whole(files, index, kMostJson), index);
  const Json::Object& map = json.at("weight_map", index).object(index + ": weight_map");
  std::set<std::string> shards;
  for (const auto& [name, file] : map) {
    shards.insert(file.text(index + ": weight_map"));
    expect_inside(file.text(index), index);
  }
  std::string missing;
  for (const std::string& shard : shards)
    if (!files.exists(path_join(folder_, shard))) missing += (missing.empty() ? "" : ", ") + shard;
  check(missing.empty(), folder_, ": files that ", index, " names are missing: ", missing);
  for (const std::string& shard : shards)
    add(std::make_unique<SafetensorsFile>(files, path_join(folder_, shard)));
  for (const auto& [name, file] : map) {
    const auto found = tensors_.find(stored_name(name));
    check(found != tensors_.end() &&
              found->second.file->path() == path_join(folder_, file.text(index)),
          index, ": tensor \"", name, "\" is not in ", file.text(index));
  }
}

void HfFolder::add(std::unique_ptr<SafetensorsFile> file) {
  for (const SafeTensor& tensor : file->tensors()) {
    const auto [at, fresh] = tensors_.emplace(stored_name(tensor.name), Found{file.get(), &tensor});
    check(fresh, folder_, ": tensor \"", tensor.name, "\" is in ", at->second.file->path(),
          " and in ", file->path());
  }
  files_.push_back(std::move(file));
}

std::set<std::string> HfFolder::names() const {
  std::set<std::string> names;
  for (const auto& [name, found] : tensors_) names.insert(name);
  return names;
}

std::vector<std::string> HfFolder::paths() const {
  std::vector<std::string> paths;
  for (const auto& file : files_) paths.push_back(file->path());
  return paths;
}

bool HfFolder::reads(const std::string& file) const {
  return std::any_of(files_.begin(), files_.end(),
                     [&](const auto& one) { return one->path() == file; });
}

const SafeTensor* HfFolder::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second.tensor;
}

HfFolder::Found HfFolder::at(const std::string& logical, const HfPlace& place) const {
  auto found = tensors_.find(place.name);
  // A head of its own that files leave out is the embedding; of a tied pair either may be there.
  if (found == tensors_.end() && place.name == kHead) found = tensors_.find(embedding_name());
  if (found == tensors_.end() && place.name == embedding_name() && tied())
    found = tensors_.find(std::string(kHead));
  check(found != tensors_.end(), folder_, ": tensor \"", place.name, "\" is missing, which is ",
        logical);
  return found->second;
}

std::string HfFolder::embedding_name() const { return hf_place(naming(), "embedding.table")->name; }

bool HfFolder::tied() const {
  return std::find(model_.keys.begin(), model_.keys.end(),
                   std::pair<std::string, std::string>{"tie_embeddings", "true"}) !=
         model_.keys.end();
}

// A head that the configuration ties, and the files have as another matrix: versions of
// `transformers` differ in which they mean.
void HfFolder::expect_one_table() const {
  const auto head = tensors_.find(std::string(kHead)), table = tensors_.find(embedding_name());
  if (head == tensors_.end() || table == tensors_.end()) return;
  const SafeTensor &a = *head->second.tensor, &b = *table->second.tensor;
  bool same = a.shape == b.shape;
  const std::int64_t columns = same && a.shape.size() == 2 ? a.shape[1] : 0;
  const std::int64_t rows = columns == 0 ? 0 : a.shape[0];
  const std::int64_t step =
      std::max<std::int64_t>(1, kCompared / std::max<std::int64_t>(1, columns));
  std::vector<double> x(static_cast<std::size_t>(step * columns)), y(x.size());
  for (std::int64_t row = 0; same && row < rows; row += step) {
    const std::int64_t count = std::min(step, rows - row);
    read_rows(head->second, row, count, 0, columns, DType::kF64,
              reinterpret_cast<std::byte*>(x.data()));
    read_rows(table->second, row, count, 0, columns, DType::kF64,
              reinterpret_cast<std::byte*>(y.data()));
    same = std::memcmp(x.data(), y.data(), static_cast<std::size_t>(count * columns) * 8) == 0;
  }
  check(same, folder_, ": tie_word_embeddings is true, but ", a.name, " and ", b.name,
        " differ; set tie_word_embeddings to false in config.json to have both, or take ", a.name,
        " out of the file");
}

// Of the shape that it must have.
HfFolder::Found HfFolder::expected_at(const std::string& logical, const Shape& shape,
                                      const HfPlace& place) const {
  const Found found = at(logical, place);
  const std::int64_t rows = shape[0] * place.parts, columns = shape.dims() < 2 ? 1 : shape[1];
  std::vector<std::int64_t> expected = {rows};
  if (shape.dims() == 2) {
    expected.push_back(columns);
    if (place.transposed) std::swap(expected[0], expected[1]);
  }
  if (found.tensor->shape != expected)
    fail(found.file->path(), ": tensor \"", found.tensor->name, "\" is ", found.tensor->text(),
         ", but ", logical, " of this model needs ",
         SafeTensor{.name = {}, .dtype = found.tensor->dtype, .shape = expected}.text());
  return found;
}

HfFolder::Stored HfFolder::stored(const std::string& logical, const Shape& shape,
                                  const Rectangle& at_rows, DType dtype) const {
  const std::optional<HfPlace> place = hf_place(naming(), logical);
  if (!place) return {.obstacle = join(logical, " is not in the folder")};
  const Found found = expected_at(logical, shape, *place);
  const DType stored = element_type(*found.tensor, found.file->path());
  const std::int64_t all = shape.dims() < 2 ? 1 : shape[1];
  if (stored != dtype)
    return {.obstacle = join(found.tensor->name, " is ", found.tensor->dtype,
                             " there, but computed in ", name_of(dtype))};
  if (place->transposed) return {.obstacle = found.tensor->name + " is stored transposed"};
  if (at_rows.columns != all && at_rows.rows > 1)
    return {.obstacle = join("tensor ranks cut the rows of ", found.tensor->name)};
  const std::int64_t row = place->part * shape[0] + at_rows.row;
  return {.path = found.file->path(),
          .offset = found.tensor->begin + (row * all + at_rows.column) * size_of(stored)};
}

DType HfFolder::stored_type(const std::string& logical) const {
  const std::optional<HfPlace> place = hf_place(naming(), logical);
  check(place.has_value(), folder_, ": ", model_.type, " models have no tensor ", logical);
  const Found found = at(logical, *place);
  return element_type(*found.tensor, found.file->path());
}

void HfFolder::read(const std::string& logical, const Shape& shape, const Rectangle& at_rows,
                    DType dtype, void* out) const {
  const std::optional<HfPlace> place = hf_place(naming(), logical);
  check(place.has_value(), folder_, ": ", model_.type, " models have no tensor ", logical);
  const Found found = expected_at(logical, shape, *place);
  const std::int64_t first = place->part * shape[0];
  auto* to = static_cast<std::byte*>(out);
  if (place->transposed) return read_transposed(found, first, at_rows, dtype, to);
  read_rows(found, first + at_rows.row, at_rows.rows, at_rows.column, at_rows.columns, dtype, to);
}

// Runs of whole rows in one go, else row by row.
void HfFolder::read_rows(const Found& found, std::int64_t first, std::int64_t rows,
                         std::int64_t column, std::int64_t columns, DType dtype,
                         std::byte* out) const {
  const DType stored = element_type(*found.tensor, found.file->path());
  const Convert convert = converter(stored, dtype);
  const std::int64_t all = found.tensor->shape.size() < 2 ? 1 : found.tensor->shape[1];
  const bool whole = columns == all;
  const std::int64_t runs = whole ? 1 : rows, length = whole ? rows * columns : columns;
  std::vector<std::byte> block(
      static_cast<std::size_t>(stored == dtype ? 0 : length * size_of(stored)));
  for (std::int64_t run = 0; run < runs; ++run) {
    const std::int64_t begin = ((first + run) * all + column) * size_of(stored);
    std::byte* const to = out + run * length * size_of(dtype);
    std::byte* const raw = stored == dtype ? to : block.data();
    found.file->read(*found.tensor, begin, length * size_of(stored), raw);
    if (stored != dtype) convert(raw, to, length);
  }
}

// Stored (columns, rows): a stored row is a column of ours.
void HfFolder::read_transposed(const Found& found, std::int64_t first, const Rectangle& at,
                               DType dtype, std::byte* out) const {
  const DType stored = element_type(*found.tensor, found.file->path());
  const Convert convert = converter(stored, dtype);
  const std::int64_t all = found.tensor->shape[1], width = size_of(dtype);
  std::vector<std::byte> raw(static_cast<std::size_t>(at.rows * size_of(stored)));
  std::vector<std::byte> column(static_cast<std::size_t>(at.rows * width));
  for (std::int64_t c = 0; c < at.columns; ++c) {
    const std::int64_t begin = (at.column + c) * all + first + at.row;
    found.file->read(*found.tensor, begin * size_of(stored), at.rows * size_of(stored), raw.data());
    convert(raw.data(), column.data(), at.rows);
    for (std::int64_t r = 0; r < at.rows; ++r)
      std::copy_n(column.data() + r * width, width, out + (r * at.columns + c) * width);
  }
}

void HfFolder::expect_all_used(const std::vector<std::string>& logical, bool tied) const {
  std::set<std::string> used;
  for (const std::string& name : logical)
    if (const std::optional<HfPlace> place = hf_place(naming(), name)) used.insert(place->name);
  if (tied) used.insert(std::string(kHead));
  if (tied) expect_one_table();
  std::string unused;
  int count = 0;
  for (const auto& [name, found] : tensors_) {
    if (used.contains(name) || is_hf_buffer(name)) continue;
    if (++count <= 10) unused += (unused.empty() ? "" : ", ") + name;
  }
  check(count == 0, folder_, ": ", count, " tensors are not part of this ", model_.type,
        " model: ", unused, count > 10 ? ", ..." : "");
}

}  // namespace trireme
