#include <nlohmann/json.hpp>

#include "recipes/report/run_report.h"

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

Json traffic_of(const RankReport& rank) {
  Json operations = Json::object();
  for (const auto& [operation, cell] : rank.traffic)
    operations[operation] = {
        {"bytes", cell.bytes}, {"calls", cell.calls}, {"formula", maybe(cell.formula)}};
  return operations;
}

Json summary_of(const RunReport& report) {
  return {{"steps", report.steps},
          {"skipped", report.skipped},
          {"tokens", report.tokens},
          {"parameters", report.parameters},
          {"seconds", report.seconds},
          {"loss", report.loss},
          {"validation_loss", maybe(report.validation_loss)}};
}

}  // namespace

std::string report_json(const RunReport& report) {
  Json json;
  json["memory"] = Json::array();
  json["traffic"] = Json::array();
  json["ranks"] = Json::array();
  for (const auto& rank : report.ranks) {
    json["memory"].push_back(memory_of(rank));
    json["traffic"].push_back(traffic_of(rank));
    json["ranks"].push_back(rank.name);
  }
  json["time"] = report.time;
  json["bubble"] = {{"measured", maybe(report.bubble_measured)},
                    {"predicted", maybe(report.bubble_predicted)}};
  json["summary"] = summary_of(report);
  return json.dump(1) + "\n";
}

void write_report(Files& files, const std::string& path, const RunReport& report) {
  write_whole_atomically(files, path, report_json(report));
}

}  // namespace trireme
