#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "recipes/report/run_table.h"

namespace trireme {

namespace {

using Losses = std::map<std::int64_t, double>;  // by step

// By step, of steps that all runs have.
std::map<std::int64_t, std::vector<double>> common_losses(const std::vector<RunFolder>& runs) {
  std::map<std::int64_t, std::vector<double>> common;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    Losses losses;
    for (const StepRecord& step : runs[r].steps) losses[step.step] = step.loss;
    for (const auto& [step, loss] : losses)
      if (r == 0 || (common.contains(step) && common[step].size() == r))
        common[step].push_back(loss);
  }
  std::erase_if(common, [&](const auto& at) { return at.second.size() < runs.size(); });
  return common;
}

double relative_difference(double low, double high) {
  if (low == high) return 0;
  return (high - low) / std::max(std::abs(low), std::abs(high));
}

// Widens `spread` by the losses of one step.
void look_at(std::int64_t step, const std::vector<double>& losses, LossSpread& spread) {
  ++spread.steps;
  const auto number = [](double loss) { return std::isfinite(loss); };
  const auto numbers = std::count_if(losses.begin(), losses.end(), number);
  if (numbers == 0) return;  // all of them diverged
  LossSpread here{.steps = spread.steps, .step = step};
  if (numbers < std::ssize(losses)) {
    here.difference = std::numeric_limits<double>::infinity();
    const auto bad = std::find_if_not(losses.begin(), losses.end(), number);
    here.low = static_cast<std::size_t>(std::find_if(losses.begin(), losses.end(), number) -
                                        losses.begin());
    here.high = static_cast<std::size_t>(bad - losses.begin());
  } else {
    const auto [low, high] = std::minmax_element(losses.begin(), losses.end());
    here.difference = relative_difference(*low, *high);
    here.low = static_cast<std::size_t>(low - losses.begin());
    here.high = static_cast<std::size_t>(high - losses.begin());
  }
  if (here.difference > spread.difference) spread = here;
}

std::string value_of(const RunFolder& run, const std::string& key) {
  const auto found = run.recipe.find(key);
  return found == run.recipe.end() ? "" : found->second;
}

bool decides_what_is_learned(const std::string& key) {
  for (const char* section : {"model.", "data.", "optimizer."})
    if (key.starts_with(section)) return true;
  return key == "batch.global" || key == "batch.sequence" || key == "train.seed";
}

std::vector<std::string> different_keys(const std::vector<RunFolder>& runs) {
  std::set<std::string> different;
  for (const RunFolder& run : runs)
    for (const auto& [key, value] : run.recipe)
      if (decides_what_is_learned(key))
        for (const RunFolder& other : runs)
          if (value_of(other, key) != value) different.insert(key);
  return {different.begin(), different.end()};
}

struct Promise {
  double tolerance = 0;
  std::int64_t steps = 0;
};

Promise promise_of(const std::string& precision) {
  if (precision == "f64") return {1e-12, 5};
  if (precision == "f32") return {1e-5, 5};
  return {1e-2, 50};
}

}  // namespace

LossComparison compare_losses(const std::vector<RunFolder>& runs) {
  LossComparison result;
  Promise promise;
  for (const RunFolder& run : runs) {
    const std::string precision = value_of(run, "precision.compute");
    if (promise_of(precision).tolerance <= promise.tolerance) continue;
    promise = promise_of(precision);
    result.precision = precision;
  }
  result.tolerance = promise.tolerance;
  for (const auto& [step, losses] : common_losses(runs)) {
    if (result.judged.steps < promise.steps) look_at(step, losses, result.judged);
    look_at(step, losses, result.all);
  }
  result.different_keys = different_keys(runs);
  return result;
}

}  // namespace trireme
