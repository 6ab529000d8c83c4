// How far an import, an export or a merge is: a bar on a live terminal, its end when a signal asks,
// and what memory it took.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "recipes/commands/process.h"
#include "recipes/report/console.h"

namespace trireme {

class TransferBar {
 public:
  TransferBar(Process& process, std::string what);

  // To be told bytes, block by block; must not outlive the bar. Error once a signal came.
  std::function<void(std::int64_t done, std::int64_t all)> progress();
  // The most that this process held so far, mapped files among it; 0 if the system does not say.
  std::int64_t peak_bytes() const;
  // ", peak memory 31 MiB"
  std::string peak_text() const;

 private:
  Process& process_;
  std::string what_;
  Console console_;
};

}  // namespace trireme
