// trireme bench FOLDER [--pp 512] [--tg 128] [--batch 1] [--depth 0] [--repeat 5] [--json]
// [--section.key=value ...]: the tests of llama-bench on a model, in its columns.
#include <cmath>
#include <numeric>
#include <ostream>

#include "framework/base/error.h"
#include "recipes/cli/values.h"
#include "recipes/commands/opened_model.h"
#include "recipes/report/numbers.h"
#include "recipes/serve/bench.h"

namespace trireme {

namespace {

constexpr std::int64_t kReadBytes = std::int64_t{256} << 20;

struct Wanted {
  std::vector<BenchTest> tests;
  int repeats = 5;
};

// Whole numbers, separated by commas.
std::vector<std::int64_t> numbers_of(const CommandLine& line, const std::string& name,
                                     const std::string& otherwise, std::int64_t least) {
  const auto given = line.options.find(name);
  const std::string text = given == line.options.end() ? otherwise : given->second;
  std::vector<std::int64_t> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto value = parse_count(text.substr(begin, end - begin));
    if (!value || *value < least)
      throw UsageError(join("--", name, " = ", text, ": expected whole numbers from ", least,
                            " on, separated by commas"));
    numbers.push_back(*value);
    begin = end + 1;
  }
  return numbers;
}

Wanted wanted_of(const CommandLine& line) {
  Wanted wanted;
  wanted.repeats =
      static_cast<int>(std::min<std::int64_t>(1000, numbers_of(line, "repeat", "5", 1)[0]));
  const auto batches = numbers_of(line, "batch", "1", 1),
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

struct Measured {
  BenchTest test;
  std::vector<double> rates;  // tokens a second
  double mean() const {
    return std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(rates.size());
  }
  double deviation() const {
    double sum = 0;
    for (const double rate : rates) sum += (rate - mean()) * (rate - mean());
    return rates.size() < 2 ? 0 : std::sqrt(sum / static_cast<double>(rates.size() - 1));
  }
};

struct Model {
  std::string name, compute;
  std::int64_t parameters = 0, bytes = 0;
  std::int64_t threads = 0, ranks = 0;
  double read = 0;  // bytes a second of host memory
};

std::string last_part(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  const std::string trimmed = path.substr(0, end + 1);
  return trimmed.substr(trimmed.rfind('/') + 1);
}

std::string markdown(const Model& m, const std::vector<Measured>& all) {
  std::string text =
      "| model | size | params | backend | threads | test | t/s |\n"
      "| --- | ---: | ---: | --- | ---: | ---: | ---: |\n";
  for (const Measured& one : all)
    text += join("| ", m.name, " ", m.compute, " | ", bytes_text(m.bytes), " | ",
                 fixed(static_cast<double>(m.parameters) / 1e6, 2), " M | CPU | ", m.threads, " | ",
                 one.test.name(), " | ", fixed(one.mean(), 2), " ± ", fixed(one.deviation(), 2),
                 " |\n");
  text += join("\nmemory reads ", fixed(m.read / 1e9, 1), " GB/s");
  for (const Measured& one : all)
    if (one.test.generate > 0 && one.test.depth == 0)
      text += join("; weights in ", one.test.name(), ": ",
                   percent_text(one.mean() / static_cast<double>(one.test.batch) *
                                static_cast<double>(m.bytes) / m.read),
                   " of that");
  return text + "\n";
}

std::string json(const Model& m, const std::vector<Measured>& all) {
  std::string text = "[\n";
  for (const Measured& one : all) {
    std::string samples;
    for (const double rate : one.rates)
      samples += join(samples.empty() ? "" : ", ", json_number(rate));
    text += join(text.size() > 2 ? ",\n" : "", "  {\"model_filename\": ", json_string(m.name),
                 ", \"model_type\": ", json_string(m.compute), ", \"model_size\": ", m.bytes,
                 ", \"model_n_params\": ", m.parameters,
                 ", \"backends\": \"CPU\", \"n_threads\": ", m.threads, ", \"n_ranks\": ", m.ranks,
                 ", \"n_prompt\": ", one.test.prompt, ", \"n_gen\": ", one.test.generate,
                 ", \"n_batch\": ", one.test.batch, ", \"n_depth\": ", one.test.depth,
                 ", \"avg_ts\": ", json_number(one.mean()),
                 ", \"stddev_ts\": ", json_number(one.deviation()), ", \"samples_ts\": [", samples,
                 "], \"read_bytes_per_s\": ", json_number(m.read), "}");
  }
  return text + "\n]\n";
}

}  // namespace

int bench_command(Process& process, const CommandLine& line) {
  if (line.names.size() != 1)
    throw UsageError(
        "bench: needs the folder of a run with checkpoints, or a Hugging Face model folder: "
        "trireme "
        "bench FOLDER [--pp 512] [--tg 128] [--batch 1,8,32] [--depth 0] [--repeat 5] [--json]");
  const Wanted wanted = wanted_of(line);
  Model told;
  std::vector<Measured> all;
  open_model(process, line, line.names[0], [&](const ModelSource& source) {
    const Recipe& r = source.recipe;
    told = {.name = last_part(line.names[0]),
            .compute = r.precision.compute,
            .threads = r.parallel.threads,
            .ranks = r.parallel.ranks()};
    told.read = read_rate(kReadBytes, static_cast<int>(told.threads * told.ranks));
    all.clear();
    return [&](const OpenedModel& model) {
      const ModelOptions& options = model.engine.options().model;
      const bool first = model.mesh.world().rank() == 0;
      if (first) {
        told.parameters = logical_parameters(options);
        told.bytes = told.parameters * size_of(model.engine.options().stage.compute);
      }
      for (const BenchTest& test : wanted.tests) {
        const std::int64_t length = test.depth + test.prompt + test.generate;
        check(options.rotary || length <= options.positions || length <= options.sequence,
              "bench: ", test.name(), " needs ", length, " positions, the model has ",
              std::max(options.positions, options.sequence));
        const std::vector<double> seconds =
            bench({model.engine, model.mesh, model.backend}, test, wanted.repeats);
        if (!first) continue;
        Measured& one = all.emplace_back(Measured{test, {}});
        for (const double s : seconds) one.rates.push_back(static_cast<double>(test.tokens()) / s);
      }
    };
  });
  process.out << (line.options.contains("json") ? json(told, all) : markdown(told, all));
  return 0;
}

}  // namespace trireme
