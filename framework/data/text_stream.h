// A file of text, piece by piece: as it is, or packed by gzip or zstd.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "framework/base/files.h"
#include "framework/base/storage/content_hash.h"
#include "framework/data/unpacker.h"

namespace trireme {

class TextStream {
 public:
  // Refuses, with a sentence, what is not text: missing, a directory, empty, and packed or tabular
  // formats that are not read (xz, bzip2, zip, parquet, csv).
  TextStream(Files& files, const std::string& path);
  TextStream(const TextStream&) = delete;
  TextStream& operator=(const TextStream&) = delete;

  // The next part of the text, at most 1 MiB; empty at its end. Valid until the next call. Error
  // for a NUL byte (with offset and line), for damaged packing, and for what unpacks to more than
  // 1,000 times its size (beyond 64 MiB).
  std::string_view next();

  const std::string& path() const { return file_->path(); }
  std::int64_t file_bytes() const { return file_bytes_; }  // of the file as it lies there
  std::int64_t file_read() const { return file_read_; }    // of them, so far
  std::int64_t text_bytes() const { return text_bytes_; }  // so far
  std::string hash() const { return hash_.hex(); }         // XXH3-128 of the text so far

 private:
  void refuse_foreign() const;
  std::int64_t fill();

  std::unique_ptr<File> file_;
  std::unique_ptr<Unpacker> unpacker_;  // null: as it is
  std::string buffer_;
  ContentHash hash_;
  std::int64_t file_bytes_ = 0, file_read_ = 0, text_bytes_ = 0, lines_ = 0;
};

}  // namespace trireme
