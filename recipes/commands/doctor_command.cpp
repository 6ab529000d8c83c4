// trireme doctor
#include <ostream>

#include "recipes/commands/process.h"
#include "recipes/train/measured_peak.h"

namespace trireme {

int doctor_command(Process& process, const CommandLine& line) {
  static_cast<void>(line);
  process.out << "cores " << process.cores() << "\nbf16 " << (cpu_computes_bf16() ? "yes" : "no")
              << "\n";
  return 0;
}

}  // namespace trireme
