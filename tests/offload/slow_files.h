// Files whose transfers take their time: each gives other threads a seeded number of turns before
// and after, so that requests end in many orders without anybody sleeping.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/base/random.h"
#include "tests/support/passed_files.h"

namespace trireme::test {

class SlowFiles final : public testing::PassedFiles {
 public:
  explicit SlowFiles(std::uint64_t seed) : PassedFiles(real_files()), key_(key_from_seed(seed)) {}

  Outcome raw_open(const std::string& path, OpenMode mode, std::unique_ptr<File>& into) override {
    std::unique_ptr<File> quick;
    const Outcome outcome = inner().raw_open(path, mode, quick);
    if (outcome.error == 0) into = std::make_unique<Slow>(*this, std::move(quick));
    return outcome;
  }

 private:
  // Most calls are quick; some last for hundreds of turns.
  void dawdle() {
    const std::uint32_t word = random_word(key_, calls_++);
    const std::uint32_t turns = word % 4 == 0 ? word / 4 % 400 : word / 4 % 4;
    for (std::uint32_t i = 0; i < turns; ++i) std::this_thread::yield();
  }

  class Slow final : public File {
   public:
    Slow(SlowFiles& owner, std::unique_ptr<File> inner)
        : File(inner->path()), owner_(owner), inner_(std::move(inner)) {}
    bool direct() const override { return inner_->direct(); }
    Outcome raw_read(void* into, std::int64_t bytes, std::int64_t offset) override {
      owner_.dawdle();
      const Outcome outcome = inner_->raw_read(into, bytes, offset);
      owner_.dawdle();
      return outcome;
    }
    Outcome raw_write(const void* from, std::int64_t bytes, std::int64_t offset) override {
      owner_.dawdle();
      const Outcome outcome = inner_->raw_write(from, bytes, offset);
      owner_.dawdle();
      return outcome;
    }
    Outcome raw_append(const void* from, std::int64_t bytes) override {
      return inner_->raw_append(from, bytes);
    }
    Outcome raw_size() override { return inner_->raw_size(); }
    Outcome raw_truncate(std::int64_t bytes) override { return inner_->raw_truncate(bytes); }
    Outcome raw_sync() override { return inner_->raw_sync(); }
    Outcome raw_preallocate(std::int64_t bytes) override { return inner_->raw_preallocate(bytes); }
    Outcome raw_map(std::int64_t offset, std::int64_t bytes,
                    std::unique_ptr<Mapping>& into) override {
      return inner_->raw_map(offset, bytes, into);
    }
    Outcome raw_close() override { return inner_->raw_close(); }

   private:
    SlowFiles& owner_;
    std::unique_ptr<File> inner_;
  };

  RngKey key_;
  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace trireme::test
