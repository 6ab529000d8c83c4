// trireme checkpoint inspect|verify|diff|export|import|merge FOLDER... [--json]
#include <functional>
#include <ostream>

#include "framework/base/error.h"
#include "framework/checkpoint/inspect.h"
#include "recipes/commands/checkpoint_place.h"
#include "recipes/commands/export_command.h"
#include "recipes/commands/import_command.h"
#include "recipes/commands/inspect_folder.h"
#include "recipes/commands/process.h"
#include "recipes/report/numbers.h"
#include "recipes/report/table.h"

namespace trireme {

namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr char kUsage[] =
    "trireme checkpoint inspect FOLDER | verify FOLDER... | diff FOLDER FOLDER, each a run's "
    "folder "
    "or one of its checkpoints (inspect: a model folder, too), [--json]; export FOLDER OUT "
    "[--dtype f32|bf16|f16] "
    "[--shard_size 5GB] makes a Hugging Face folder (of adapters: PEFT's), import FOLDER RUN "
    "[--section.key=value] makes a checkpoint of one, merge FOLDER OUT [--base FOLDER] adds "
    "adapters to their model";

std::string shape_text(const Shape& shape) { return join(shape); }

template <typename Items, typename Write>
std::string json_list(const Items& items, const Write& write) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "\n  " : ",\n  ") + write(item);
  return "[" + text + "]";
}

std::string json_object(const std::map<std::string, std::string>& entries) {
  std::string text;
  for (const auto& [key, value] : entries)
    text += (text.empty() ? "" : ", ") + json_string(key) + ": " + json_string(value);
  return "{" + text + "}";
}

// The newest of them.
std::string one_in(Process& process, const std::string& folder) {
  return checkpoints_in(process.files, folder).back();
}

std::string inspected_json(const Manifest& manifest, const std::vector<ArraySummary>& arrays) {
  return join("{\"run\": ", json_string(manifest.run), ", \"step\": ", manifest.step,
              ", \"layout\": ", json_string(manifest.layout),
              ", \"scalars\": ", json_object(manifest.scalars), ", \"arrays\": ",
              json_list(arrays,
                        [](const ArraySummary& a) {
                          std::string shape;
                          for (std::int64_t d = 0; d < a.array.shape.dims(); ++d)
                            shape += (d == 0 ? "" : ", ") + std::to_string(a.array.shape[d]);
                          return join("{\"tensor\": ", json_string(a.array.name.tensor),
                                      ", \"array\": ", json_string(a.array.name.array),
                                      ", \"shape\": [", shape,
                                      "], \"dtype\": ", json_string(name_of(a.array.dtype)),
                                      ", \"norm\": ", json_number(a.norm),
                                      ", \"min\": ", json_number(a.smallest),
                                      ", \"max\": ", json_number(a.largest), ", \"nan\": ", a.nans,
                                      ", \"infinite\": ", a.infinities, "}");
                        }),
              "}\n");
}

std::string inspected_text(const std::string& folder, const Manifest& manifest,
                           const std::vector<ArraySummary>& arrays) {
  std::int64_t values = 0, bytes = 0;
  Rows rows{{"tensor", "array", "shape", "dtype", "norm", "min", "max", "NaN", "inf"}};
  for (const ArraySummary& a : arrays) {
    const std::int64_t elements = a.array.shape.elements();
    if (a.array.name.array == "value") values += elements;
    bytes += elements * size_of(a.array.dtype);
    rows.push_back({a.array.name.tensor, a.array.name.array, shape_text(a.array.shape),
                    std::string(name_of(a.array.dtype)), significant(a.norm, 6),
                    significant(a.smallest, 4), significant(a.largest, 4), grouped(a.nans),
                    grouped(a.infinities)});
  }
  std::string text = join(folder, ": step ", manifest.step, " of run ", manifest.run,
                          ", saved under ", manifest.layout, "\n", grouped(values), " parameters, ",
                          bytes_text(bytes), " in ", manifest.files.size(), " files\n");
  for (const auto& [key, value] : manifest.scalars) text += "  " + key + " = " + value + "\n";
  return text + "\n" + table_text(rows);
}

int inspect_one(Process& process, const CommandLine& line, const std::string& name) {
  if (is_stored_model(process.files, name)) return inspect_stored_model(process, line, name);
  const std::string folder = one_in(process, name);
  const CheckpointReader reader(process.files, folder);
  const std::vector<ArraySummary> arrays = inspect(reader);
  process.out << (line.options.contains("json")
                      ? inspected_json(reader.manifest(), arrays)
                      : inspected_text(folder, reader.manifest(), arrays));
  return 0;
}

