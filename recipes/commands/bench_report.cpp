#include "recipes/commands/bench_report.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "framework/base/error.h"
#include "recipes/report/numbers.h"

namespace trireme {

namespace {

constexpr std::int64_t kRowsAtOnce = 512;  // of a prompt, as bench() runs it

struct Field {
  std::string name, value;  // as JSON
};

std::string whole(double value) { return join(static_cast<std::int64_t>(std::llround(value))); }

std::string numbers(const std::vector<double>& values, double scale, bool wholes) {
  std::string text;
  for (const double value : values)
    text += join(text.empty() ? "" : ", ", wholes ? whole(value * scale) : json_number(value));
  return "[" + text + "]";
}

std::vector<double> scaled(std::vector<double> values, double by) {
  for (double& value : values) value *= by;
  return values;
}

std::vector<Field> fields_of(const BenchedModel& m, const BenchResult& r, bool samples) {
  const std::vector<double> rates = r.rates(), ns = scaled(r.seconds, 1e9);
  std::vector<Field> f{{"build_commit", "\"unknown\""},
                       {"build_number", "0"},
                       {"cpu_info", json_string(m.cpu)},
                       {"gpu_info", "\"\""},
                       {"backends", "\"CPU\""},
                       {"model_filename", json_string(m.name)},
                       {"model_type", json_string(m.family + " " + m.compute)},
                       {"model_size", join(m.bytes)},
                       {"model_n_params", join(m.parameters)},
                       {"n_batch", join(kRowsAtOnce)},
                       {"n_ubatch", join(kRowsAtOnce)},
                       {"n_threads", join(m.threads)},
                       {"type_k", json_string(m.kv)},
                       {"type_v", json_string(m.kv)},
                       {"n_gpu_layers", "0"},
                       {"n_prompt", join(r.test.prompt)},
                       {"n_gen", join(r.test.generate)},
                       {"n_depth", join(r.test.depth)},
                       {"test_time", json_string(r.time)},
                       {"avg_ns", whole(mean_of(ns))},
                       {"stddev_ns", whole(deviation_of(ns))},
                       {"avg_ts", json_number(mean_of(rates))},
                       {"stddev_ts", json_number(deviation_of(rates))}};
  if (samples) {
    f.push_back({"samples_ns", numbers(ns, 1, true)});
    f.push_back({"samples_ts", numbers(rates, 1, false)});
  }
  f.push_back({"n_ranks", join(m.ranks)});
  f.push_back({"n_parallel", join(r.test.batch)});
  f.push_back({"ttft_ms", r.test.prompt > 0 ? json_number(mean_of(r.seconds) * 1e3) : "null"});
  f.push_back({"read_bytes_per_s", json_number(m.read)});
  return f;
}

std::string object(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& f : fields)
    text += join(text.empty() ? "" : ", ", json_string(f.name), ": ", f.value);
  return "{" + text + "}";
}

// Every value in quotes, as llama-bench's; quotes inside are doubled.
std::string csv_value(const std::string& json) {
  std::string text = json == "null" ? "" : json;
  if (text.size() >= 2 && text.front() == '"') text = text.substr(1, text.size() - 2);
  std::string quoted = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;  // an escape of JSON
    quoted += text[i] == '"' ? std::string("\"\"") : std::string(1, text[i]);
  }
  return quoted + "\"";
}

// With the names before the first one.
std::string csv_row(const BenchedModel& m, const BenchResult& r, bool first) {
  std::string names, values;
  for (const Field& f : fields_of(m, r, false)) {
    names += (names.empty() ? "" : ",") + f.name;
    values += (values.empty() ? "" : ",") + csv_value(f.value);
  }
  return (first ? names + "\n" : "") + values + "\n";
}

// What the weights of `m` were read at, and when a prompt's first token can be drawn.
std::string below_table(const BenchedModel& m, const BenchResult& r) {
  if (r.test.prompt > 0)
    return join("; first token of ", r.test.name(), " after ", fixed(mean_of(r.seconds) * 1e3, 1),
                " ms");
  if (r.test.depth > 0) return "";
  return join("; weights in ", r.test.name(), ": ",
              percent_text(mean_of(r.rates()) / static_cast<double>(r.test.batch) *
                           static_cast<double>(std::min(m.parts, r.test.batch) * m.bytes) / m.read),
              " of that");
}

}  // namespace

std::vector<double> BenchResult::rates() const {
  std::vector<double> all;
  for (const double s : seconds) all.push_back(static_cast<double>(test.tokens()) / s);
  return all;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += (value - mean_of(values)) * (value - mean_of(values));
  return values.size() < 2 ? 0 : std::sqrt(sum / static_cast<double>(values.size() - 1));
}

BenchReport::BenchReport(std::string format, BenchedModel model)
    : format_(std::move(format)), model_(std::move(model)) {}

std::string BenchReport::row(const BenchResult& result) {
  const bool first = rows_++ == 0;
  if (format_ == "csv") return csv_row(model_, result, first);
  if (format_ == "md")
    return (first ? "| model | size | params | backend | threads | test | t/s |\n"
                    "| --- | ---: | ---: | --- | ---: | ---: | ---: |\n"
                  : "") +
           markdown_row(result);
  const std::string one = object(fields_of(model_, result, true));
  return format_ == "jsonl" ? one + "\n" : join(first ? "[\n  " : ",\n  ", one);
}

std::string BenchReport::markdown_row(const BenchResult& r) {
  below_ += below_table(model_, r);
  return join("| ", model_.name, " ", model_.compute, " | ", bytes_text(model_.bytes), " | ",
              fixed(static_cast<double>(model_.parameters) / 1e6, 2), " M | CPU | ", model_.threads,
              " | ", r.test.name(), " | ", fixed(mean_of(r.rates()), 2), " ± ",
              fixed(deviation_of(r.rates()), 2), " |\n");
}

std::string BenchReport::end() const {
  if (format_ == "json") return rows_ == 0 ? "[]\n" : "\n]\n";
  if (format_ != "md" || rows_ == 0) return "";
  return join("\nmemory reads ", fixed(model_.read / 1e9, 1), " GB/s", below_, "\n");
}

}  // namespace trireme
