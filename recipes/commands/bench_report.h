// What `trireme bench` measured, in the columns of llama-bench (its table, and the names of its
// JSON and CSV fields as far as they mean something here). Fields of our own come behind: n_ranks,
// n_parallel (texts at a time), ttft_ms (of a prompt: until its logits are there),
// read_bytes_per_s. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "recipes/serve/bench.h"

namespace trireme {

struct BenchResult {
  BenchTest test;
  std::vector<double> seconds;  // of each run
  std::string time;             // when it was done: "2026-01-02T15:04:05Z"

  std::vector<double> rates() const;  // tokens a second
};

struct BenchedModel {
  std::string name, family, compute, kv;  // dtypes by name
  std::string cpu;                        // of the machine
  std::int64_t parameters = 0, bytes = 0;
  std::int64_t threads = 0, ranks = 0;
  std::int64_t parts = 1;  // texts that are in passes of their own: stages times replicas
  double read = 0;         // bytes a second of host memory, measured beside
};

double mean_of(const std::vector<double>& values);
double deviation_of(const std::vector<double>& values);  // of a sample: divided by n - 1

// The report in pieces, to be said as results come.
class BenchReport {
 public:
  // `format`: md, json, jsonl or csv.
  BenchReport(std::string format, BenchedModel model);
  std::string row(const BenchResult& result);  // with what stands before it
  std::string end() const;                     // behind the last row; there may have been none

 private:
  std::string markdown_row(const BenchResult& result);

  std::string format_;
  BenchedModel model_;
  std::string below_;  // the table
  std::int64_t rows_ = 0;
};

}  // namespace trireme
