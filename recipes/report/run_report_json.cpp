// All JSON that this folder reads or builds as a tree: the library's header is heavy.
#include <cmath>
#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "recipes/report/run_folder.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json maybe(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json memory_of(const RankReport& rank) {
  Json tiers = Json::object();
  for (const auto& [tier, kinds] : rank.memory)
    for (const auto& [kind, cell] : kinds)
      tiers[tier][kind] = {{"resident", cell.resident},
                           {"peak", cell.peak},
                           {"formula_resident", maybe(cell.formula_resident)},
                           {"formula_peak", maybe(cell.formula_peak)}};
  return tiers;
}

Json totals_of(const RankReport& rank) {
  Json tiers = Json::object();
  for (const auto& [tier, total] : rank.memory_total)
    tiers[tier] = {{"resident", total.resident}, {"peak", total.peak}};
  return tiers;
}

Json traffic_of(const RankReport& rank) {
  Json operations = Json::object();
  for (const auto& [operation, cell] : rank.traffic)
    operations[operation] = {
        {"bytes", cell.bytes}, {"calls", cell.calls}, {"formula", maybe(cell.formula)}};
  return operations;
}

Json disk_of(const RunReport& report) {
  Json kinds = Json::object();
  for (const auto& [kind, cell] : report.disk)
    kinds[kind] = {{"seconds", cell.seconds},
                   {"computing", cell.computing},
                   {"waiting_reads", cell.waiting_reads},
                   {"waiting_writes", cell.waiting_writes},
                   {"bytes_read", cell.bytes_read},
                   {"bytes_written", cell.bytes_written},
                   {"overlap", cell.overlap()}};
  return kinds;
}

Json summary_of(const RunReport& report) {
  return {{"steps", report.steps},
          {"skipped", report.skipped},
          {"verified", report.verified},
          {"incidents", report.incidents},
          {"tokens", report.tokens},
          {"parameters", report.parameters},
          {"earlier_steps", report.earlier_steps},
          {"earlier_tokens", report.earlier_tokens},
          {"seconds", report.seconds},
          {"loss", report.loss},
          {"validation_loss", maybe(report.validation_loss)}};
}

Json tuning_of(const RunReport& report) {
  if (!report.tuning) return nullptr;
  const Tuning& t = *report.tuning;
  const auto pair = [](const std::optional<double>& before, const std::optional<double>& after) {
    return Json{{"before", maybe(before)}, {"after", maybe(after)}};
  };
  const auto raised = [](const std::optional<double>& loss) {
    return loss ? std::optional(std::exp(*loss)) : std::nullopt;
  };
  Json answers = Json::array();
  for (const TunedAnswer& a : t.answers)
    answers.push_back(
        {{"prompt", a.prompt}, {"before", maybe(a.before)}, {"after", maybe(a.after)}});
  return {{"loss", pair(t.loss_before, t.loss_after)},
          {"perplexity", pair(raised(t.loss_before), raised(t.loss_after))},
          {"answers", answers}};
}

