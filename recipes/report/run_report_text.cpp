#include <algorithm>
#include <numeric>

#include "recipes/report/numbers.h"
#include "recipes/report/run_report.h"
#include "recipes/report/table.h"

namespace trireme {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string maybe_bytes(const std::optional<std::int64_t>& bytes) {
  return bytes ? bytes_text(*bytes) : "-";
}

// Whether a count is what the formula says; without a formula it is not wrong.
bool agrees(std::int64_t counted, const std::optional<std::int64_t>& formula) {
  return !formula || counted == *formula;
}

std::string differs_line(const std::string& what, std::size_t count, std::size_t all) {
  return what + " differs from its formula on " + std::to_string(count) + " of " +
         std::to_string(all) + " ranks\n";
}

// One kind on one tier: the fullest rank, and on how many ranks the formula fails.
struct Fullest {
  std::size_t rank = 0;
  MemoryCell cell;
  std::size_t wrong = 0;
};

Fullest fullest(const RunReport& report, const std::string& tier, const std::string& kind) {
  Fullest most;
  bool found = false;
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const auto& tiers = report.ranks[rank].memory;
    auto kinds = tiers.find(tier);
    if (kinds == tiers.end() || !kinds->second.contains(kind)) continue;
    const MemoryCell& cell = kinds->second.at(kind);
    if (!found || cell.peak > most.cell.peak) {
      most.rank = rank;
      most.cell = cell;
    }
    found = true;
    if (!agrees(cell.resident, cell.formula_resident) || !agrees(cell.peak, cell.formula_peak))
      ++most.wrong;
  }
  return most;
}

std::string memory_text(const RunReport& report) {
  std::map<std::string, std::map<std::string, bool>> names;
  for (const auto& rank : report.ranks)
    for (const auto& [tier, kinds] : rank.memory)
      for (const auto& [kind, cell] : kinds)
        if (cell.peak > 0) names[tier][kind] = true;
  if (names.empty()) return "";
  Rows rows{{"memory of the fullest rank", "resident", "formula", "peak", "formula", "rank"}};
  std::string notes;
  for (const auto& [tier, kinds] : names) {
    for (const auto& [kind, present] : kinds) {
      Fullest most = fullest(report, tier, kind);
      rows.push_back({tier + " " + kind, bytes_text(most.cell.resident),
                      maybe_bytes(most.cell.formula_resident), bytes_text(most.cell.peak),
                      maybe_bytes(most.cell.formula_peak), std::to_string(most.rank)});
      if (most.wrong > 0) notes += differs_line(tier + " " + kind, most.wrong, report.ranks.size());
    }
  }
  return table_text(rows) + notes + "\n";
}

std::string traffic_text(const RunReport& report) {
  std::map<std::string, TrafficCell> sums;
  std::map<std::string, std::size_t> wrong;
  std::map<std::string, bool> without;
  for (const auto& rank : report.ranks) {
    for (const auto& [operation, cell] : rank.traffic) {
      TrafficCell& sum = sums[operation];
      sum.bytes += cell.bytes;
      sum.calls += cell.calls;
      sum.formula = sum.formula.value_or(0) + cell.formula.value_or(0);
      without[operation] |= !cell.formula;
      wrong[operation] += !agrees(cell.bytes, cell.formula);
    }
  }
  if (sums.empty()) return "";
  Rows rows{{"traffic of all ranks", "calls", "bytes", "formula"}};
  std::string notes;
  for (const auto& [operation, sum] : sums) {
    if (sum.bytes == 0 && sum.formula.value_or(0) == 0) continue;  // groups of one rank, receives
    rows.push_back({operation, grouped(sum.calls), bytes_text(sum.bytes),
                    without[operation] ? "-" : maybe_bytes(sum.formula)});
    if (wrong[operation] > 0)
      notes += differs_line(operation, wrong[operation], report.ranks.size());
  }
  return rows.size() == 1 ? "" : table_text(rows) + notes + "\n";
}

std::string time_text(const RunReport& report) {
  if (report.time.empty()) return "";
  std::vector<std::pair<std::string, double>> phases(report.time.begin(), report.time.end());
  std::stable_sort(phases.begin(), phases.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  double all = std::accumulate(phases.begin(), phases.end(), 0.0,
                               [](double sum, const auto& phase) { return sum + phase.second; });
  Rows rows{{"time, mean over ranks", "", ""}};
  for (const auto& [phase, seconds] : phases)
    rows.push_back({phase, duration_text(seconds), all > 0 ? percent_text(seconds / all) : "-"});
  return table_text(rows) + "\n";
}

// Of a step. Waiting shows what the disk costs; overlap is the share of the time without it.
std::string disk_text(const RunReport& report) {
  const auto steps = static_cast<double>(report.steps - report.earlier_steps);
  if (report.disk.empty() || steps == 0) return "";
  const auto seconds = [&](double whole) { return significant(whole / steps, 3) + "s"; };
  Rows rows{{"on disk, a step", "time", "computing", "waits for reads", "for writes", "moved",
             "rate", "overlap"}};
  for (const auto& [kind, cell] : report.disk) {
    const double moved = static_cast<double>(cell.bytes_read + cell.bytes_written) / steps;
    const bool updates = cell.computing > 0;
    rows.push_back({kind, seconds(cell.seconds), updates ? seconds(cell.computing) : "-",
                    seconds(cell.waiting_reads), seconds(cell.waiting_writes),
                    bytes_text(static_cast<std::int64_t>(moved)),
                    updates ? short_number(cell.bytes_per_second() / 1e9) + " GB/s" : "-",
                    percent_text(cell.overlap())});
  }
  return table_text(rows) + "\n";
}

std::string bubble_text(const RunReport& report) {
  if (!report.bubble_measured && !report.bubble_predicted) return "";
  auto share = [](const std::optional<double>& value) {
    return value ? percent_text(*value) : std::string("-");
  };
  return "pipeline bubble " + share(report.bubble_measured) + ", predicted " +
         share(report.bubble_predicted) + "\n\n";
}

}  // namespace

double DiskCell::overlap() const {
  return seconds > 0 ? 1.0 - (waiting_reads + waiting_writes) / seconds : 0.0;
}

double DiskCell::bytes_per_second() const {
  return seconds > 0 ? static_cast<double>(bytes_read + bytes_written) / seconds : 0.0;
}

std::string report_text(const RunReport& report) {
  std::string text = memory_text(report) + traffic_text(report) + time_text(report) +
                     disk_text(report) + bubble_text(report);
  const std::int64_t tokens = report.tokens - report.earlier_tokens;
  if (report.earlier_steps > 0)
    text += grouped(report.steps) + " steps, " + grouped(report.tokens) + " tokens; of them ";
  text += grouped(report.steps - report.earlier_steps) + " steps, " + grouped(tokens) +
          " tokens in " + duration_text(report.seconds);
  if (report.seconds > 0)
    text += " (" + short_number(static_cast<double>(tokens) / report.seconds) + " tok/s)";
  if (report.skipped > 0) text += ", " + grouped(report.skipped) + " skipped";
  if (report.verified > 0)
    text += ", " + grouped(report.verified) + " verified (" + grouped(report.incidents) +
            " faults found)";
  text += "; loss " + fixed(report.loss, 4);
  if (report.validation_loss) text += ", validation " + fixed(*report.validation_loss, 4);
  text += "\n";
  if (report.tuning)
    if (const std::string tuning = tuning_text(*report.tuning); !tuning.empty())
      text += "\n" + tuning;
  return text;
}

}  // namespace trireme
