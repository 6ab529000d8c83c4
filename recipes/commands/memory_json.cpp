#include "framework/base/error.h"
#include "recipes/commands/memory_text.h"
#include "recipes/report/numbers.h"
#include "recipes/train/plan.h"

namespace trireme {

namespace {

std::string truth(bool value) { return value ? "true" : "false"; }

// {"parameters": {"resident": ..., "peak": ..., "exact": ...}, ...} of what a tier holds.
std::string kinds_json(const Forecast& told, Tier tier, const RankReport* measured) {
  std::string text;
  for (int k = 0; k < kMemoryKinds; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    const ForecastCell& cell = told.cell(tier, kind);
    text +=
        join(text.empty() ? "" : ", ", "\"", name_of(kind), "\": {\"resident\": ", cell.resident,
             ", \"peak\": ", cell.peak, ", \"exact\": ", truth(cell.exact));
    if (measured) {
      const auto kinds = measured->memory.find(std::string(name_of(tier)));
      if (kinds != measured->memory.end())
        if (const auto real = kinds->second.find(std::string(name_of(kind)));
            real != kinds->second.end())
          text += join(", \"measured_resident\": ", real->second.resident,
                       ", \"measured_peak\": ", real->second.peak);
    }
    text += "}";
  }
  return "{" + text + "}";
}

std::string stage_json(const Forecast& told, const RankReport* measured) {
  std::string text = join("{\"elements\": ", told.elements, ", \"padding\": ", told.padding,
                          ", \"ranks\": ", told.ranks, ", \"ram\": ", told.ram);
  for (int t = 0; t < kTiers; ++t) {
    const auto tier = static_cast<Tier>(t);
    const auto at = static_cast<std::size_t>(t);
    text += join(", \"", name_of(tier), "\": {\"resident\": ", told.resident[at],
                 ", \"peak\": ", told.peak[at],
                 ", \"formula\": ", json_string(state_formula(told.states, tier)),
                 ", \"kinds\": ", kinds_json(told, tier, measured), "}");
  }
  return text + "}";
}

std::string variant_json(const MemoryVariant& v, const MemoryLimit& limit) {
  const bool fits = v.possible && (limit.bytes == 0 || v.needed <= limit.bytes);
  return join("{\"zero_stage\": ", v.zero_stage, ", \"offload\": ", json_string(v.offload),
              ", \"recompute\": ", json_string(v.recompute), ", \"device\": ", v.device,
              ", \"host\": ", v.host, ", \"disk\": ", v.disk, ", \"fits\": ", truth(fits),
              ", \"recipe\": ", truth(v.is_recipe), "}");
}

std::string reach_json(const MemoryReach& r) {
  return join(json_string(r.key), ": {\"now\": ", r.now,
              ", \"most\": ", r.most ? std::to_string(*r.most) : "null",
              ", \"or_more\": ", truth(r.more), "}");
}

template <typename List, typename Fn>
std::string joined(const List& list, const Fn& fn) {
  std::string text;
  for (const auto& item : list) text += (text.empty() ? "\n" : ",\n") + fn(item);
  return text;
}

}  // namespace

std::string memory_json(const MemoryOutlook& outlook, const Recipe& recipe,
                        const std::vector<MemoryVariant>& rows,
                        const std::vector<MemoryReach>& reach, const RunReport* measured) {
  int stage = 0;
  const std::string stages = joined(outlook.stages, [&](const Forecast& told) {
    const auto rank = static_cast<std::size_t>(rank_of(mesh_shape(recipe), {.pipeline = stage++}));
    const bool known = measured && rank < measured->ranks.size();
    return stage_json(told, known ? &measured->ranks[rank] : nullptr);
  });
  return join(
      "{\"fits\": ", truth(outlook.fits()), ", \"needed\": ", outlook.needed,
      ", \"limit\": ", outlook.limit.bytes > 0 ? std::to_string(outlook.limit.bytes) : "null",
      ", \"limit_source\": ", json_string(outlook.limit.source),
      ", \"fullest_stage\": ", outlook.fullest, ",\n\"stages\": [", stages, "],\n\"table\": [",
      joined(rows, [&](const MemoryVariant& v) { return variant_json(v, outlook.limit); }),
      "],\n\"largest\": {", joined(reach, reach_json), "}}\n");
}

}  // namespace trireme
