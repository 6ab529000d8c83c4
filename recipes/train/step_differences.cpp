#include "recipes/train/step_differences.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <sstream>

#include "framework/base/error.h"

namespace trireme {

namespace {

// NaN is the same as itself, and 0 is not -0.
bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool same_step(const EngineStep& a, const EngineStep& b) {
  const StepResult &x = a.optimizer, &y = b.optimizer;
  return same_bits(a.loss, b.loss) && a.tokens == b.tokens && same_bits(x.loss, y.loss) &&
         same_bits(x.grad_norm, y.grad_norm) && same_bits(x.lr, y.lr) &&
         same_bits(x.loss_scale, y.loss_scale) && x.skipped == y.skipped &&
         x.bad_parameter == y.bad_parameter && same_bits(x.wishes.stop, y.wishes.stop) &&
         same_bits(x.wishes.save, y.wishes.save) && same_bits(x.wishes.written, y.wishes.written);
}

bool same_progress(const ZeroOptimizer::Progress& a, const ZeroOptimizer::Progress& b) {
  return a.steps_taken == b.steps_taken && same_bits(a.scaler.scale, b.scaler.scale) &&
         a.scaler.lives == b.scaler.lives && a.scaler.good == b.scaler.good;
}

std::string text_of(const StatePrint& print) { return join(print.tensor, " (", print.array, ")"); }

std::int64_t differing(std::span<const StatePrint> a, std::span<const StatePrint> b) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) count += a[i] == b[i] ? 0 : 1;
  return count;
}

}  // namespace

bool same_results(const StepOutcome& a, const StepOutcome& b) {
  return same_step(a.step, b.step) && same_progress(a.progress, b.progress) && a.states == b.states;
}

std::string first_difference(std::span<const StatePrint> a, std::span<const StatePrint> b) {
  check(a.size() == b.size(), "fingerprints of ", a.size(), " tensors are compared with those of ",
        b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return text_of(a[i]);
  return "";
}

StepDifference difference(const StepOutcome& wrong, const StepOutcome& right) {
  StepDifference d;
  const std::size_t common = std::min(wrong.events.size(), right.events.size());
  std::size_t i = 0;
  while (i < common && wrong.events[i] == right.events[i]) ++i;
  d.communicates = i < std::max(wrong.events.size(), right.events.size());
  if (d.communicates) d.first = i < wrong.events.size() ? wrong.events[i] : right.events[i];
  d.gradient = first_difference(wrong.gradients, right.gradients);
  d.state = first_difference(wrong.states, right.states);
  d.states = !d.state.empty() || !same_progress(wrong.progress, right.progress);
  d.tensors = differing(wrong.gradients, right.gradients) + differing(wrong.states, right.states);
  return d;
}

bool sent_other(const StepOutcome& wrong, const StepOutcome& right, std::uint64_t call) {
  const auto sent = [&](const StepOutcome& run) -> std::optional<std::uint64_t> {
    for (const CommEvent& event : run.events)
      if (event.call == call && event.outgoing) return event.value;
    return std::nullopt;
  };
  return sent(wrong) != sent(right);
}

std::vector<int> culprits(std::span<const StepDifference> ranks, const std::vector<bool>& other) {
  std::vector<int> wrong, received;
  for (int r = 0; r < static_cast<int>(ranks.size()); ++r) {
    const StepDifference& d = ranks[static_cast<std::size_t>(r)];
    if (!d.communicates) continue;
    if (d.first.outgoing) wrong.push_back(r);
    if (!d.first.outgoing && !other[static_cast<std::size_t>(r)]) received.push_back(r);
  }
  if (!wrong.empty()) return wrong;
  // All that got the same piece of a sum wrong got it from the one that summed it.
  if (received.size() > 1)
    for (const int r : received) {
      const CommEvent& event = ranks[static_cast<std::size_t>(r)].first;
      const bool alike = std::all_of(received.begin(), received.end(), [&](int q) {
        const CommEvent& its = ranks[static_cast<std::size_t>(q)].first;
        return its.call == event.call && its.piece == event.piece && its.value == event.value;
      });
      if (alike && event.piece == event.member) return {r};
    }
  if (!received.empty()) return received;
  for (int r = 0; r < static_cast<int>(ranks.size()); ++r)
    if (ranks[static_cast<std::size_t>(r)].states) wrong.push_back(r);
  return wrong;
}

std::string encode(const StepDifference& d) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // no memory is no end of text
  out << d.communicates << " " << d.first.call << " " << d.first.value << " " << d.first.outgoing
      << " " << d.first.member << " " << d.first.piece << " " << d.states << " " << d.tensors
      << "\n"
      << d.gradient << "\n"
      << d.state << "\n";
  return std::move(out).str();
}

StepDifference decode_difference(const std::string& text) {
  std::istringstream in(text);
  in.exceptions(std::ios_base::badbit);  // no memory is no end of text
  StepDifference d;
  in >> d.communicates >> d.first.call >> d.first.value >> d.first.outgoing >> d.first.member >>
      d.first.piece >> d.states >> d.tensors;
  in.ignore();
  std::getline(in, d.gradient);
  std::getline(in, d.state);
  return d;
}

}  // namespace trireme
