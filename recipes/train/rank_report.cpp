#include "recipes/train/rank_report.h"

#include <sstream>

#include "recipes/memory/state_formulas.h"
#include "recipes/train/traffic_formula.h"

namespace trireme {

void CountedTraffic::add(const Traffic& before, const Traffic& now) {
  for (const auto& [operation, entry] : now) {
    const auto old = before.find(operation);
    bytes[operation].bytes += entry.bytes - (old == before.end() ? 0 : old->second.bytes);
    bytes[operation].calls += entry.calls - (old == before.end() ? 0 : old->second.calls);
  }
}

namespace {

using Formulas = std::map<std::pair<Tier, MemoryKind>, std::int64_t>;

StateLayout state_layout(Engine& engine) {
  const StageOptions& stage = engine.options().stage;
  StateLayout layout{.elements = engine.stage().elements(),
                     .trainable = 0,
                     .ranks = engine.stage().shards().size(),
                     .stage = stage.zero_stage,
                     .parameters = stage.offload.parameters,
                     .gradients = stage.offload.gradients,
                     .optimizer = stage.offload.optimizer};
  for (const Unit* unit : engine.stage().units())
    if (unit->trainable()) layout.trainable += unit->layout().padded();
  return layout;
}

// Of what lies on a tier between steps. On disk trailers and blocks of the slots come on top of the
// states. What stays of activations (slots on disk) and communication (buffers of disk stores) is
// the forecast's.
Formulas resident_formulas(Engine& engine, const Forecast& told) {
  const StageOptions& stage = engine.options().stage;
  const DType wide = accumulation_type(stage.compute);
  const StateTypes types{.compute = size_of(stage.compute),
                         .gradients = size_of(stage.gradients),
                         .wide = size_of(wide),
                         .moments = moments(engine.options().optimizer.optimizer)};
  Formulas formulas;
  for (const MemoryKind kind :
       {MemoryKind::kParameters, MemoryKind::kGradients, MemoryKind::kOptimizer})
    formulas[{Tier::kDevice, kind}] = 0;
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk})
    for (const MemoryKind kind : {MemoryKind::kActivations, MemoryKind::kCommunication})
      formulas[{tier, kind}] = told.cell(tier, kind).resident;
  for (const StateTerm& term : state_terms(state_layout(engine), types))
    formulas[{term.tier, term.kind}] += term.bytes();
  for (const TiledStore* store : engine.stores())
    if (store->tier() == Tier::kDisk)
      formulas[{Tier::kDisk, store->shape().kind}] =
          TiledStore::home_bytes(store->shape(), Tier::kDisk);
  return formulas;
}

std::map<std::string, std::map<std::string, MemoryCell>> memory_of(const Mesh& mesh, Engine& engine,
                                                                   const StepMemory& counted,
                                                                   const ForecastOptions& how) {
  std::map<std::string, std::map<std::string, MemoryCell>> memory;
  const Forecast told = forecast(engine.options(), mesh.shape(), mesh.coord(), how);
  const Formulas formulas = resident_formulas(engine, told);
  for (int t = 0; t < kTiers; ++t)
    for (int k = 0; k < kMemoryKinds; ++k) {
      const auto tier = static_cast<Tier>(t);
      const auto kind = static_cast<MemoryKind>(k);
      const MemoryLedger::Entry entry = counted.entry(tier, kind);
      MemoryCell cell{.resident = entry.resident, .peak = entry.peak};
      if (const auto formula = formulas.find({tier, kind}); formula != formulas.end()) {
        cell.formula_resident = formula->second;
        if (told.cell(tier, kind).exact) cell.formula_peak = told.cell(tier, kind).peak;
      }
      memory[std::string(name_of(tier))][std::string(name_of(kind))] = cell;
    }
  return memory;
}

std::map<std::string, MemoryTotal> totals_of(const StepMemory& counted) {
  std::map<std::string, MemoryTotal> totals;
  for (int t = 0; t < kTiers; ++t) {
    const auto tier = static_cast<Tier>(t);
    MemoryTotal total{.peak = counted.peak(tier)};
    for (int k = 0; k < kMemoryKinds; ++k)
      total.resident += counted.entry(tier, static_cast<MemoryKind>(k)).resident;
    totals[std::string(name_of(tier))] = total;
  }
  return totals;
}

}  // namespace

RankReport rank_report(const Mesh& mesh, Engine& engine, const StepMemory& counted,
                       const CountedTraffic& traffic, const ForecastOptions& how) {
  RankReport report;
  const std::string prefix = rank_prefix(mesh.shape(), mesh.world().rank());
  report.name = prefix.substr(1, prefix.rfind(']') - 1);
  report.memory = memory_of(mesh, engine, counted, how);
  report.memory_total = totals_of(counted);
  const auto formulas = traffic_formulas(mesh, engine, traffic.steps, traffic.applied);
  for (const auto& [operation, entry] : traffic.bytes)
    report.traffic[operation] = {.bytes = entry.bytes, .calls = entry.calls};
  for (const auto& [operation, bytes] : formulas)  // also of what should have been sent but was not
    if (bytes > 0 || report.traffic.contains(operation)) report.traffic[operation].formula = bytes;
  return report;
}

namespace {

std::string word(const std::optional<std::int64_t>& value) {
  return value ? std::to_string(*value) : "-";
}

std::optional<std::int64_t> read_word(std::istream& in) {
  std::string text;
  in >> text;
  return text == "-" ? std::nullopt : std::optional<std::int64_t>(std::stoll(text));
}

}  // namespace

std::string encode(const RankReport& report) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // no memory is no end of text
  out << report.name << "\n";
  for (const auto& [tier, kinds] : report.memory)
    for (const auto& [kind, cell] : kinds)
      out << "memory " << tier << " " << kind << " " << cell.resident << " " << cell.peak << " "
          << word(cell.formula_resident) << " " << word(cell.formula_peak) << "\n";
  for (const auto& [tier, total] : report.memory_total)
    out << "total " << tier << " " << total.resident << " " << total.peak << "\n";
  for (const auto& [operation, cell] : report.traffic)
    out << "traffic " << operation << " " << cell.bytes << " " << cell.calls << " "
        << word(cell.formula) << "\n";
  return std::move(out).str();
}

RankReport decode(const std::string& text) {
  std::istringstream in(text);
  in.exceptions(std::ios_base::badbit);  // no memory is no end of text
  RankReport report;
  std::getline(in, report.name);
  for (std::string what, first, second; in >> what;) {
    if (what == "memory") {
      MemoryCell cell;
      in >> first >> second >> cell.resident >> cell.peak;
      cell.formula_resident = read_word(in);
      cell.formula_peak = read_word(in);
      report.memory[first][second] = cell;
    } else if (what == "total") {
      in >> first;
      in >> report.memory_total[first].resident >> report.memory_total[first].peak;
    } else {
      TrafficCell cell;
      in >> first >> cell.bytes >> cell.calls;
      cell.formula = read_word(in);
      report.traffic[first] = cell;
    }
  }
  return report;
}

}  // namespace trireme