// Every damaged file of all of them, not the first.
int verify_all(Process& process, const CommandLine& line, const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, std::vector<std::string>>> found;
  for (const std::string& name : names)
    for (const std::string& folder : checkpoints_in(process.files, name))
      found.emplace_back(folder, verify_checkpoint(process.files, folder));
  std::int64_t damaged = 0;
  std::string text;
  for (const auto& [folder, problems] : found) {
    damaged += problems.empty() ? 0 : 1;
    text += folder + (problems.empty() ? ": good\n" : ": damaged\n");
    for (const std::string& problem : problems) text += "  " + problem + "\n";
  }
  if (line.options.contains("json"))
    text =
        json_list(found,
                  [](const auto& entry) {
                    return join(
                        "{\"checkpoint\": ", json_string(entry.first), ", \"problems\": ",
                        json_list(entry.second, [](const auto& p) { return json_string(p); }), "}");
                  }) +
        "\n";
  process.out << text << std::flush;
  check(damaged == 0, damaged, " of ", found.size(), " checkpoints are damaged");
  return 0;
}

std::string array_text(bool there, const LogicalArray& array) {
  return there ? join(shape_text(array.shape), " ", name_of(array.dtype)) : std::string("absent");
}

std::string difference_text(const CheckpointDifference& all) {
  std::string text;
  if (!all.arrays.empty()) {
    Rows rows{{"tensor", "array", "first", "second", "elements that differ", "largest", "at"}};
    for (const ArrayDifference& d : all.arrays)
      rows.push_back({d.name.tensor, d.name.array, array_text(d.in_first, d.first),
                      array_text(d.in_second, d.second), d.compared ? grouped(d.differing) : "-",
                      d.compared ? significant(d.largest, 4) : "-",
                      d.compared ? join(d.row, ",", d.column) : std::string("-")});
    text += table_text(rows);
  }
  for (const auto& [key, values] : all.scalars)
    text += join(key, ": ", values.first.empty() ? "absent" : values.first, " and ",
                 values.second.empty() ? "absent" : values.second, "\n");
  return all.none() ? "equal: every array and number has the same bits\n" : text;
}

std::string difference_json(const CheckpointDifference& all) {
  std::string scalars;
  for (const auto& [key, values] : all.scalars)
    scalars += join(scalars.empty() ? "" : ", ", json_string(key), ": [", json_string(values.first),
                    ", ", json_string(values.second), "]");
  return join(
      "{\"equal\": ", all.none() ? "true" : "false", ", \"scalars\": {", scalars, "}, \"arrays\": ",
      json_list(all.arrays,
                [](const ArrayDifference& d) {
                  return join(
                      "{\"tensor\": ", json_string(d.name.tensor),
                      ", \"array\": ", json_string(d.name.array),
                      ", \"first\": ", json_string(array_text(d.in_first, d.first)),
                      ", \"second\": ", json_string(array_text(d.in_second, d.second)),
                      ", \"differing\": ", d.compared ? std::to_string(d.differing) : "null",
                      ", \"largest\": ", d.compared ? json_number(d.largest) : "null", "}");
                }),
      "}\n");
}

int diff_two(Process& process, const CommandLine& line, const std::string& a,
             const std::string& b) {
  const CheckpointReader first(process.files, one_in(process, a));
  const CheckpointReader second(process.files, one_in(process, b));
  const CheckpointDifference all = difference(first, second);
  process.out << (line.options.contains("json") ? difference_json(all) : difference_text(all));
  return all.none() ? 0 : 1;
}

}  // namespace

int checkpoint_command(Process& process, const CommandLine& line) {
  const std::string what = line.names.empty() ? "" : line.names[0];
  if (!line.flags.empty() && what != "import")
    throw UsageError(join("checkpoint: --", line.flags[0].name, " is no option of it: ", kUsage));
  const std::vector<std::string> folders(line.names.begin() + (what.empty() ? 0 : 1),
                                         line.names.end());
  if (what == "inspect" && folders.size() == 1) return inspect_one(process, line, folders[0]);
  if (what == "verify" && !folders.empty()) return verify_all(process, line, folders);
  if (what == "diff" && folders.size() == 2) return diff_two(process, line, folders[0], folders[1]);
  if (what == "export" && folders.size() == 2)
    return export_checkpoint(process, line, folders[0], folders[1]);
  if (what == "import" && folders.size() == 2)
    return import_folder(process, line, folders[0], folders[1]);
  if (what == "merge" && folders.size() == 2)
    return merge_checkpoint(process, line, folders[0], folders[1]);
  throw UsageError(join("checkpoint: ", kUsage));
}

}  // namespace trireme
