#include "tests/framework/checkpoint/toy_saves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>

#include "framework/base/error.h"
#include "framework/checkpoint/checkpoint_reader.h"
#include "framework/checkpoint/checkpoint_writer.h"

namespace trireme::testing {

namespace {

const std::vector<LogicalArray>& toy_arrays() {
  static const std::vector<LogicalArray> arrays = {
      {{"embedding.table", "value"}, {12, 40}, DType::kF32},
      {{"embedding.table", "exp_avg"}, {12, 40}, DType::kF32},
      {{"layers.0.norm.weight", "value"}, {40}, DType::kF64},
  };
  return arrays;
}

double toy_value(std::int64_t step, std::size_t array, std::int64_t element) {
  return static_cast<double>(step * 100000 + static_cast<std::int64_t>(array) * 1000 + element + 1);
}

// The rows of one process, as bytes of the array's type.
std::vector<std::byte> toy_bytes(std::int64_t step, std::size_t array, const Rectangle& at) {
  const LogicalArray& of = toy_arrays()[array];
  const auto width = static_cast<std::size_t>(size_of(of.dtype));
  std::vector<std::byte> bytes(static_cast<std::size_t>(at.elements()) * width);
  for (std::int64_t i = 0; i < at.elements(); ++i) {
    const std::int64_t row = at.row + i / at.columns;
    const std::int64_t column = at.column + i % at.columns;
    const double wide = toy_value(step, array, row * of.columns() + column);
    const auto narrow = static_cast<float>(wide);
    const void* from = of.dtype == DType::kF64 ? static_cast<const void*>(&wide) : &narrow;
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * width, from, width);
  }
  return bytes;
}

// Tables are cut by columns, vectors by rows.
std::vector<Piece> toy_pieces(int process, int processes) {
  std::vector<Piece> pieces;
  for (const LogicalArray& array : toy_arrays()) {
    Rectangle at{0, 0, array.rows(), array.columns()};
    std::int64_t& begin = array.columns() > 1 ? at.column : at.row;
    std::int64_t& count = array.columns() > 1 ? at.columns : at.rows;
    count /= processes;
    begin = count * process;
    pieces.push_back({array, at});
  }
  return pieces;
}

class ToyProcess {
 public:
  ToyProcess(Files& files, const std::string& folder, int process, int processes)
      : pieces_(toy_pieces(process, processes)),
        writer_(files, folder, "ranks-" + std::to_string(process) + ".h5", pieces_) {}

  void write(std::int64_t step, std::size_t index) {
    const auto bytes = toy_bytes(step, index, pieces_[index].at);
    writer_.write(index, 0, pieces_[index].at.elements(), bytes.data());
  }
  StoredFile finish() { return writer_.finish(); }

 private:
  std::vector<Piece> pieces_;
  CheckpointWriter writer_;
};

void compare_with_recorded(const CheckpointReader& reader, FoundToy& found) {
  if (reader.arrays().size() != toy_arrays().size()) found.complaints.push_back("arrays missing");
  for (std::size_t i = 0; i < toy_arrays().size(); ++i) {
    const LogicalArray& array = toy_arrays()[i];
    const Rectangle whole{0, 0, array.rows(), array.columns()};
    const auto expected = toy_bytes(found.step, i, whole);
    std::vector<std::byte> read(expected.size());
    reader.read(array.name, whole, array.dtype, read.data());
    if (read != expected) found.complaints.push_back(array.name.tensor + " differs");
  }
}

}  // namespace

void save_toy(Files& files, std::int64_t step, int processes, bool threads) {
  CheckpointFolder folder(files, kToyFolder);
  const std::string temporary = folder.begin(step);
  std::vector<std::unique_ptr<ToyProcess>> all;
  for (int p = 0; p < processes; ++p)
    all.push_back(std::make_unique<ToyProcess>(files, temporary, p, processes));
  if (threads) {
    std::vector<std::thread> running;
    for (auto& process : all)
      running.emplace_back([&process, step] {
        try {
          for (std::size_t i = 0; i < toy_arrays().size(); ++i) process->write(step, i);
        } catch (const SimulatedCrash&) {
          // The power is off for everybody: the next call of this thread's owner says so.
        }
      });
    for (auto& thread : running) thread.join();
  } else {
    for (std::size_t i = 0; i < toy_arrays().size(); ++i)
      for (auto& process : all) process->write(step, i);
  }
  Manifest manifest;
  manifest.run = "toy";
  manifest.step = step;
  manifest.layout = "data " + std::to_string(processes);
  manifest.recipe = "[train]\nsteps = 2\n";
  manifest.scalars["steps_taken"] = std::to_string(step);
  for (auto& process : all) manifest.files.push_back(process->finish());
  folder.commit(manifest);
}

