// What an earlier run left in its folder: how far it came, cut back to a step, or removed. Only
// files with the names that the program gives are ever touched.
#pragma once

#include <cstdint>
#include <string>

#include "framework/base/files.h"

namespace trireme {

inline constexpr char kMetricsName[] = "metrics.jsonl";
inline constexpr char kLogName[] = "log.txt";
inline constexpr char kSamplesName[] = "samples.jsonl";
inline constexpr char kBeforeName[] = "before.json";  // of a fine-tune: before its first step
inline constexpr char kExportName[] = "model";        // a folder, of train.export

// The step of the last whole line of a metrics file; 0 if there is none.
std::int64_t steps_told(Files& files, const std::string& metrics_path);

// Before a run goes on: no scratch files of a run that was killed, log.txt without a broken last
// line. Loses nothing.
void tidy_run(Files& files, const std::string& run_folder);

// metrics.jsonl and samples.jsonl up to the lines of `step`, whole lines only, even if the last
// writer was killed within one; no report and no trace: they were of another end.
void keep_run_until(Files& files, const std::string& run_folder, std::int64_t step);

// All of it, checkpoints included, but for the last failure; what is not ours stays. Where there is
// no earlier run, a folder with the name of its export is somebody else's: `exported` says so.
void remove_run(Files& files, const std::string& run_folder, bool exported = true);

}  // namespace trireme
