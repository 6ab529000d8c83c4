// Bytes out of a packed file, piece by piece, in bounded memory: gzip (RFC 1952) and zstd
// (RFC 8878), with any number of members or frames behind each other.
//
// Files come from strangers: what is cut off, damaged or asks for too much is an Error that names
// the file. zstd may ask for a window of up to 128 MiB, as `zstd -d` allows without more flags.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace trireme {

class Unpacker {
 public:
  virtual ~Unpacker() = default;
  // Writes up to `room` bytes; fewer only at the end, where it is 0 from then on.
  virtual std::int64_t unpack(char* to, std::int64_t room) = 0;
};

// The next bytes of the packed file; 0 at its end.
using ReadPacked = std::function<std::int64_t(char* to, std::int64_t room)>;

// For a file that begins with `begin` (4 bytes are enough); null if it is not packed in these ways.
// `name` is for sentences.
std::unique_ptr<Unpacker> unpacker_of(std::string_view begin, const std::string& name,
                                      ReadPacked read);

std::unique_ptr<Unpacker> gzip_unpacker(const std::string& name, ReadPacked read);
std::unique_ptr<Unpacker> zstd_unpacker(const std::string& name, ReadPacked read);

}  // namespace trireme
