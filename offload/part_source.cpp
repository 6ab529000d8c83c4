#include "offload/part_source.h"

#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "framework/base/error.h"
#include "offload/file_requests.h"
#include "offload/tiled_store.h"

namespace trireme {

namespace {

class MemoryParts final : public PartSource {
 public:
  MemoryParts(const std::vector<std::int64_t>& sizes, const std::shared_ptr<MemoryLedger>& ledger,
              IoPool& pool)
      : pool_(pool) {
    for (const std::int64_t bytes : sizes) {
      parts_.push_back(allocate_on_host(ledger, {bytes}, DType::kU8, MemoryKind::kParameters));
      if (bytes > 0)
        std::memset(parts_.back().data(), 0, static_cast<std::size_t>(parts_.back().bytes()));
    }
  }
  Tier tier() const override { return Tier::kHost; }
  std::int64_t phase(std::size_t) const override { return 0; }
  void start(std::size_t part, const Landing& to, std::vector<IoTicket>& tickets) override {
    const std::int64_t all = parts_[part].bytes();
    for (std::int64_t at = 0; at < all; at += kRequestBytes) {
      const std::int64_t bytes = std::min(kRequestBytes, all - at);
      tickets.push_back(pool_.start([from = home(part, at), to, at, bytes] {
        to.device->upload(from, to.bytes.elements_at(at, {bytes}));
      }));
    }
  }
  void read(std::size_t part, std::int64_t at, std::int64_t bytes, void* to) override {
    std::memcpy(to, home(part, at), static_cast<std::size_t>(bytes));
  }
  void write(std::size_t part, std::int64_t at, std::int64_t bytes, const void* from) override {
    std::memcpy(home(part, at), from, static_cast<std::size_t>(bytes));
  }

 private:
  std::byte* home(std::size_t part, std::int64_t at) const {
    return static_cast<std::byte*>(parts_[part].data()) + at;
  }
  IoPool& pool_;
  std::vector<Tensor> parts_;
};

// What both kinds of files share.
class FileParts : public PartSource {
 public:
  FileParts(const std::shared_ptr<MemoryLedger>& ledger, IoPool& pool)
      : pool_(pool), buffers_(ledger, pool.threads()) {}
  Tier tier() const override { return Tier::kDisk; }

 protected:
  IoPool& pool_;
  RequestBuffers buffers_;
};

class ExtentParts final : public FileParts {
 public:
  ExtentParts(const std::vector<std::int64_t>& sizes, std::vector<std::vector<FileExtent>> extents,
              const std::vector<std::string>& paths, Files& files,
              const std::shared_ptr<MemoryLedger>& ledger, IoPool& pool)
      : FileParts(ledger, pool) {
    for (const std::string& path : paths) files_.push_back(files.open(path, OpenMode::kReadDirect));
    check(sizes.size() == extents.size(), "offload: ", extents.size(), " lists of extents for ",
          sizes.size(), " parts");
    for (std::size_t p = 0; p < sizes.size(); ++p) lay_out(sizes[p], joined(std::move(extents[p])));
  }

  std::int64_t phase(std::size_t part) const override { return parts_[part].phase; }
  void start(std::size_t part, const Landing& to, std::vector<IoTicket>& tickets) override {
    const Part& p = parts_[part];
    for (const FileExtent& request : p.requests) {
      const bool direct = in_place(request, p.phase);
      tickets.push_back(pool_.start([this, &request, direct, to] {
        read_request(*files_[request.file], request, direct, to, buffers_);
      }));
    }
    for (const Range& zeros : p.zeros)
      tickets.push_back(pool_.start(
          [this, zeros, to] { zero_request(zeros.begin, zeros.size(), to, buffers_); }));
  }
  void read(std::size_t part, std::int64_t at, std::int64_t bytes, void* to) override {
    std::memset(to, 0, static_cast<std::size_t>(bytes));
    for (const FileExtent& r : parts_[part].requests) {
      const Range some = intersect({r.at, r.at + r.bytes}, {at, at + bytes});
      if (!some.empty())
        files_[r.file]->read(static_cast<std::byte*>(to) + (some.begin - at), some.size(),
                             r.offset + some.begin - r.at);
    }
  }
  void write(std::size_t, std::int64_t, std::int64_t, const void*) override {
    fail("offload: weights that are read where they lie, in ", files_.front()->path(),
         ", cannot be written");
  }