template <typename T>
std::optional<T> read_maybe(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

double read_number(const Json& json, const char* key) {
  const Json& value = json.at(key);
  return value.is_null() ? NAN : value.get<double>();
}

std::int64_t read_count(const Json& json, const char* key) {
  return json.at(key).get<std::int64_t>();
}

RankReport read_rank(const Json& json, std::size_t rank) {
  RankReport report;
  report.name = json.at("ranks").at(rank).get<std::string>();
  for (const auto& [tier, kinds] : json.at("memory").at(rank).items())
    for (const auto& [kind, cell] : kinds.items())
      report.memory[tier][kind] = {read_count(cell, "resident"), read_count(cell, "peak"),
                                   read_maybe<std::int64_t>(cell, "formula_resident"),
                                   read_maybe<std::int64_t>(cell, "formula_peak")};
  if (json.contains("memory_total"))  // older runs have none
    for (const auto& [tier, total] : json.at("memory_total").at(rank).items())
      report.memory_total[tier] = {read_count(total, "resident"), read_count(total, "peak")};
  for (const auto& [operation, cell] : json.at("traffic").at(rank).items())
    report.traffic[operation] = {read_count(cell, "bytes"), read_count(cell, "calls"),
                                 read_maybe<std::int64_t>(cell, "formula")};
  return report;
}

std::optional<Tuning> read_tuning(const Json& json) {
  const auto found = json.find("fine_tuning");  // older runs have none
  if (found == json.end() || found->is_null()) return std::nullopt;
  Tuning tuning{.loss_before = read_maybe<double>(found->at("loss"), "before"),
                .loss_after = read_maybe<double>(found->at("loss"), "after")};
  for (const Json& a : found->at("answers"))
    tuning.answers.push_back({.prompt = a.at("prompt").get<std::string>(),
                              .before = read_maybe<std::string>(a, "before"),
                              .after = read_maybe<std::string>(a, "after")});
  return tuning;
}

DiskCell read_disk(const Json& json) {
  return {.seconds = read_number(json, "seconds"),
          .computing = read_number(json, "computing"),
          .waiting_reads = read_number(json, "waiting_reads"),
          .waiting_writes = read_number(json, "waiting_writes"),
          .bytes_read = read_count(json, "bytes_read"),
          .bytes_written = read_count(json, "bytes_written")};
}

RunReport read_report(const Json& json) {
  RunReport report;
  for (std::size_t rank = 0; rank < json.at("ranks").size(); ++rank)
    report.ranks.push_back(read_rank(json, rank));
  for (const auto& [phase, seconds] : json.at("time").items())
    report.time[phase] = seconds.is_null() ? NAN : seconds.get<double>();
  if (json.contains("disk"))  // older runs have none
    for (const auto& [kind, cell] : json.at("disk").items()) report.disk[kind] = read_disk(cell);
  report.bubble_measured = read_maybe<double>(json.at("bubble"), "measured");
  report.bubble_predicted = read_maybe<double>(json.at("bubble"), "predicted");
  const Json& summary = json.at("summary");
  report.steps = read_count(summary, "steps");
  report.earlier_steps = read_maybe<std::int64_t>(summary, "earlier_steps").value_or(0);
  report.earlier_tokens = read_maybe<std::int64_t>(summary, "earlier_tokens").value_or(0);
  report.skipped = read_count(summary, "skipped");
  report.verified = read_maybe<std::int64_t>(summary, "verified").value_or(0);
  report.incidents = read_maybe<std::int64_t>(summary, "incidents").value_or(0);
  report.tokens = read_count(summary, "tokens");
  report.parameters = read_count(summary, "parameters");
  report.seconds = read_number(summary, "seconds");
  report.loss = read_number(summary, "loss");
  report.validation_loss = read_maybe<double>(summary, "validation_loss");
  report.tuning = read_tuning(json);
  return report;
}

StepRecord read_step(const Json& json) {
  StepRecord record;
  record.step = read_count(json, "step");
  record.loss = read_number(json, "loss");
  record.grad_norm = read_number(json, "grad_norm");
  record.lr = read_number(json, "lr");
  record.tokens = read_count(json, "tokens");
  record.tokens_per_s = read_number(json, "tokens_per_s");
  record.flops_per_s = read_number(json, "tflops") * 1e12;
  record.skipped = read_count(json, "skipped");
  record.seconds = read_number(json, "seconds");
  record.validation_loss = read_maybe<double>(json, "validation_loss");
  return record;
}

// `read` of the text, with the library's exceptions as ours.
template <typename Read>
auto parsed(const std::string& text, const Read& read) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& error) {
    const std::string what = error.what();  // "[json.exception.parse_error.101] parse error at ..."
    const std::size_t end = what.find("] ");
    fail(end == std::string::npos ? what : what.substr(end + 2));
  }
}

}  // namespace

std::string report_json(const RunReport& report) {
  Json json;
  json["memory"] = Json::array();
  json["memory_total"] = Json::array();
  json["traffic"] = Json::array();
  json["ranks"] = Json::array();
  for (const auto& rank : report.ranks) {
    json["memory"].push_back(memory_of(rank));
    json["memory_total"].push_back(totals_of(rank));
    json["traffic"].push_back(traffic_of(rank));
    json["ranks"].push_back(rank.name);
  }
  json["time"] = report.time;
  json["disk"] = disk_of(report);
  json["bubble"] = {{"measured", maybe(report.bubble_measured)},
                    {"predicted", maybe(report.bubble_predicted)}};
  json["summary"] = summary_of(report);
  json["fine_tuning"] = tuning_of(report);
  return json.dump(1) + "\n";
}

RunReport report_from_json(const std::string& text) { return parsed(text, read_report); }

StepRecord step_from_metrics(const std::string& line) { return parsed(line, read_step); }

void write_report(Files& files, const std::string& path, const RunReport& report) {
  write_whole_atomically(files, path, report_json(report));
}

}  // namespace trireme
