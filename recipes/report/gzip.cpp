#include <zlib.h>

#include "framework/base/error.h"
#include "recipes/report/trace.h"

namespace trireme {

std::string gzipped(const std::string& bytes) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16;  // the largest window, with a gzip header
  check(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) ==
            Z_OK,
        "gzip: zlib refuses to start");
  std::string packed(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  int status = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  check(status == Z_STREAM_END, "gzip: zlib ends with status ", status, " for ", bytes.size(),
        " bytes");
  return packed;
}

}  // namespace trireme
