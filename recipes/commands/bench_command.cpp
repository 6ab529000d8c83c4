// trireme bench FOLDER [--pp 512] [--tg 128] [--batch 1] [--depth 0] [--repeat 5]
// [-o md|json|jsonl|csv] [--section.key=value ...]: the tests of llama-bench on a model, in its
// columns.
#include <ctime>
#include <ostream>

#include "framework/base/error.h"
#include "recipes/cli/values.h"
#include "recipes/commands/bench_report.h"
#include "recipes/commands/doctor.h"
#include "recipes/commands/opened_model.h"
#include "recipes/commands/stream_text.h"
#include "recipes/commands/text_engine.h"

namespace trireme {

namespace {

constexpr std::int64_t kReadBytes = std::int64_t{256} << 20;

struct Wanted {
  std::vector<BenchTest> tests;
  int repeats = 5;
};

constexpr std::int64_t kLongest = 1 << 24, kMostAtOnce = 65536;

// Whole numbers, separated by commas.
std::vector<std::int64_t> numbers_of(const CommandLine& line, const std::string& name,
                                     const std::string& otherwise, std::int64_t least,
                                     std::int64_t most = kLongest) {
  const auto given = line.options.find(name);
  const std::string text = given == line.options.end() ? otherwise : given->second;
  std::vector<std::int64_t> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto value = parse_count(text.substr(begin, end - begin));
    if (!value || *value < least || *value > most)
      throw UsageError(join("--", name, " = ", text, ": expected whole numbers from ", least,
                            " to ", most, ", separated by commas"));
    numbers.push_back(*value);
    begin = end + 1;
  }
  return numbers;
}

Wanted wanted_of(const CommandLine& line) {
  Wanted wanted;
  wanted.repeats = static_cast<int>(count_option(line, "repeat", 5, 1, 1000));
  const auto batches = numbers_of(line, "batch", "1", 1, kMostAtOnce),
             depths = numbers_of(line, "depth", "0", 0);
  for (const std::int64_t depth : depths) {
    for (const std::int64_t pp : numbers_of(line, "pp", "512", 0))
      if (pp > 0) wanted.tests.push_back({.prompt = pp, .depth = depth});
    for (const std::int64_t tg : numbers_of(line, "tg", "128", 0))
      for (const std::int64_t batch : batches)
        if (tg > 0) wanted.tests.push_back({.generate = tg, .batch = batch, .depth = depth});
  }
  if (wanted.tests.empty()) throw UsageError("bench: --pp 0 and --tg 0 leave nothing to measure");
  return wanted;
}

// md, json, jsonl or csv; --json is short for -o json.
std::string format_of(const CommandLine& line) {
  const bool json = line.options.contains("json");
  const auto given = line.options.find("o");
  if (given == line.options.end()) return json ? "json" : "md";
  const std::string& format = given->second;
  if (format != "md" && format != "json" && format != "jsonl" && format != "csv")
    throw UsageError(join("-o ", format, ": expected md, json, jsonl or csv"));
  if (json && format != "json")
    throw UsageError(
        join("--json is -o json, and -o ", format, " is given: leave one of them out"));
  return format;
}

// Tokens that the largest test has in its cache.
CacheWish cache_of(const Wanted& wanted) {
  CacheWish wish{.tokens = 1};
  for (const BenchTest& t : wanted.tests)
    wish.tokens =
        std::max(wish.tokens, t.batch * kPageTokens * pages_for(t.depth + t.prompt + t.generate));
  return wish;
}

// Rows of the largest pass with which the stream of weights is measured.
std::int64_t stream_rows(const ModelOptions& model) {
  constexpr std::int64_t kMost = 512;
  return model.rotary ? kMost : std::min(kMost, std::max(model.positions, model.sequence));
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

int bench_command(Process& process, const CommandLine& line) {
  if (line.names.size() != 1)
    throw UsageError(
        "bench: needs the folder of a run with checkpoints, or a Hugging Face model folder: "
        "trireme "
        "bench FOLDER [--pp 512] [--tg 128] [--batch 1,8,32] [--depth 0] [--repeat 5] "
        "[-o md|json|jsonl|csv]");
  const Wanted wanted = wanted_of(line);
  const std::string format = format_of(line);
  BenchedModel told;
  std::vector<BenchResult> all;
  std::string streamed;
  open_model(
      process, line, line.names[0],
      [&](const ModelSource& source) {
        const Recipe& r = source.recipe;
        told = {.name = folder_name(line.names[0]),
                .family = r.model.family,
                .compute = r.inference.weights == "full"
                               ? r.precision.compute
                               : join(r.precision.compute, " ", r.inference.weights),
                .cpu = cpu_finding(process).value,
                .threads = r.parallel.threads,
                .ranks = r.parallel.ranks()};
        if (leads(process))
          told.read = read_rate(kReadBytes, static_cast<int>(told.threads * told.ranks));
        all.clear();
        return [&](const OpenedModel& model) {
          const ModelOptions& options = model.engine.options().model;
          const bool first = model.mesh.world().rank() == 0;
          if (first) {
            told.parameters = logical_parameters(options);
            const Recipe& of = model.source.recipe;
            told.bytes = of.inference.weights == "full"
                             ? told.parameters * size_of(model.engine.options().stage.compute)
                             : model.engine.weight_bytes() * (told.ranks / of.parallel.data);
            told.parts =
                of.parallel.data * (model.engine.stage().stream() ? 1 : of.parallel.pipeline);
            told.kv = std::string(name_of(kv_type(model.engine.options().stage.compute)));
          }
          for (const BenchTest& test : wanted.tests) {
            const std::int64_t length = test.depth + test.prompt + test.generate;
            check(options.rotary || length <= options.positions || length <= options.sequence,
                  "bench: ", test.name(), " needs ", length, " positions, the model has ",
                  std::max(options.positions, options.sequence));
            const std::vector<double> seconds =
                bench({model.engine, model.mesh, model.backend}, test, wanted.repeats);
            if (first) all.push_back({test, seconds, time_now()});
          }
          const WeightStream* const stream = model.engine.stage().stream();
          if (!stream || stream->streamed().slots_bytes() == 0) return;
          const StreamFigures figures =
              bench_stream({model.engine, model.mesh, model.backend}, stream_rows(options));
          if (first) streamed = stream_table(figures);
        };
      },
      cache_of(wanted));
  if (!leads(process)) return 0;
  process.out << bench_report(format, told, all);
  (format == "md" ? process.out : process.err) << streamed;
  return 0;
}

}  // namespace trireme
