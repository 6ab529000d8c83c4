// What the program was built for and with, and whether its parts work here. The TRIREME_BUILD_
// words come from this folder's CMakeLists.txt.
#include <algorithm>
#include <mutex>
#include <sstream>

#include "framework/backend/backend.h"
#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "framework/base/program.h"
#include "recipes/commands/doctor.h"
#include "recipes/report/numbers.h"
#include "recipes/train/measured_peak.h"

namespace trireme {

namespace {

using State = Finding::State;

// The path of a program of PATH; empty if there is none.
std::string found_program(Process& process, const std::string& name) {
  std::istringstream path(process.variable("PATH"));
  for (std::string folder; std::getline(path, folder, ':');) {
    const std::string candidate = path_join(folder.empty() ? "." : folder, name);
    if (process.files.status(candidate).kind == FileKind::kFile) return candidate;
  }
  return {};
}

// Both ranks hold 1 + rank, 2 + rank, ...: the sum has 3, 5, 7, ...
bool sums_right(Communicator& world) {
  constexpr int kElements = 1000;  // two pieces and a tail
  const auto backend = make_reference_backend(std::make_shared<MemoryLedger>());
  world.attach(*backend);
  std::vector<double> values(kElements);
  for (int i = 0; i < kElements; ++i) values[static_cast<std::size_t>(i)] = i + 1 + world.rank();
  Tensor x = backend->allocate({kElements}, DType::kF32, MemoryKind::kWorkspace);
  upload_doubles(*backend, values, x);
  world.all_reduce(x).wait();
  values = download_doubles(*backend, x);
  world.barrier();
  for (int i = 0; i < kElements; ++i)
    if (values[static_cast<std::size_t>(i)] != 2 * i + 3) return false;
  return true;
}

}  // namespace

Finding build_finding(Process& process) {
  const std::vector<std::string> flags = cpu_flags(process.files);
  Finding finding{.name = "build",
                  .value = join("for ", TRIREME_BUILD_ARCH, " (", TRIREME_BUILD_FEATURES, ") by ",
                                TRIREME_BUILD_COMPILER)};
  std::string missing;
  std::istringstream needed(TRIREME_BUILD_FEATURES);
  for (std::string flag; needed >> flag;)
    if (!flags.empty() && std::find(flags.begin(), flags.end(), flag) == flags.end())
      missing += join(missing.empty() ? "" : ", ", flag);
  if (missing.empty()) return finding;
  finding.state = State::kBroken;
  finding.advice = "this CPU lacks " + missing +
                   ": start ./trireme here, which builds anew, or build with a portable "
                   "TRIREME_ARCH such as x86-64-v3";
  return finding;
}

Finding libraries_finding() {
  return {.name = "libraries", .value = std::string(TRIREME_BUILD_LIBRARIES)};
}

Finding backend_finding(Process& process) try {
  const bool bf16 = cpu_multiplies_bf16();
  const double f32 = measured_peak(DType::kF32, process.cores());
  Finding finding{.name = "cpu backend",
                  .value = join("f32 ", flops_text(f32),
                                bf16 ? ", bf16 " : ", bf16 stored only, computed in f32")};
  if (bf16) finding.value += flops_text(measured_peak(DType::kBF16, process.cores()));
  finding.value += " in matrix products";
  // Products that share their cores come out several times too slow, so the best of 0.1 s may, too.
  const double load = load_average(process.files);
  if (load <= process.cores() / 2.0) return finding;
  finding.value += join(" at least, at load ", significant(load, 2));
  finding.state = State::kNote;
  finding.advice = "other work slows this down: look again when the machine is idle";
  return finding;
} catch (const Error& error) {
  return {.name = "cpu backend",
          .value = error.what(),
          .state = State::kNote,
          .advice = "only device.kind = reference works, which is slow"};
}

Finding mpi_finding(Process& process) {
  Finding finding{.name = "mpi"};
  if (!mpi_is_built_in()) {
    finding.value = "not built in";
    finding.state = State::kNote;
    finding.advice = "for parallel.launch = mpi: install libopenmpi-dev, then build again";
    return finding;
  }
  const std::string mpirun = found_program(process, "mpirun"),
                    srun = found_program(process, "srun");
  finding.value = mpi_version();
  for (const std::string& launcher : {mpirun, srun})
    if (!launcher.empty()) finding.value += ", " + launcher;
  if (process.under_launcher) finding.value += ", started by a launcher now";
  if (!mpirun.empty() || !srun.empty() || process.under_launcher) return finding;
  finding.state = State::kNote;
  finding.advice = "no mpirun or srun in PATH; for parallel.launch = mpi: install openmpi-bin";
  return finding;
}

Finding text_finding(Process& process) {
  const std::string program = found_program(process, "bible");
  if (!program.empty()) return {.name = "bible-kjv", .value = program};
  return {.name = "bible-kjv",
          .value = "not installed",
          .state = State::kNote,
          .advice = "the quickstart's text: install bible-kjv, or give --data.text=FILE"};
}

Finding collective_finding() try {
  std::mutex mutex;
  bool right = true;
  run_thread_ranks(2, {.timeout_seconds = 30}, [&](Communicator& world) {
    const bool mine = sums_right(world);
    std::scoped_lock lock(mutex);
    right = right && mine;
  });
  if (right) return {.name = "collective", .value = "2 thread ranks: all_reduce is right"};
  return {.name = "collective",
          .value = "2 thread ranks: all_reduce gives a wrong sum",
          .state = State::kBroken,
          .advice = "run ./trireme test; memory or compiler may be faulty"};
} catch (const std::exception& error) {
  return {.name = "collective",
          .value = error.what(),
          .state = State::kBroken,
          .advice = "run ./trireme test"};
}

}  // namespace trireme
