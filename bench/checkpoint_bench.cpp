// Saving and loading the whole state of a run, beside what the disk gives, all in one run:
//
//   write    bytes per second into a file of the checkpoint's size with fsync: past the page cache,
//            and through it
//   read     the same for reading what is not in the page cache
//   save     of GPT-2 124M with AdamW (master and two moments in f32: 1.5 GB), commit included
//   load     of it, every byte compared with its hash: after the page cache let go of it (cold) and
//            out of the page cache
//
//   checkpoint_bench FOLDER [--rounds=3] [--layers=12] [--ranks=1] [--threads=2]
// Ranks are data ranks at ZeRO stage 1. FOLDER lies on the disk to be measured and needs two
// checkpoints' room; memory is 2.5 GB a rank. Ratios are to the better of the two disk rates of the
// same round; the targets are 0.8, and 1.5 s for a load out of the page cache.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "bench/flags.h"
#include "bench/timing.h"
#include "recipes/cli/parse.h"
#include "recipes/train/plan.h"
#include "recipes/train/save_session.h"

namespace trireme {
namespace {

// The bare disk, past our own code: a file of `bytes` in requests of 1 MiB by four threads.
class RawFile {
 public:
  RawFile(std::string path, std::int64_t bytes, int flags)
      : path_(std::move(path)), blocks_(bytes / kBlock), flags_(flags) {
    ::unlink(path_.c_str());
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | flags_, 0600);
    check(descriptor_ >= 0 && ::posix_fallocate(descriptor_, 0, blocks_ * kBlock) == 0,
          "cannot make ", path_);
    for (auto& buffer : buffers_)
      buffer.reset(static_cast<char*>(std::aligned_alloc(4096, kBlock)));
    for (auto& buffer : buffers_) std::fill_n(buffer.get(), kBlock, 'x');
  }
  ~RawFile() {
    ::close(descriptor_);
    ::unlink(path_.c_str());
  }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  double write_rate() {
    // Through the page cache threads would wait for each other.
    const int threads = flags_ == 0 ? 1 : kThreads;
    return rate([&] {
      move(threads, [&](char* buffer, std::int64_t at) {
        return ::pwrite(descriptor_, buffer, kBlock, at);
      });
      check(::fsync(descriptor_) == 0, "cannot sync ", path_);
    });
  }
  double read_rate() {
    ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_DONTNEED);
    return rate([&] {
      move(kThreads,
           [&](char* buffer, std::int64_t at) { return ::pread(descriptor_, buffer, kBlock, at); });
    });
  }

 private:
  static constexpr std::int64_t kBlock = std::int64_t{1} << 20;
  static constexpr int kThreads = 4;  // as the writer has, and readers

  double rate(const std::function<void()>& work) const {
    return static_cast<double>(blocks_ * kBlock) / timed(work);
  }
  void move(int threads, const std::function<ssize_t(char*, std::int64_t)>& one) {
    std::vector<std::thread> team;
    for (int t = 0; t < threads; ++t)
      team.emplace_back([&, t] {
        for (std::int64_t i = t; i < blocks_; i += threads)
          if (one(buffers_[t].get(), i * kBlock) != kBlock) std::abort();
      });
    for (std::thread& thread : team) thread.join();
  }

  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::string path_;
  std::int64_t blocks_;
  int flags_, descriptor_ = -1;
  std::unique_ptr<char, Free> buffers_[kThreads];
};

struct Rates {
  double direct = 0, buffered = 0;
  double best() const { return std::max(direct, buffered); }
};

struct Round {
  Rates write, read;
  double save = 0, cold = 0, cached = 0;  // seconds
};

void forget_pages(Files& files, const std::string& folder) {
  for (const std::string& name : files.list(folder)) {
    const int descriptor = ::open(path_join(folder, name).c_str(), O_RDONLY);
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    ::close(descriptor);
  }
}

// Into the page cache, and how many bytes.
std::int64_t read_pages(Files& files, const std::string& folder) {
  std::int64_t bytes = 0;
  std::vector<char> buffer(std::size_t{1} << 20);
  for (const std::string& name : files.list(folder)) {
    const auto file = files.open(path_join(folder, name), OpenMode::kRead);
    const std::int64_t size = file->size(), block = std::ssize(buffer);
    for (std::int64_t at = 0; at < size; at += block)
      file->read(buffer.data(), std::min(block, size - at), at);
    bytes += size;
  }
  return bytes;
}

Recipe recipe_of(const BenchFlags& flags) {
  const std::string data = std::to_string(flags.number("ranks", 1));
  Recipe recipe = parse_recipe(
      {.file = "gpt2-124m",
       .text = "[model]\nfamily = gpt2\nlayers = " + std::to_string(flags.number("layers", 12)) +
               "\nhidden = 768\nheads = 12\nvocab = 50257\ntie_embeddings = true\n"
               "[batch]\nglobal = 4\nmicro = 1\nsequence = 512\n[zero]\nstage = 1\n"
               "[precision]\ncompute = bf16\n[parallel]\ndata = " +
               data + "\nthreads = " + std::to_string(flags.number("threads", 2)) + "\n"});
  resolve_for_machine(recipe, {.bf16 = true}, recipe.model.vocab);
  return recipe;
}

