#include <zstd.h>
#include <zstd_errors.h>

#include <new>

#include "framework/base/error.h"
#include "framework/data/unpacker.h"

namespace trireme {

namespace {

constexpr int kWindowLog = 27;  // 128 MiB

struct FreeStream {
  void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
};

class ZstdUnpacker : public Unpacker {
 public:
  ZstdUnpacker(const std::string& name, ReadPacked read)
      : name_(name), read_(std::move(read)), stream_(ZSTD_createDStream()) {
    if (!stream_) throw std::bad_alloc();
    judge(ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kWindowLog));
  }

  std::int64_t unpack(char* to, std::int64_t room) override {
    ZSTD_outBuffer out{to, static_cast<std::size_t>(room), 0};
    while (out.pos < out.size) {
      bool ended = false;
      if (in_.pos == in_.size) {
        const std::int64_t got = read_(packed_.data(), std::ssize(packed_));
        in_ = {packed_.data(), static_cast<std::size_t>(got), 0};
        ended = got == 0;
        if (ended && between_) break;
      }
      // Without bytes, too: the stream may hold what had no room before.
      const std::size_t written = out.pos;
      const std::size_t status = ZSTD_decompressStream(stream_.get(), &out, &in_);
      judge(status);
      between_ = status == 0;
      check(!ended || between_ || out.pos > written, "text ", name_,
            " is cut off: its zstd data has no end");
    }
    return static_cast<std::int64_t>(out.pos);
  }

 private:
  void judge(std::size_t status) const {
    if (ZSTD_isError(status) == 0) return;
    const ZSTD_ErrorCode code = ZSTD_getErrorCode(status);
    if (code == ZSTD_error_memory_allocation) throw std::bad_alloc();
    check(code != ZSTD_error_frameParameter_windowTooLarge, "text ", name_,
          " is packed with a zstd window above 128 MiB; unpack it first (zstd -d --long=31)");
    check(code != ZSTD_error_dictionary_wrong, "text ", name_,
          " is packed with a zstd dictionary, which is not read; unpack it first (zstd -d -D)");
    fail("text ", name_, " is damaged zstd: ", ZSTD_getErrorName(status));
  }

  const std::string name_;
  const ReadPacked read_;
  const std::unique_ptr<ZSTD_DStream, FreeStream> stream_;
  std::string packed_ = std::string(1 << 17, '\0');
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool between_ = true;  // frames of the file: here it may end
};

}  // namespace

std::unique_ptr<Unpacker> zstd_unpacker(const std::string& name, ReadPacked read) {
  return std::make_unique<ZstdUnpacker>(name, std::move(read));
}

}  // namespace trireme
