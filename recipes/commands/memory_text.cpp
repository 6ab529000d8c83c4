#include "recipes/commands/memory_text.h"

#include <algorithm>
#include <set>

#include "framework/base/error.h"
#include "recipes/memory/layer_memory.h"
#include "recipes/report/numbers.h"
#include "recipes/report/table.h"
#include "recipes/train/plan.h"

namespace trireme {

namespace {

using Row = std::vector<std::string>;

template <typename Fn>
void each_cell(const Fn& fn) {
  for (int t = 0; t < kTiers; ++t)
    for (int k = 0; k < kMemoryKinds; ++k) fn(static_cast<Tier>(t), static_cast<MemoryKind>(k));
}

std::string title(Tier tier, MemoryKind kind) { return join(name_of(tier), " ", name_of(kind)); }

// What a run says of the rank that a stage's forecast is of.
const RankReport* rank_in(const RunReport* report, const Recipe& recipe, int stage) {
  if (!report) return nullptr;
  const auto rank = static_cast<std::size_t>(rank_of(mesh_shape(recipe), {.pipeline = stage}));
  return rank < report->ranks.size() ? &report->ranks[rank] : nullptr;
}

const MemoryCell* counted(const RunReport* report, const Recipe& recipe, int stage, Tier tier,
                          MemoryKind kind) {
  const RankReport* rank = rank_in(report, recipe, stage);
  if (!rank) return nullptr;
  const auto& memory = rank->memory;
  const auto kinds = memory.find(std::string(name_of(tier)));
  if (kinds == memory.end()) return nullptr;
  const auto cell = kinds->second.find(std::string(name_of(kind)));
  return cell == kinds->second.end() ? nullptr : &cell->second;
}

bool worth_a_row(const MemoryOutlook& outlook, const RunReport* measured, const Recipe& recipe,
                 Tier tier, MemoryKind kind) {
  for (std::size_t s = 0; s < outlook.stages.size(); ++s) {
    if (outlook.stages[s].cell(tier, kind).peak > 0) return true;
    const MemoryCell* cell = counted(measured, recipe, static_cast<int>(s), tier, kind);
    if (cell && cell->peak > 0) return true;
  }
  return false;
}

std::string stage_name(const MemoryOutlook& outlook, int stage) {
  return outlook.stages.size() == 1 ? "each rank" : join("pipeline stage ", stage);
}

std::string table_of_stage(const MemoryOutlook& outlook, const Recipe& recipe, int stage,
                           const RunReport* measured) {
  const Forecast& told = outlook.stages[static_cast<std::size_t>(stage)];
  std::vector<Row> rows{{stage_name(outlook, stage), "resident", "peak"}};
  if (measured) rows[0] = {rows[0][0], "resident", "measured", "peak", "measured"};
  each_cell([&](Tier tier, MemoryKind kind) {
    if (!worth_a_row(outlook, measured, recipe, tier, kind)) return;
    const ForecastCell& cell = told.cell(tier, kind);
    const bool known = kind != MemoryKind::kWorkspace || cell.peak > 0;
    const std::string resident = known ? bytes_text(cell.resident) : "-";
    const std::string peak = known ? (cell.exact ? "" : "~") + bytes_text(cell.peak) : "-";
    if (!measured) return rows.push_back({title(tier, kind), resident, peak});
    const MemoryCell* real = counted(measured, recipe, stage, tier, kind);
    rows.push_back({title(tier, kind), resident, real ? bytes_text(real->resident) : "-", peak,
                    real ? bytes_text(real->peak) : "-"});
  });
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
    const auto t = static_cast<std::size_t>(tier);
    if (told.peak[t] == 0) continue;
    const std::string name = join(name_of(tier), " in all");
    const std::string resident = bytes_text(told.resident[t]), peak = bytes_text(told.peak[t]);
    if (!measured) {
      rows.push_back({name, resident, peak});
      continue;
    }
    const RankReport* rank = rank_in(measured, recipe, stage);
    const bool known = rank && rank->memory_total.contains(std::string(name_of(tier)));
    const MemoryTotal total =
        known ? rank->memory_total.at(std::string(name_of(tier))) : MemoryTotal{};
    rows.push_back({name, resident, known ? bytes_text(total.resident) : "-", peak,
                    known ? bytes_text(total.peak) : "-"});
  }
  return table_text(rows);
}

// All of a few stages; of many the ends and the fullest.
std::vector<int> shown_stages(const MemoryOutlook& outlook) {
  const int count = static_cast<int>(outlook.stages.size());
  std::set<int> shown{0, outlook.fullest, count - 1};
  for (int s = 0; count <= 4 && s < count; ++s) shown.insert(s);
  return {shown.begin(), shown.end()};
}

std::string terms_text(const std::vector<MemoryTerm>& terms) {
  constexpr std::size_t kShown = 16;
  std::vector<Row> rows;
  std::int64_t rest = 0, count = 0;
  for (const MemoryTerm& term : terms) {
    if (rows.size() >= kShown) {
      rest += term.bytes;
      ++count;
      continue;
    }
    rows.push_back(
        {"    " + term.name, term.formula, join(term.count, " x"), grouped(term.bytes) + " B"});
  }
  if (count > 0)
    rows.push_back({join("    ", count, " smaller ones"), "", "", grouped(rest) + " B"});
  return table_text(rows);
}

std::string block_list(const Recipe& recipe) {
  const EngineOptions options = engine_options(recipe);
  const LayerUse use{
      .samples = std::min(recipe.batch.micro, recipe.batch.global / recipe.parallel.data),
      .tensor = static_cast<int>(recipe.parallel.tensor),
      .sequence_parallel = recipe.parallel.sequence,
      .compute = options.stage.compute,
      .selective = recipe.recompute.mode == "selective",
      .dropout = recipe.model.dropout > 0};
  return explain(layer_memory(options.model, EntryKind::kBlock, use));
}

}  // namespace

