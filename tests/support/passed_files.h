// Files that pass every call on to others: a decorator overrides what it changes.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/files.h"

namespace trireme::testing {

class PassedFiles : public Files {
 public:
  explicit PassedFiles(std::shared_ptr<Files> inner) : inner_(std::move(inner)) {}

  Outcome raw_open(const std::string& path, OpenMode mode, std::unique_ptr<File>& into) override {
    return inner_->raw_open(path, mode, into);
  }
  Outcome raw_rename(const std::string& from, const std::string& to) override {
    return inner_->raw_rename(from, to);
  }
  Outcome raw_remove(const std::string& path) override { return inner_->raw_remove(path); }
  Outcome raw_make_directory(const std::string& path) override {
    return inner_->raw_make_directory(path);
  }
  Outcome raw_make_private_directory(const std::string& path) override {
    return inner_->raw_make_private_directory(path);
  }
  Outcome raw_list(const std::string& path, std::vector<std::string>& into) override {
    return inner_->raw_list(path, into);
  }
  Outcome raw_status(const std::string& path, bool follow, FileStatus& into) override {
    return inner_->raw_status(path, follow, into);
  }
  Outcome raw_sync_directory(const std::string& path) override {
    return inner_->raw_sync_directory(path);
  }
  Outcome raw_free_space(const std::string& path) override { return inner_->raw_free_space(path); }
  std::uint64_t raw_random() override { return inner_->raw_random(); }

 protected:
  Files& inner() { return *inner_; }

 private:
  std::shared_ptr<Files> inner_;
};

}  // namespace trireme::testing