 private:
  struct Part {
    std::int64_t phase = 0;
    std::vector<FileExtent> requests;
    std::vector<Range> zeros;  // bytes
  };
  void lay_out(std::int64_t bytes, const std::vector<FileExtent>& extents) {
    // Tensors begin at multiples of their elements' size, the widest of which has 8 bytes.
    Part part{.phase = best_phase(extents, 8)};
    std::int64_t at = 0;
    for (const FileExtent& e : extents) {
      check(e.at >= at && e.at + e.bytes <= bytes && e.file < files_.size(), "offload: an extent ",
            "of bytes ", e.at, " to ", e.at + e.bytes, " does not fit a part of ", bytes);
      if (e.at > at) part.zeros.push_back({at, e.at});
      for (const FileExtent& request : requests_of(e, part.phase)) part.requests.push_back(request);
      at = e.at + e.bytes;
    }
    if (at < bytes) part.zeros.push_back({at, bytes});
    parts_.push_back(std::move(part));
  }

  std::vector<std::unique_ptr<File>> files_;
  std::vector<Part> parts_;
};

// Parts follow each other from block to block, in requests of kRequestBytes. Written through one
// request that is kept in memory.
class CopiedParts final : public FileParts {
 public:
  CopiedParts(const std::vector<std::int64_t>& sizes, std::shared_ptr<MemoryLedger> ledger,
              const ScratchFolder& folder, IoPool& pool)
      : FileParts(ledger, pool), files_(folder.files()), ledger_(std::move(ledger)) {
    for (const std::int64_t bytes : sizes) {
      first_.push_back(requests_.size());
      for (std::int64_t at = 0; at < bytes; at += kRequestBytes) {
        const std::int64_t length = std::min(kRequestBytes, bytes - at);
        requests_.push_back({0, bytes_ + at, up(length), at});
      }
      bytes_ += up(bytes);
    }
    hashes_.resize(requests_.size());
    states_ = std::vector<std::atomic<State>>(requests_.size());
    first_.push_back(requests_.size());
    folder.expect_room(bytes_);
    ledger_->add(Tier::kDisk, MemoryKind::kParameters, bytes_);
    counted_ = bytes_;
    path_ = path_join(folder.path(), "weights");
    try {
      file_ = files_.open(path_, OpenMode::kScratch);
      file_->preallocate(bytes_);
      kept_ = allocate_on_host(ledger_, {kRequestBytes}, DType::kU8, MemoryKind::kCommunication);
    } catch (...) {
      give_back();
      throw;
    }
  }
  ~CopiedParts() override { give_back(); }

  std::int64_t phase(std::size_t) const override { return 0; }
  void start(std::size_t part, const Landing& to, std::vector<IoTicket>& tickets) override {
    flush();
    for (std::size_t i = first_[part]; i < first_[part + 1]; ++i)
      tickets.push_back(pool_.start([this, i, to] { bring(i, to); }));
  }
  void read(std::size_t part, std::int64_t at, std::int64_t bytes, void* to) override {
    each(part, at, bytes, [&](std::byte* kept, std::int64_t done, std::int64_t some) {
      std::memcpy(static_cast<std::byte*>(to) + done, kept, static_cast<std::size_t>(some));
    });
  }
  void write(std::size_t part, std::int64_t at, std::int64_t bytes, const void* from) override {
    each(part, at, bytes, [&](std::byte* kept, std::int64_t done, std::int64_t some) {
      std::memcpy(kept, static_cast<const std::byte*>(from) + done, static_cast<std::size_t>(some));
      dirty_ = true;
    });
  }
  void flush() override {
    if (!dirty_) return;
    const FileExtent& r = requests_[at_];
    hashes_[at_] = hash(memory(), r.bytes);
    file_->write(memory(), r.bytes, r.offset);
    states_[at_] = State::kWritten;
    dirty_ = false;
  }
  void expect_present() override {
    const FileStatus status = files_.status(path_);
    check(status.kind == FileKind::kFile && status.bytes == bytes_, path_,
          " is no longer the file of ", bytes_,
          " bytes that it was: somebody changed it while it was in use");
  }

 private:
  enum class State : std::uint8_t { kZero, kWritten, kVerified };
  static std::int64_t up(std::int64_t bytes) {
    return (bytes + kDiskBlock - 1) / kDiskBlock * kDiskBlock;
  }
  static std::uint64_t hash(const void* data, std::int64_t bytes) {
    return XXH3_64bits(data, static_cast<std::size_t>(bytes));
  }
  std::byte* memory() const { return static_cast<std::byte*>(kept_.data()); }

