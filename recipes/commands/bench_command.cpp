// trireme bench FOLDER [--pp 512] [--tg 128] [--batch 1] [--depth 0] [--repeat 5]
// [-o md|json|jsonl|csv] [--section.key=value ...]: the tests of llama-bench on a model, in its
// columns. A row is told when its test is done; a signal ends it after the pass under way, with
// 130.
#include <ctime>
#include <optional>
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

constexpr std::int64_t kStreamRows = 512;

// Tokens that the largest test has in its cache, or the measuring of a stream.
CacheWish cache_of(const Wanted& wanted) {
  CacheWish wish{.tokens = kStreamRows};
  for (const BenchTest& t : wanted.tests)
    wish.tokens =
        std::max(wish.tokens, t.batch * kPageTokens * pages_for(t.depth + t.prompt + t.generate));
  return wish;
}

// Rows of the largest pass with which the stream of weights is measured.
std::int64_t stream_rows(const ModelOptions& model) {
  const std::int64_t most = std::max(model.positions, model.sequence);
  return model.rotary ? kStreamRows : std::min(kStreamRows, most);
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

// A model's tests, on all of its ranks; world rank 0 tells what they give, row by row.
class ModelBench {
 public:
  ModelBench(Process& process, const CommandLine& line)
      : process_(process), line_(line), wanted_(wanted_of(line)), format_(format_of(line)) {}

  int run() {
    try {
      open_model(
          process_, line_, line_.names[0],
          [&](const ModelSource& source) {
            prepare(source);
            return [&](const OpenedModel& model) { work(model); };
          },
          cache_of(wanted_));
    } catch (...) {
      tell_end();
      throw;
    }
    tell_end();
    if (!leads(process_) || whole_) return 0;
    const auto all = std::ssize(wanted_.tests);
    process_.err << join("trireme: bench: ended by a signal after ", done_, " of ", all,
                         all == 1 ? " test" : " tests",
                         done_ == all ? "; the stream of weights was not measured" : "", "\n");
    return kInterrupted;
  }

 private:
  // Before any rank starts.
  void prepare(const ModelSource& source) {
    const Recipe& r = source.recipe;
    told_ = {.name = folder_name(line_.names[0]),
             .family = r.model.family,
             .compute = r.inference.weights == "full"
                            ? r.precision.compute
                            : join(r.precision.compute, " ", r.inference.weights),
             .cpu = cpu_finding(process_).value,
             .threads = r.parallel.threads,
             .ranks = r.parallel.ranks()};
    if (leads(process_))
      told_.read = read_rate(kReadBytes, static_cast<int>(told_.threads * told_.ranks));
  }

  void work(const OpenedModel& model) {
    const RankParts rank{model.engine, model.mesh, model.backend};
    const bool first = model.mesh.world().rank() == 0;
    check_lengths(model.engine.options().model);
    if (first) describe(model);
    for (const BenchTest& test : wanted_.tests) {
      if (asked_to_end(process_, model)) return;
      const std::vector<double> seconds =
          bench(rank, test, wanted_.repeats, [&] { return process_.signals.load() > 0; });
      if (first && std::ssize(seconds) == wanted_.repeats) tell({test, seconds, time_now()});
    }
    const WeightStream* const stream = model.engine.stage().stream();
    const bool streams = stream && stream->streamed().slots_bytes() > 0;
    std::optional<StreamFigures> figures;
    if (streams)
      figures = bench_stream(rank, stream_rows(model.engine.options().model),
                             [&] { return asked_to_end(process_, model); });
    if (!first) return;
    if (figures) streamed_ = stream_table(*figures);
    whole_ = done_ == std::ssize(wanted_.tests) && (figures || !streams);
  }

  void check_lengths(const ModelOptions& options) const {
    for (const BenchTest& test : wanted_.tests) {
      const std::int64_t length = test.depth + test.prompt + test.generate;
      check(options.rotary || length <= options.positions || length <= options.sequence,
            "bench: ", test.name(), " needs ", length, " positions, the model has ",
            std::max(options.positions, options.sequence));
    }
  }

  // Of world rank 0.
  void describe(const OpenedModel& model) {
    const auto& options = model.engine.options();
    const Recipe& r = model.source.recipe;
    told_.parameters = logical_parameters(options.model);
    told_.bytes = r.inference.weights == "full"
                      ? told_.parameters * size_of(options.stage.compute)
                      : model.engine.weight_bytes() * (told_.ranks / r.parallel.data);
    told_.parts = r.parallel.data * (model.engine.stage().stream() ? 1 : r.parallel.pipeline);
    told_.kv = std::string(name_of(kv_type(options.stage.compute)));
    report_.emplace(format_, told_);
  }

  void tell(const BenchResult& result) {
    process_.out << report_->row(result) << std::flush;
    ++done_;
  }

  void tell_end() {
    if (!report_) return;
    process_.out << report_->end();
    (format_ == "md" ? process_.out : process_.err) << streamed_;
    report_.reset();
  }

  Process& process_;
  const CommandLine& line_;
  Wanted wanted_;
  std::string format_;
  BenchedModel told_;
  std::optional<BenchReport> report_;  // of the process that has rank 0
  std::string streamed_;
  std::int64_t done_ = 0;  // tests
  bool whole_ = false;
};

}  // namespace

int bench_command(Process& process, const CommandLine& line) {
  if (line.names.size() != 1)
    throw UsageError(
        "bench: needs the folder of a run with checkpoints, or a Hugging Face model folder: "
        "trireme "
        "bench FOLDER [--pp 512] [--tg 128] [--batch 1,8,32] [--depth 0] [--repeat 5] "
        "[-o md|json|jsonl|csv]");
  return ModelBench(process, line).run();
}

}  // namespace trireme
