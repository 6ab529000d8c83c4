#include "recipes/train/last_failure.h"

#include <sstream>

namespace trireme {

namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 20;

// Which rank is told first is chance.
std::string without_rank(const std::string& sentence) {
  const std::size_t end = sentence.starts_with("[rank ") ? sentence.find("] ") : std::string::npos;
  return end == std::string::npos ? sentence : sentence.substr(end + 2);
}

}  // namespace

std::optional<Failure> last_failure(Files& files, const std::string& run_folder) try {
  const std::string path = path_join(run_folder, kFailureName);
  if (!files.exists(path)) return std::nullopt;
  std::istringstream text(read_whole(files, path, kLongest));
  Failure found;
  std::string step, times;
  text >> step >> found.step >> times >> found.times;
  if (!text || step != "step" || times != "times" || found.times < 1) return std::nullopt;
  text.ignore();  // the line's end
  std::getline(text, found.reason, '\0');
  return found;
} catch (const Error&) {
  return std::nullopt;
}

std::int64_t note_failure(Files& files, const std::string& run_folder, std::int64_t step,
                          const std::string& sentence) noexcept try {
  Failure now{.step = step, .reason = without_rank(sentence)};
  const std::optional<Failure> before = last_failure(files, run_folder);
  if (before && before->step == now.step && before->reason == now.reason)
    now.times = before->times + 1;
  const std::string text = join("step ", now.step, " times ", now.times, "\n", now.reason);
  write_whole_atomically(files, path_join(run_folder, kFailureName), text);
  return now.times;
} catch (const std::exception&) {
  return 1;
}

std::string repeated_text(const std::string& sentence, std::int64_t step, std::int64_t times) {
  return join(sentence, "\nThis is failure ", times, " in a row at step ", step,
              " for the same reason: starting again will not help. Change the recipe (a lower "
              "optimizer.lr, data.skip, more memory), or what the sentence names; exit code 3 ends "
              "a loop of restarts.");
}

}  // namespace trireme
