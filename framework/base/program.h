// Running another program and reading what it prints.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace trireme {

// What came of running a program.
struct ProgramResult {
  bool found = false;       // false: there is no such program
  int status = 0;           // its exit status; 128 + signal if it was killed
  std::string output = {};  // its standard output
};

// The library starts no programs by itself: what needs one takes such a callable.
using RunProgram = std::function<ProgramResult(const std::vector<std::string>& argv)>;

// Runs argv[0], looked up in PATH, with no standard input, and waits for it. Standard error is
// shared. Error if the system cannot start it for another reason than that it is missing.
ProgramResult run_program(const std::vector<std::string>& argv);

}  // namespace trireme