class CheckpointBench {
 public:
  CheckpointBench(const BenchFlags& flags, std::string folder)
      : recipe_(recipe_of(flags)),
        folder_(std::move(folder)),
        files_(real_files()),
        session_(*files_, path_join(folder_, "checkpoint-bench"), 0, mesh_shape(recipe_).ranks(),
                 static_cast<int>(flags.number("threads", 2)) * mesh_shape(recipe_).ranks()) {}

  void run(std::int64_t rounds) {
    files_->make_directories(folder_);
    files_->remove_all(path_join(folder_, "checkpoint-bench"));  // of one that was stopped
    run_thread_ranks(
        mesh_shape(recipe_).ranks(), {},
        [&](Communicator& world) {
          const std::unique_ptr<Backend> backend = make_backend(recipe_);
          world.attach(*backend);
          Mesh mesh(world, mesh_shape(recipe_));
          Engine engine(engine_options(recipe_), mesh, *backend);
          const SaveRank rank{&session_, engine, mesh, *backend, *backend};
          for (std::int64_t i = 1; i <= rounds; ++i) one_round(rank, i);
        },
        [](int rank) { return join("rank ", rank, ": "); });
    files_->remove_all(path_join(folder_, "checkpoint-bench"));
    tell(rounds);
  }

 private:
  // On rank 0; the others wait.
  void alone(const SaveRank& r, const std::function<void()>& work) {
    r.mesh.world().barrier();
    if (r.mesh.world().rank() == 0) work();
    r.mesh.world().barrier();
  }
  double together(const SaveRank& r, const std::function<void()>& work) {
    r.mesh.world().barrier();
    return timed(work);
  }

  void one_round(const SaveRank& r, std::int64_t step) {
    Round round;
    const Manifest head{.run = "bench", .step = step, .recipe = "[train]\n"};
    const std::string place = session_.folder().folder_of(step);
    round.save = together(r, [&] { save(r, head); });
    alone(r, [&] {
      session_.folder().prune(1, {});
      bytes_ = read_pages(*files_, place);
    });
    round.cached = together(r, [&] { load(r, step); });
    alone(r, [&] { forget_pages(*files_, place); });
    round.cold = together(r, [&] { load(r, step); });
    alone(r, [&] {
      const std::string raw = path_join(folder_, "checkpoint-bench-raw");
      for (const int flags : {O_DIRECT, 0}) {
        RawFile file(raw, bytes_, flags);
        (flags == 0 ? round.write.buffered : round.write.direct) = file.write_rate();
        (flags == 0 ? round.read.buffered : round.read.direct) = file.read_rate();
      }
      all_.push_back(round);
      print(join("round ", step), round);
    });
  }

  void print(const std::string& name, const Round& r) const {
    const auto bytes = static_cast<double>(bytes_);
    const double gb = 1e-9;
    std::printf(
        "%s: disk writes %.2f direct, %.2f buffered, reads %.2f direct, %.2f buffered GB/s; save "
        "%.2f s = %.2f GB/s (%.2f), load cold %.2f s = %.2f GB/s (%.2f), cached %.2f s\n",
        name.c_str(), r.write.direct * gb, r.write.buffered * gb, r.read.direct * gb,
        r.read.buffered * gb, r.save, bytes / r.save * gb, bytes / r.save / r.write.best(), r.cold,
        bytes / r.cold * gb, bytes / r.cold / r.read.best(), r.cached);
    std::fflush(stdout);
  }

  void tell(std::int64_t rounds) const {
    const auto of = [&](const std::function<double(const Round&)>& value) {
      std::vector<double> values;
      for (const Round& round : all_) values.push_back(value(round));
      return median(values);
    };
    const auto bytes = static_cast<double>(bytes_);
    std::printf(
        "medians of %lld rounds, %.2f GB: save %.2f and load %.2f of the disk's rate, load "
        "out of the page cache %.2f s\n",
        static_cast<long long>(rounds), bytes * 1e-9,
        of([&](const Round& r) { return bytes / r.save / r.write.best(); }),
        of([&](const Round& r) { return bytes / r.cold / r.read.best(); }),
        of([](const Round& r) { return r.cached; }));
  }

  Recipe recipe_;
  std::string folder_;
  std::unique_ptr<Files> files_;
  SaveSession session_;
  std::int64_t bytes_ = 0;
  std::vector<Round> all_;
};

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) try {
  const trireme::BenchFlags flags(argc, argv);
  if (flags.word().empty()) throw trireme::UsageError("checkpoint_bench FOLDER [--rounds=3 ...]");
  trireme::CheckpointBench bench(flags, flags.word());
  const std::int64_t rounds = flags.number("rounds", 3);
  flags.expect_no_others();
  bench.run(rounds);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
