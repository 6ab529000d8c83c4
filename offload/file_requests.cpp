#include "offload/file_requests.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "framework/base/error.h"
#include "offload/tiled_store.h"

namespace trireme {

namespace {

std::int64_t block_down(std::int64_t at) { return at / kDiskBlock * kDiskBlock; }
std::int64_t block_up(std::int64_t at) { return block_down(at + kDiskBlock - 1); }

std::int64_t phase_of(const FileExtent& e) {
  return ((e.offset - e.at) % kDiskBlock + kDiskBlock) % kDiskBlock;
}

void put(const Landing& to, std::int64_t at, std::int64_t bytes, const std::byte* from) {
  if (to.memory)
    std::memcpy(to.memory + at, from, static_cast<std::size_t>(bytes));
  else
    to.device->upload(from, to.bytes.elements_at(at, {bytes}));
}

}  // namespace

RequestBuffers::RequestBuffers(const std::shared_ptr<MemoryLedger>& ledger, int count)
    : memory_(allocate_on_host(ledger, {count * kBytes}, DType::kU8, MemoryKind::kCommunication)) {
  for (int i = 0; i < count; ++i)
    free_.push_back(static_cast<std::byte*>(memory_.data()) + i * kBytes);
}

// There are as many as threads, so one is always free.
RequestBuffers::Loan::Loan(RequestBuffers& owner) : owner_(owner) {
  const std::scoped_lock lock(owner_.mutex_);
  data_ = owner_.free_.back();
  owner_.free_.pop_back();
}

RequestBuffers::Loan::~Loan() {
  const std::scoped_lock lock(owner_.mutex_);
  owner_.free_.push_back(data_);
}

std::vector<FileExtent> joined(std::vector<FileExtent> extents) {
  std::vector<FileExtent> all;
  for (const FileExtent& e : extents) {
    if (e.bytes == 0) continue;
    FileExtent* const last = all.empty() ? nullptr : &all.back();
    if (last && last->file == e.file && last->offset + last->bytes == e.offset &&
        last->at + last->bytes == e.at)
      last->bytes += e.bytes;
    else
      all.push_back(e);
  }
  return all;
}

std::int64_t best_phase(const std::vector<FileExtent>& extents, std::int64_t unit) {
  std::map<std::int64_t, std::int64_t> bytes;
  for (const FileExtent& e : extents)
    if (phase_of(e) % unit == 0) bytes[phase_of(e)] += e.bytes;
  std::int64_t best = 0, most = 0;
  for (const auto& [phase, count] : bytes)
    if (count > most) best = phase, most = count;
  return best;
}

std::vector<FileExtent> requests_of(const FileExtent& e, std::int64_t phase) {
  std::vector<FileExtent> requests;
  const std::int64_t end = e.offset + e.bytes;
  const bool fits = phase_of(e) == phase;
  for (std::int64_t begin = e.offset; begin < end;) {
    std::int64_t stop = std::min(end, block_down(begin) + kRequestBytes);
    if (fits && begin % kDiskBlock != 0)
      stop = std::min(end, block_up(begin));  // its first blocks need a buffer
    else if (fits && stop % kDiskBlock != 0 && block_down(stop) > begin)
      stop = block_down(stop);  // and so do its last bytes
    requests.push_back({e.file, begin, stop - begin, e.at + begin - e.offset});
    begin = stop;
  }
  return requests;
}

bool in_place(const FileExtent& request, std::int64_t phase) {
  return phase_of(request) == phase && request.offset % kDiskBlock == 0 &&
         request.bytes % kDiskBlock == 0;
}

void read_request(File& file, const FileExtent& r, bool direct, const Landing& to,
                  RequestBuffers& buffers) {
  if (direct && to.memory) return file.read(to.memory + r.at, r.bytes, r.offset);
  const RequestBuffers::Loan buffer(buffers);
  const std::int64_t begin = block_down(r.offset), end = block_up(r.offset + r.bytes);
  // The file may end within the last block.
  const std::int64_t found = file.read_some(buffer.data(), end - begin, begin);
  check(found >= r.offset + r.bytes - begin, "read ", file.path(), ": ", r.bytes,
        " bytes at offset ", r.offset, ": the file ends at ", begin + found,
        "; was it changed while it was in use?");
  put(to, r.at, r.bytes, buffer.data() + (r.offset - begin));
}

void zero_request(std::int64_t at, std::int64_t bytes, const Landing& to, RequestBuffers& buffers) {
  const RequestBuffers::Loan buffer(buffers);
  std::memset(buffer.data(), 0, static_cast<std::size_t>(std::min(bytes, kRequestBytes)));
  for (std::int64_t done = 0; done < bytes; done += kRequestBytes)
    put(to, at + done, std::min(kRequestBytes, bytes - done), buffer.data());
}

}  // namespace trireme
