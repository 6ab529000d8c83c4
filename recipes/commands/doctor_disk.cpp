// How fast a folder's disk takes and gives bytes.
#include <algorithm>
#include <chrono>

#include "framework/base/error.h"
#include "recipes/commands/doctor.h"
#include "recipes/report/numbers.h"

namespace trireme {

namespace {

constexpr std::int64_t kBytes = std::int64_t{64} << 20, kBlock = std::int64_t{4} << 20;

template <typename Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string rate(double seconds) {
  return bytes_text(static_cast<std::int64_t>(static_cast<double>(kBytes) / seconds)) + "/s";
}

// Removes the file however the measurement ends.
class TemporaryFile {
 public:
  TemporaryFile(Files& files, std::string path) : files_(files), path_(std::move(path)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { files_.raw_remove(path_); }

 private:
  Files& files_;
  std::string path_;
};

std::string measured(Files& files, const std::string& folder) {
  const std::string path = files.temporary_name(path_join(folder, "trireme-doctor"));
  const auto file = files.open(path, OpenMode::kCreate);
  const TemporaryFile removed(files, path);
  std::string block(static_cast<std::size_t>(kBlock), 'x');
  const auto each = [&](const auto& work) {
    for (std::int64_t at = 0; at < kBytes; at += kBlock) work(at);
  };
  const double writing = seconds_of([&] {
    each([&](std::int64_t at) { file->write(block.data(), kBlock, at); });
    file->sync();
  });
  const double reading =
      seconds_of([&] { each([&](std::int64_t at) { file->read(block.data(), kBlock, at); }); });
  file->close();
  return join(rate(writing), " write (64 MiB, synced), ", rate(reading),
              " read (through the page cache)");
}

}  // namespace

Finding disk_finding(Process& process, const std::string& folder) try {
  Finding finding{.name = "disk"};
  const std::int64_t free = process.files.free_space(folder);
  finding.value = folder + ": " + bytes_text(free) + " free";
  if (free < 4 * kBytes) {
    finding.state = Finding::State::kNote;
    finding.advice = "almost full: a run may not be able to write its files there";
    return finding;
  }
  finding.value += ", " + measured(process.files, folder);
  return finding;
} catch (const Error& error) {
  return {.name = "disk",
          .value = error.what(),
          .state = Finding::State::kNote,
          .advice = "set train.folder to a folder that can be written"};
}

}  // namespace trireme
