#include "framework/data/text_stream.h"

#include <zlib.h>

#include <algorithm>
#include <array>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 20;  // bytes

struct Foreign {
  std::string_view begin, name, advice;
};
constexpr std::array<Foreign, 5> kForeign{{
    {"\x28\xb5\x2f\xfd", "zstd", "unpack it (zstd -d) or pack it with gzip"},
    {"\xfd"
     "7zXZ",
     "xz", "unpack it (xz -d) or pack it with gzip"},
    {"BZh", "bzip2", "unpack it (bunzip2) or pack it with gzip"},
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

struct TextStream::Unpacker {
  z_stream stream{};
  std::string packed = std::string(1 << 16, '\0');
  bool between = true;  // members of the file: here it may end

  Unpacker() {
    constexpr int kGzip = 15 + 16;  // the largest window, and a gzip header
    check(inflateInit2(&stream, kGzip) == Z_OK, "gzip: zlib refuses to start");
  }
  ~Unpacker() { inflateEnd(&stream); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;
};

TextStream::TextStream(Files& files, const std::string& path)
    : file_(open_text(files, path)),
      buffer_(static_cast<std::size_t>(kPiece), '\0'),
      file_bytes_(file_->size()) {
  refuse_foreign();
  char begin[2] = {};
  if (file_->read_some(begin, 2, 0) == 2 && begin[0] == '\x1f' && begin[1] == '\x8b')
    unpacker_ = std::make_unique<Unpacker>();
}

TextStream::~TextStream() = default;

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

std::int64_t TextStream::fill_unpacked() {
  z_stream& z = unpacker_->stream;
  z.next_out = reinterpret_cast<Bytef*>(buffer_.data());
  z.avail_out = static_cast<uInt>(kPiece);
  while (z.avail_out > 0) {
    if (z.avail_in == 0) {
      std::string& packed = unpacker_->packed;
      const std::int64_t got = file_->read_some(packed.data(), std::ssize(packed), file_read_);
      file_read_ += got;
      z.next_in = reinterpret_cast<Bytef*>(packed.data());
      z.avail_in = static_cast<uInt>(got);
      check(got > 0 || unpacker_->between, "text ", path(),
            " is cut off: its gzip data has no end");
      if (got == 0) break;
    }
    if (unpacker_->between) inflateReset(&z);
    unpacker_->between = false;
    const int status = inflate(&z, Z_NO_FLUSH);
    check(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR, "text ", path(),
          " is damaged gzip: ", z.msg != nullptr ? z.msg : "it does not unpack");
    unpacker_->between = status == Z_STREAM_END;
  }
  return kPiece - static_cast<std::int64_t>(z.avail_out);
}

std::int64_t TextStream::fill() {
  if (unpacker_) return fill_unpacked();
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