  void give_back() noexcept {
    if (file_) {
      file_.reset();
      try {
        files_.remove(path_);
      } catch (...) {  // its folder is removed with everything inside
      }
    }
    ledger_->remove(Tier::kDisk, MemoryKind::kParameters, std::exchange(counted_, 0));
  }

  // Ends of blocks behind the part go into the landing's room, or a buffer.
  void bring(std::size_t i, const Landing& to) {
    const FileExtent& r = requests_[i];
    const std::int64_t wanted = std::min(r.bytes, to.bytes.bytes() - r.at);
    if (states_[i] == State::kZero) return zero_request(r.at, wanted, to, buffers_);
    const bool direct = to.memory && r.bytes <= to.bytes.bytes() - r.at &&
                        reinterpret_cast<std::uintptr_t>(to.memory + r.at) % kDiskBlock == 0;
    if (direct) {
      file_->read(to.memory + r.at, r.bytes, r.offset);
      return verify(i, to.memory + r.at);
    }
    const RequestBuffers::Loan buffer(buffers_);
    file_->read(buffer.data(), r.bytes, r.offset);
    verify(i, buffer.data());
    if (to.memory)
      std::memcpy(to.memory + r.at, buffer.data(), static_cast<std::size_t>(wanted));
    else
      to.device->upload(buffer.data(), to.bytes.elements_at(r.at, {wanted}));
  }
  void verify(std::size_t i, const std::byte* data) {
    if (states_[i] != State::kWritten) return;
    const FileExtent& r = requests_[i];
    check(hash(data, r.bytes) == hashes_[i], "read ", path_, ": the ", r.bytes, " bytes at offset ",
          r.offset, " are not those that were written: the disk did not keep them");
    states_[i] = State::kVerified;
  }

  template <typename Visit>
  void each(std::size_t part, std::int64_t at, std::int64_t bytes, const Visit& visit) {
    for (std::int64_t done = 0; done < bytes;) {
      const std::size_t i = first_[part] + static_cast<std::size_t>((at + done) / kRequestBytes);
      keep(i);
      const std::int64_t inside = at + done - requests_[i].at;
      const std::int64_t some = std::min(bytes - done, kRequestBytes - inside);
      visit(memory() + inside, done, some);
      done += some;
    }
  }
  void keep(std::size_t i) {
    if (at_ == i) return;
    flush();
    at_ = kNone;
    const FileExtent& r = requests_[i];
    if (states_[i] == State::kZero) {
      std::memset(memory(), 0, static_cast<std::size_t>(r.bytes));
    } else {
      file_->read(memory(), r.bytes, r.offset);
      verify(i, memory());
    }
    at_ = i;
  }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  Files& files_;
  std::shared_ptr<MemoryLedger> ledger_;
  std::vector<FileExtent> requests_;
  std::vector<std::size_t> first_;  // of each part, and their number
  std::vector<std::uint64_t> hashes_;
  std::vector<std::atomic<State>> states_;
  std::int64_t bytes_ = 0, counted_ = 0;
  std::string path_;
  std::unique_ptr<File> file_;
  Tensor kept_;  // request at_
  std::size_t at_ = kNone;
  bool dirty_ = false;
};

}  // namespace

std::unique_ptr<PartSource> parts_in_memory(const std::vector<std::int64_t>& sizes,
                                            std::shared_ptr<MemoryLedger> ledger, IoPool& pool) {
  return std::make_unique<MemoryParts>(sizes, ledger, pool);
}

std::unique_ptr<PartSource> parts_in_copy(const std::vector<std::int64_t>& sizes,
                                          std::shared_ptr<MemoryLedger> ledger,
                                          const ScratchFolder& folder, IoPool& pool) {
  return std::make_unique<CopiedParts>(sizes, std::move(ledger), folder, pool);
}

std::unique_ptr<PartSource> parts_in_files(const std::vector<std::int64_t>& sizes,
                                           std::vector<std::vector<FileExtent>> extents,
                                           const std::vector<std::string>& paths, Files& files,
                                           std::shared_ptr<MemoryLedger> ledger, IoPool& pool) {
  return std::make_unique<ExtentParts>(sizes, std::move(extents), paths, files, ledger, pool);
}

}  // namespace trireme