FoundToy find_toy(Files& files) {
  FoundToy found;
  try {
    const CheckpointFolder folder(files, kToyFolder);
    found.step = folder.newest_good(found.refused).value_or(0);
    found.latest = folder.latest().value_or(0);
    for (const std::int64_t step : folder.steps())
      if (step < found.step)
        for (const std::string& damage : verify_checkpoint(files, folder.folder_of(step)))
          found.complaints.push_back(damage);
    if (found.step == 0) return found;
    const CheckpointReader reader(files, folder.folder_of(found.step));
    if (reader.manifest().integer("steps_taken") != found.step)
      found.complaints.push_back("its scalars are of another step");
    compare_with_recorded(reader, found);
  } catch (const Error& e) {
    found.complaints.push_back(e.what());
  }
  return found;
}

bool is_tidy(Files& files) {
  const auto names = files.list(kToyFolder);
  return std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return name == "latest" || (name.starts_with("step-") &&
                                name.find_first_not_of("0123456789", 5) == std::string::npos);
  });
}

bool done_before_the_crash(SimulatedFiles& files, const std::function<void()>& call) {
  try {
    call();
  } catch (const SimulatedCrash&) {
    return false;
  } catch (const Error& e) {
    EXPECT_TRUE(files.crashed()) << e.what();
  }
  return !files.crashed();
}

std::string text_of(const FoundToy& found) {
  std::string text =
      "found step " + std::to_string(found.step) + ", latest " + std::to_string(found.latest);
  for (const std::string& line : found.refused) text += "; refused: " + line;
  for (const std::string& line : found.complaints) text += "; " + line;
  return text;
}

namespace {

// Runs until the crash, if any. Returns after how many calls each save had returned before it.
// `done`: all of it.
std::vector<std::int64_t> run_toy(SimulatedFiles& files, int processes, bool& done) {
  std::vector<std::int64_t> returned;
  done = done_before_the_crash(files, [&] {
    for (std::int64_t step = 1; step <= 2; ++step) {
      save_toy(files, step, processes);
      if (!files.crashed()) returned.push_back(files.calls());
    }
    CheckpointFolder(files, kToyFolder).prune(1, {});
  });
  return returned;
}

}  // namespace

CrashCount crash_toy_saves(const CrashPlan& plan) {
  CrashCount count;
  bool done = false;
  for (std::int64_t k = plan.from; !done && (plan.to == 0 || k <= plan.to); ++k) {
    Troubles with = plan.troubles;
    with.plan = {.fault = Fault::kCrash, .at = k};
    SimulatedFiles files(with);
    const auto committed = static_cast<std::int64_t>(run_toy(files, plan.processes, done).size());
    if (!done) ++count.crashes;
    for (const Persistence& kept : every_persistence())
      for (std::int64_t seed = 0; seed < plan.seeds; ++seed) {
        const auto restarted =
            files.restart(kept, static_cast<std::uint64_t>(k * plan.seeds + seed));
        ++count.restarts;
        const FoundToy found = find_toy(*restarted);
        const bool promised = found.step == committed || (!done && found.step == committed + 1);
        if (promised && found.latest >= committed && found.complaints.empty()) continue;
        ++count.lost;
        if (count.first.empty())
          count.first = "call " + std::to_string(k) + " (" + files.trace().back() + "), " +
                        text_of(kept) + ", " + std::to_string(committed) +
                        " saves returned: " + text_of(found);
        if (plan.until_lost) return count;
      }
  }
  return count;
}

ToyTrace trace_of_toy_saves(int processes) {
  SimulatedFiles files;
  bool done = false;
  const auto returned = run_toy(files, processes, done);
  return {files.trace(), returned};
}

}  // namespace trireme::testing
