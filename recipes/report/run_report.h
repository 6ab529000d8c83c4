// What a run leaves behind: memory and traffic beside their formulas, time by phase, the pipeline's
// bubble; as report.json and as a table for people.
//
// A plain struct that the trainer fills in on rank 0 after gathering from all ranks. Bytes are
// counted by ledgers and communicators, never guessed; a formula that does not exist is absent.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/base/files.h"
#include "recipes/report/answer.h"

namespace trireme {

// Bytes of one kind on one tier of one rank.
struct MemoryCell {
  std::int64_t resident = 0;  // between steps
  std::int64_t peak = 0;
  std::optional<std::int64_t> formula_resident, formula_peak;
};

// Bytes of one tier of one rank over all kinds. The peak is of the sum, not the sum of peaks.
struct MemoryTotal {
  std::int64_t resident = 0, peak = 0;
};

// What one rank sent to others by one operation, over the whole run.
struct TrafficCell {
  std::int64_t bytes = 0;
  std::int64_t calls = 0;
  std::optional<std::int64_t> formula;  // bytes
};

struct RankReport {
  std::string name;  // "rank 5: data 0, pipeline 1, tensor 1"
  // memory["device"]["parameters"]
  std::map<std::string, std::map<std::string, MemoryCell>> memory;
  std::map<std::string, MemoryTotal> memory_total;  // by tier
  std::map<std::string, TrafficCell> traffic;       // by "data/reduce_scatter"
};

// What the training steps spent on one kind of state whose home is the disk, over the whole run:
// seconds as the mean over ranks, bytes as the sum over them. Of optimizer states the seconds are
// those of the update; of gradients and parameters those of their reads and writes.
struct DiskCell {
  double seconds = 0;         // in all
  double computing = 0;       // of them in the update's work on tiles; if gradients or parameters
                              // are on disk too, with what that work waits for them
  double waiting_reads = 0;   // of them for the disk
  double waiting_writes = 0;  // of them for the disk
  std::int64_t bytes_read = 0, bytes_written = 0;

  // Share of the seconds in which the rank did not wait for this disk traffic: 1 if all of it was
  // hidden behind work. 0 without seconds.
  double overlap() const;
  // Both directions over the seconds. Says nothing where reads go on outside of them: of gradients
  // and parameters, whose reads run ahead.
  double bytes_per_second() const;
};

struct RunReport {
  std::vector<RankReport> ranks;                            // by rank
  std::map<std::string, double> time;                       // seconds by phase, mean over ranks
  std::map<std::string, DiskCell> disk;                     // by kind: "optimizer"
  std::optional<double> bubble_measured, bubble_predicted;  // share of time that stages wait
  std::int64_t steps = 0;                                   // done
  std::int64_t skipped = 0;                                 // of them
  std::int64_t verified = 0;   // of them, of this start: run twice (train.verify_every)
  std::int64_t incidents = 0;  // faults that verifying found, of this start
  std::int64_t tokens = 0;     // labels learned from
  // Of steps and tokens those of earlier starts of the run, which a resumed one went on from:
  // seconds, time, traffic and disk are without them.
  std::int64_t earlier_steps = 0, earlier_tokens = 0;
  std::int64_t parameters = 0;
  double seconds = 0;                     // wall clock, from the first step's start
  double loss = 0;                        // of the last step
  std::optional<double> validation_loss;  // the last one
  std::optional<Tuning> tuning;           // of a run that began with a model folder
};

// report.json: {"memory": [{tier: {kind: {resident, peak, formula_resident, formula_peak}}}, ...],
// "memory_total": [{tier: {resident, peak}}, ...], "traffic": [{operation: {bytes, calls,
// formula}}, ...], "time": {phase: seconds}, "disk": {kind: {seconds, computing, waiting_reads,
// waiting_writes, bytes_read, bytes_written, overlap}}, "bubble": {measured, predicted}, "ranks":
// [names], "summary": {...}, "fine_tuning": {"loss": {before, after}, "perplexity": {before,
// after}, "answers": [{prompt, before, after}, ...]}}; what is absent is null, "disk" is {} if
// nothing lies there. Not-finite numbers are null and read back as NaN.
std::string report_json(const RunReport& report);
// Throws Error with what is wrong with the text.
RunReport report_from_json(const std::string& text);
void write_report(Files& files, const std::string& path, const RunReport& report);

// Tables: of memory the rank with the most bytes of each kind, of traffic the sum over ranks
// (without operations that move nothing), time by phase, of what lies on disk a step's seconds,
// bytes and overlap, bubble; what fine-tuning changed. Where counts differ from their
// formula, a line says on how many ranks.
std::string report_text(const RunReport& report);

}  // namespace trireme
