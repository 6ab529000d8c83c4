// The optimizer's update with its states on disk, beside what bounds it, all in one run:
//
//   compute  AdamW over the same tiles in memory: master and moments f32, f32 gradient, bf16
//            weights
//   disk     reads and writes at once past the page cache, blocks of a tile, as many threads as
//            the store's, no work and no hashes: bytes per second of both directions together
//   update   the disk store's update(); its ratio to max(compute, bytes / disk); its overlap, the
//            share of its time in which nobody waited for the disk
//
//   offload_bench FOLDER [--elements=2e8] [--tile=1048576] [--buffers=4] [--io-threads=4]
//                 [--threads=2] [--rounds=5]
// Elements as of one unit. Takes 18 bytes of memory and 36 of disk an element; rounds alternate the
// three, and the last line has medians. The target is a ratio of 1.15.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "bench/flags.h"
#include "bench/timing.h"
#include "framework/backend/backend.h"
#include "offload/tiled_store.h"

namespace trireme {
namespace {

Tensor counted_up(Backend& backend, std::int64_t n, DType dtype) {
  const Tensor x = backend.zeros({n}, dtype, MemoryKind::kGradients);
  if (dtype != DType::kF32) return x;
  auto* values = static_cast<float*>(x.data());
  for (std::int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(i % 1000 - 500) * 1e-6f;
  return x;
}

// Two files of blocks: one read, one written, each by half of the threads.
class RawDisk {
 public:
  RawDisk(const ScratchFolder& folder, std::int64_t block, std::int64_t blocks, int threads)
      : block_(block), blocks_(blocks), each_(std::max(1, threads / 2)) {
    for (const char* name : {"raw-read", "raw-write"}) {
      files_.push_back(folder.files().open(path_join(folder.path(), name), OpenMode::kScratch));
      files_.back()->preallocate(block * blocks);
    }
    for (int i = 0; i < 2 * each_; ++i) {
      buffers_.push_back(allocate_on_host(std::make_shared<MemoryLedger>(), {block}, DType::kU8,
                                          MemoryKind::kCommunication));
      std::memset(buffers_.back().data(), i, static_cast<std::size_t>(block));
    }
    move(0, true, each_);  // a file of holes would be read from nowhere
  }
  bool direct() const { return files_[0]->direct(); }
  // Bytes per second of both directions together.
  double rate() {
    const double seconds = timed([&] {
      std::thread reader([this] { move(0, false, each_); });
      move(1, true, each_);
      reader.join();
    });
    return 2 * static_cast<double>(block_) * static_cast<double>(blocks_) / seconds;
  }

 private:
  void move(std::size_t file, bool writes, int threads) {
    std::vector<std::thread> team;
    for (int t = 0; t < threads; ++t)
      team.emplace_back([=, this] {
        void* buffer = buffers_[static_cast<std::size_t>(writes ? t : each_ + t)].data();
        for (std::int64_t i = t; i < blocks_; i += threads) {
          if (writes)
            files_[file]->write(buffer, block_, i * block_);
          else
            files_[file]->read(buffer, block_, i * block_);
        }
      });
    for (std::thread& thread : team) thread.join();
  }

  std::int64_t block_, blocks_;
  int each_;
  std::vector<std::unique_ptr<File>> files_;
  std::vector<Tensor> buffers_;
};

struct Round {
  double compute, rate, update, working, ratio, overlap;
};

class OffloadBench {
 public:
  OffloadBench(const BenchFlags& flags, const std::string& folder)
      : elements_(flags.number("elements", 200'000'000)),
        shape_{.parts = {elements_},
               .arrays = {DType::kF32, DType::kF32, DType::kF32},
               .tile = flags.number("tile", std::int64_t{1} << 17)},
        buffers_(static_cast<int>(flags.number("buffers", 6))),
        io_threads_(static_cast<int>(flags.number("io-threads", 4))),
        files_(real_files()),
        folder_(*files_, {.folder = folder, .name = "offload-bench"}),
        pool_(io_threads_),
        backend_(make_cpu_backend(std::make_shared<MemoryLedger>(),
                                  static_cast<int>(flags.number("threads", 2)))),
        gradient_(counted_up(*backend_, elements_, DType::kF32)),
        weights_(counted_up(*backend_, elements_, DType::kBF16)) {}

  void run(std::int64_t rounds) {
    const auto ledger = backend_->shared_ledger();
    const auto disk =
        make_disk_store(shape_, ledger, folder_, pool_, {.buffers = buffers_, .name = "optimizer"});
    const auto memory = make_host_store(shape_, ledger);
    disk->set_clock(seconds_now);
    const std::int64_t home = TiledStore::home_bytes(shape_, Tier::kDisk);
    const std::int64_t block = TiledStore::buffer_bytes(shape_, Tier::kDisk, 1);
    RawDisk raw(folder_, block, std::max<std::int64_t>(1, home / block), io_threads_);
    std::printf("%.0fM elements, tiles of %lld KiB, %d buffers, %d I/O threads, %s\n",
                static_cast<double>(elements_) / 1e6, static_cast<long long>(block >> 10), buffers_,
                io_threads_, raw.direct() ? "past the page cache" : "through the page cache");
    adam(*disk);  // the first step reads nothing: nothing was written
    adam(*memory);
    std::vector<Round> all;
    for (std::int64_t i = 0; i < rounds; ++i) {
      Round r{.compute = timed([&] { adam(*memory); }), .rate = raw.rate()};
      disk->reset_times();
      r.update = timed([&] { adam(*disk); });
      const StoreTimes& t = disk->times();
      const auto bytes = static_cast<double>(t.bytes_read + t.bytes_written);
      r.ratio = r.update / std::max(r.compute, bytes / r.rate);
      r.working = t.working;
      r.overlap = 1 - (t.waiting_reads + t.waiting_writes) / t.total;
      all.push_back(r);
      print(("round " + std::to_string(i + 1)).c_str(), r, bytes);
    }
    const auto of = [&](double Round::*member) {
      std::vector<double> values;
      for (const Round& r : all) values.push_back(r.*member);
      return median(values);
    };
    print("median",
          {of(&Round::compute), of(&Round::rate), of(&Round::update), of(&Round::working),
           of(&Round::ratio), of(&Round::overlap)},
          2 * static_cast<double>(home));
  }

 private:
  void adam(TiledStore& store) {
    const AdamStep step{.lr = 1e-4, .weight_decay = 0.1, .bias1 = 0.1, .bias2 = 0.001};
    store.update([&](const Tile& tile) {
      const auto piece = [&](const Tensor& x) {
        return x.elements_at(tile.range.begin, {tile.range.size()});
      };
      backend_->train_kernels()->adam(step, tile.arrays[0], tile.arrays[1], tile.arrays[2],
                                      piece(gradient_), piece(weights_));
    });
  }
  static void print(const char* name, const Round& r, double bytes) {
    std::printf(
        "%s: compute %.2f s, disk %.2f GB/s = %.2f s, update %.2f s (%.2f s computing): ratio "
        "%.2f, "
        "overlap %.0f%%\n",
        name, r.compute, r.rate / 1e9, bytes / r.rate, r.update, r.working, r.ratio,
        r.overlap * 100);
    std::fflush(stdout);
  }

  std::int64_t elements_;
  TiledShape shape_;
  int buffers_, io_threads_;
  std::unique_ptr<Files> files_;
  ScratchFolder folder_;
  IoPool pool_;
  std::unique_ptr<Backend> backend_;
  Tensor gradient_, weights_;
};

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) try {
  const trireme::BenchFlags flags(argc, argv);
  if (flags.word().empty()) throw trireme::UsageError("offload_bench FOLDER [--elements=2e8 ...]");
  trireme::OffloadBench bench(flags, flags.word());
  const std::int64_t rounds = flags.number("rounds", 5);
  flags.expect_no_others();
  bench.run(rounds);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
