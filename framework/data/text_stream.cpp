#include "framework/data/text_stream.h"

#include <algorithm>
#include <array>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 20;  // bytes
// Beyond so many bytes, a text that packs that well is a bomb.
constexpr std::int64_t kBombBytes = std::int64_t{64} << 20, kBombRatio = 1000;

struct Foreign {
  std::string_view begin, name, advice;
};
constexpr std::array<Foreign, 4> kForeign{{
    {"\xfd"
     "7zXZ",
     "xz", "unpack it (xz -d) or pack it with zstd or gzip"},
    {"BZh", "bzip2", "unpack it (bunzip2) or pack it with zstd or gzip"},
    {"PK\x03\x04", "zip", "unpack it first"},
    {"PAR1", "Parquet",
     "make JSON lines of it: python3 -c \"import pandas, sys; pandas.read_parquet(sys.argv[1])"
     ".to_json(sys.argv[2], orient='records', lines=True)\" FILE OUT.jsonl"},
}};

std::unique_ptr<File> open_text(Files& files, const std::string& path) {
  const FileStatus status = files.status(path);
  check(status.kind != FileKind::kMissing, "text ", path, " does not exist");
  check(status.kind != FileKind::kDirectory, "text ", path, " is a directory, not a file");
  check(status.kind == FileKind::kFile, "text ", path, " is not a regular file");
  auto file = files.open(path, OpenMode::kRead);
  check(file->size() > 0, "text ", path, " is empty");
  return file;
}

}  // namespace

TextStream::TextStream(Files& files, const std::string& path)
    : file_(open_text(files, path)),
      buffer_(static_cast<std::size_t>(kPiece), '\0'),
      file_bytes_(file_->size()) {
  refuse_foreign();
  std::string begin(4, '\0');
  begin.resize(static_cast<std::size_t>(file_->read_some(begin.data(), 4, 0)));
  unpacker_ = unpacker_of(begin, path, [this](char* to, std::int64_t room) {
    const std::int64_t got = file_->read_some(to, room, file_read_);
    file_read_ += got;
    return got;
  });
}

void TextStream::refuse_foreign() const {
  std::string begin(8, '\0');
  begin.resize(static_cast<std::size_t>(file_->read_some(begin.data(), 8, 0)));
  for (const Foreign& foreign : kForeign)
    check(!begin.starts_with(foreign.begin), "text ", path(), " is ", foreign.name,
          ", which is not read; ", foreign.advice);
  for (const std::string_view end : {".csv", ".tsv"})
    check(!path().ends_with(end), "text ", path(), " is a table (", end,
          "), which is not read; make JSON lines of it, or call it .txt to train on it as it is");
}

std::int64_t TextStream::fill() {
  if (unpacker_) {
    const std::int64_t got = unpacker_->unpack(buffer_.data(), kPiece);
    check(text_bytes_ + got <= std::max(kBombBytes, file_read_ * kBombRatio), "text ", path(),
          " unpacks to more than ", kBombRatio, " times its size (", text_bytes_ + got,
          " bytes out of ", file_read_, " so far), as no text does; unpack it first to use it");
    return got;
  }
  const std::int64_t got = file_->read_some(buffer_.data(), kPiece, file_read_);
  file_read_ += got;
  return got;
}

std::string_view TextStream::next() {
  const std::int64_t got = fill();
  const std::string_view piece(buffer_.data(), static_cast<std::size_t>(got));
  const std::size_t nul = piece.find('\0');
  if (nul != std::string_view::npos)
    fail("text ", path(), " is not text: a NUL byte at offset ",
         text_bytes_ + static_cast<std::int64_t>(nul), " (line ",
         lines_ + 1 +
             std::count(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(nul), '\n'),
         ")");
  hash_.update(piece.data(), got);
  text_bytes_ += got;
  lines_ += std::count(piece.begin(), piece.end(), '\n');
  return piece;
}

}  // namespace trireme
