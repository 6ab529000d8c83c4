#include <zlib.h>

#include "framework/base/error.h"
#include "framework/data/unpacker.h"

namespace trireme {

namespace {

class GzipUnpacker : public Unpacker {
 public:
  GzipUnpacker(const std::string& name, ReadPacked read) : name_(name), read_(std::move(read)) {
    constexpr int kGzip = 15 + 16;  // the largest window, and a gzip header
    check(inflateInit2(&stream_, kGzip) == Z_OK, "gzip: zlib refuses to start");
  }
  ~GzipUnpacker() override { inflateEnd(&stream_); }
  GzipUnpacker(const GzipUnpacker&) = delete;
  GzipUnpacker& operator=(const GzipUnpacker&) = delete;

  std::int64_t unpack(char* to, std::int64_t room) override {
    z_stream& z = stream_;
    z.next_out = reinterpret_cast<Bytef*>(to);
    z.avail_out = static_cast<uInt>(room);
    while (z.avail_out > 0) {
      if (z.avail_in == 0) {
        const std::int64_t got = read_(packed_.data(), std::ssize(packed_));
        z.next_in = reinterpret_cast<Bytef*>(packed_.data());
        z.avail_in = static_cast<uInt>(got);
        check(got > 0 || between_, "text ", name_, " is cut off: its gzip data has no end");
        if (got == 0) break;
      }
      if (between_) inflateReset(&z);
      between_ = false;
      const int status = inflate(&z, Z_NO_FLUSH);
      check(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR, "text ", name_,
            " is damaged gzip: ", z.msg != nullptr ? z.msg : "it does not unpack");
      between_ = status == Z_STREAM_END;
    }
    return room - static_cast<std::int64_t>(z.avail_out);
  }

 private:
  const std::string name_;
  const ReadPacked read_;
  z_stream stream_{};
  std::string packed_ = std::string(1 << 16, '\0');
  bool between_ = true;  // members of the file: here it may end
};

}  // namespace

std::unique_ptr<Unpacker> gzip_unpacker(const std::string& name, ReadPacked read) {
  return std::make_unique<GzipUnpacker>(name, std::move(read));
}

std::unique_ptr<Unpacker> unpacker_of(std::string_view begin, const std::string& name,
                                      ReadPacked read) {
  if (begin.starts_with("\x1f\x8b")) return gzip_unpacker(name, std::move(read));
  // A frame, or one to be skipped, with which parallel packers begin.
  const bool skippable = begin.size() >= 4 && begin.substr(1, 3) == "\x2a\x4d\x18" &&
                         (static_cast<unsigned char>(begin[0]) & 0xF0U) == 0x50U;
  if (begin.starts_with("\x28\xb5\x2f\xfd") || skippable)
    return zstd_unpacker(name, std::move(read));
  return nullptr;
}

}  // namespace trireme