std::string verdict(const MemoryOutlook& o) {
  const std::string needed = bytes_text(o.needed);
  if (o.limit.bytes == 0) return join("FITS: ", needed, " a rank, and no limit is known");
  if (o.fits())
    return join("FITS: ", needed, " of ", bytes_text(o.limit.bytes), " a rank (", o.limit.source,
                "), ", bytes_text(o.limit.bytes - o.needed), " to spare");
  return join("DOES NOT FIT: ", stage_name(o, o.fullest), " needs ", needed, ", ",
              bytes_text(o.needed - o.limit.bytes), " more than ", bytes_text(o.limit.bytes), " (",
              o.limit.source, ")");
}

std::string memory_kinds_text(const MemoryOutlook& outlook, const Recipe& recipe,
                              const RunReport* measured) {
  std::string text;
  for (const int stage : shown_stages(outlook))
    text += table_of_stage(outlook, recipe, stage, measured) + "\n";
  const Forecast& told = outlook.stages[static_cast<std::size_t>(outlook.fullest)];
  for (const std::string& doubt : told.doubts) text += "note: " + doubt + "\n";
  return text;
}

std::string memory_variants_text(const std::vector<MemoryVariant>& variants,
                                 const MemoryLimit& limit) {
  std::vector<Row> rows{
      {"zero.stage, offload, recompute", "device", "host", "disk", limit.bytes > 0 ? "fits" : ""}};
  for (const MemoryVariant& v : variants) {
    const std::string name =
        join(v.is_recipe ? "* " : "  ", v.zero_stage, ", ", v.offload, ", ", v.recompute);
    if (!v.possible) {
      rows.push_back({name, "-", "-", "-", "not with this zero.max_live_parameters"});
      continue;
    }
    const std::string fits = limit.bytes == 0 ? ""
                             : v.needed <= limit.bytes
                                 ? "yes"
                                 : "no: " + bytes_text(v.needed - limit.bytes) + " over";
    rows.push_back({name, bytes_text(v.device), bytes_text(v.host), bytes_text(v.disk), fits});
  }
  return "peak of the fullest rank, by what is cut, moved and computed again (* the recipe)\n" +
         table_text(rows);
}

std::string memory_reach_text(const std::vector<MemoryReach>& reach) {
  if (reach.empty()) return "";
  std::string text = "largest that fits, all else as it is\n";
  for (const MemoryReach& r : reach) {
    text += "  " + r.key;
    text += r.most ? join(" = ", *r.most, r.more ? " or more" : "") : ": nothing fits";
    text += join(" (now ", r.now, ")");
    if (r.parameters > 0) text += join(", ", grouped(r.parameters), " parameters");
    text += "\n";
  }
  return text;
}

std::string memory_explanation(const MemoryOutlook& outlook, const Recipe& recipe) {
  const Forecast& told = outlook.stages[static_cast<std::size_t>(outlook.fullest)];
  std::string text = join("formulas of ", stage_name(outlook, outlook.fullest),
                          "\n  Psi = ", grouped(told.elements), " elements of this rank, ",
                          grouped(told.padding), " of them padding; N = ", told.ranks, "\n");
  for (const StateTerm& term : told.states)
    text += join("  ", title(term.tier, term.kind), ": ", text_of(term), " = ",
                 grouped(term.bytes()), " B\n");
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk})
    if (const std::string formula = state_formula(told.states, tier); formula != "0")
      text += join("  model states on the ", name_of(tier), ": ", formula, " = ",
                   grouped(state_bytes(told.states, tier)), " B\n");
  each_cell([&](Tier tier, MemoryKind kind) {
    const ForecastCell& cell = told.cell(tier, kind);
    if (cell.peak == 0) return;
    text += join("\n  ", title(tier, kind), ": resident ", grouped(cell.resident), " B, peak ",
                 grouped(cell.peak), " B", cell.exact ? "" : " (an estimate)", ", when it holds\n",
                 terms_text(cell.peak_terms));
  });
  text += join("\n  peak of the device over all kinds: ", grouped(told.peak[0]), " B\n",
               terms_text(told.device_peak));
  if (recipe.model.family != "mlp")
    text += "\nwhat one block takes in one micro-batch\n" + block_list(recipe);
  return text;
}

}  // namespace trireme
