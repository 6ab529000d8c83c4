#include "recipes/report/step_record.h"

#include <cmath>

#include "framework/base/error.h"
#include "recipes/report/numbers.h"

namespace trireme {

namespace {

// "1.21/2.00 GiB", or where that would read 0.0: "3.20 MiB/2.00 GiB".
std::string memory_text(std::int64_t bytes, std::int64_t limit) {
  constexpr std::int64_t kTenthOfGiB = (std::int64_t{1} << 30) / 10;
  if (bytes < kTenthOfGiB || (limit > 0 && limit < kTenthOfGiB))
    return bytes_text(bytes) + (limit > 0 ? "/" + bytes_text(limit) : "");
  return gib_text(bytes) + (limit > 0 ? "/" + gib_text(limit) : "") + " GiB";
}

// With four digits after the point, as long as that says anything.
std::string loss_text(double loss, int digits) {
  return std::abs(loss) < 1e6 ? fixed(loss, digits) : significant(loss, 4);
}

}  // namespace

std::string step_line(const StepRecord& record) {
  const double done = static_cast<double>(record.step) / static_cast<double>(record.steps);
  const bool small = record.grad_norm < 0.1;
  std::string text = join("step ", record.step, "/", record.steps, " ", fixed(100 * done, 1),
                          "% loss ", loss_text(record.loss, 4));
  if (record.validation_loss) text += join(" val ", loss_text(*record.validation_loss, 2));
  text += join(" |g| ", small ? significant(record.grad_norm, 2) : short_number(record.grad_norm),
               " lr ", significant(record.lr, 2));
  if (record.loss_scale != 1) text += join(" scale ", significant(record.loss_scale, 6));
  if (record.skipped > 0) text += join(" skipped ", record.skipped);
  text += join(" ", short_number(record.tokens_per_s), " tok/s");
  if (record.flops_per_s > 0) text += join(" ", flops_text(record.flops_per_s));
  if (record.flops_per_s > 0 && record.measured_peak > 0)
    text +=
        join(" (", percent_text(record.flops_per_s / record.measured_peak), " of measured peak)");
  text += " mem " + memory_text(record.memory, record.memory_limit);
  if (record.bubble) text += join(" bubble ", percent_text(*record.bubble));
  if (record.remaining) text += join(" eta ", duration_text(*record.remaining));
  return text;
}

std::string metrics_line(const StepRecord& record) {
  std::string text = join("{\"step\": ", record.step);
  auto number = [&](const char* name, double value) {
    text += join(", \"", name, "\": ", json_number(value));
  };
  number("loss", record.loss);
  number("grad_norm", record.grad_norm);
  number("lr", record.lr);
  number("loss_scale", record.loss_scale);
  text += join(", \"tokens\": ", record.tokens);
  number("tokens_per_s", record.tokens_per_s);
  number("tflops", record.flops_per_s * 1e-12);
  text += join(", \"skipped\": ", record.skipped);
  number("seconds", record.seconds);
  if (record.validation_loss) number("validation_loss", *record.validation_loss);
  return text + "}";
}

}  // namespace trireme
