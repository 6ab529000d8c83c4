#include "recipes/report/trainer_state.h"

#include <cmath>

#include "framework/base/json/json.h"

namespace trireme {

namespace {

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

}  // namespace

std::string trainer_state_json(const std::vector<StepRecord>& steps, std::int64_t max_steps) {
  Json::Array history;
  for (const StepRecord& record : steps) {
    history.push_back(Json::Object{{"step", record.step},
                                   {"loss", number(record.loss)},
                                   {"learning_rate", number(record.lr)},
                                   {"grad_norm", number(record.grad_norm)}});
    if (record.validation_loss)
      history.push_back(
          Json::Object{{"step", record.step}, {"eval_loss", number(*record.validation_loss)}});
  }
  const std::int64_t done = steps.empty() ? 0 : steps.back().step;
  return to_text(Json(Json::Object{{"global_step", done},
                                   {"max_steps", max_steps},
                                   {"log_history", std::move(history)}}),
                 1) +
         "\n";
}

}  // namespace trireme
