// The program's commands in this process, over files that the test gives: faults enter through the
// one door to the file system, and the exit code and sentences are those of main().
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "recipes/commands/process.h"

namespace trireme::test {

struct InnerEnd {
  int code = 0;  // as main() would exit
  std::string out, err;
};

// `words` as on a command line, without the program's name.
InnerEnd run_inside(Files& files, const std::vector<std::string>& words);

// A text and the recipe of a tiny model on one rank in f64, as "text" and "tiny.cfg" in the files'
// root; it trains into "run" and saves each step.
void put_tiny_recipe(Files& files);

// A number of each line of run/metrics.jsonl, as written: equal bits have equal texts.
std::vector<std::string> told(Files& files, const std::string& key);

}  // namespace trireme::test
