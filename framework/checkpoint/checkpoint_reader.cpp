#include "framework/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/storage/content_hash.h"
#include "framework/checkpoint/convert.h"
#include "framework/checkpoint/manifest_checks.h"
#include "framework/checkpoint/read_team.h"
#include "framework/checkpoint/rest_hash.h"

namespace trireme {

namespace {

// What is wrong with a file at first sight; "" if nothing.
std::string problem_of(Files& files, const std::string& folder, const StoredFile& stored) {
  const std::string path = path_join(folder, stored.name);
  try {
    const FileStatus status = files.status(path);
    if (status.kind == FileKind::kMissing) return join("checkpoint ", path, " is missing");
    if (status.kind != FileKind::kFile) return join("checkpoint ", path, " is not a file");
    if (status.bytes != stored.bytes)
      return join("checkpoint ", path, " is damaged: it has ", status.bytes,
                  " bytes and should have ", stored.bytes);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// An Error of the files on the way is damage to whoever has an older checkpoint.
template <typename Work>
void calling_it_damage(const Work& work) {
  try {
    work();
  } catch (const DamagedCheckpoint&) {
    throw;
  } catch (const Error& error) {
    throw DamagedCheckpoint(error.what());
  }
}

constexpr std::int64_t kPage = 4096;  // what a transfer past the page cache must be a multiple of

struct FreePages {
  void operator()(std::byte* pages) const { ::operator delete (pages, std::align_val_t{kPage}); }
};
using Buffer = std::unique_ptr<std::byte, FreePages>;

Buffer page_buffer(std::int64_t bytes) {
  return Buffer(static_cast<std::byte*>(
      ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{kPage})));
}

// A window of less than two pages, which begins with a page, and copies its part of it.
void read_in_window(File& file, std::byte* into, std::int64_t bytes, std::int64_t offset) {
  alignas(kPage) std::byte window[2 * kPage];
  const std::int64_t lead = offset % kPage;
  if (file.read_some(window, 2 * kPage, offset - lead) < lead + bytes)
    return file.read(into, bytes, offset);  // says where the file ends
  std::memcpy(into, window + lead, static_cast<std::size_t>(bytes));
}

// Whole pages go straight to their place, what is left behind them through a window, and so does
// what is smaller than a page. Other parts that begin inside a page go through the page cache.
void read_pages(File& file, std::byte* into, std::int64_t bytes, std::int64_t offset) {
  if (bytes < kPage) return read_in_window(file, into, bytes, offset);
  const std::int64_t whole = offset % kPage == 0 ? bytes / kPage * kPage : bytes;
  file.read(into, whole, offset);
  if (whole < bytes) read_in_window(file, into + whole, bytes - whole, offset + whole);
}

// Elements of a part of a piece, as they follow each other in the piece's row-major order.
struct Walk {
  std::int64_t width;       // of the piece, in elements
  std::int64_t begin, end;  // columns of the part

  // The first element of the part's columns at or after `element`.
  std::int64_t from(std::int64_t element) const {
    const std::int64_t row = element / width, column = element % width;
    if (column < begin) return row * width + begin;
    return column < end ? element : (row + 1) * width + begin;
  }
  // One past the last element of the part's columns before `element`.
  std::int64_t until(std::int64_t element) const {
    const std::int64_t row = (element - 1) / width, column = (element - 1) % width;
    if (column >= end) return row * width + end;
    return column >= begin ? element : (row - 1) * width + end;
  }
};

}  // namespace

struct CheckpointReader::Impl {
  struct Place {
    const StoredFile* file;
    const StoredPiece* stored;
    std::size_t first_block;  // in `verified`
  };
  struct Entry {
    LogicalArray array;
    std::vector<Place> places;
  };
  struct Request {
    Rectangle at;
    DType dtype;
    std::byte* out;
  };

  Impl(Files& all, std::string where, Manifest content, int threads = 1);

  const Entry& entry(const ArrayName& name) const;
  // The same one for all who read it at a time.
  std::shared_ptr<File> open(const StoredFile& file) const;
  void expect_files() const;  // all there, of their sizes
  std::string damage(const Place& place, std::int64_t block) const;
  // Is the block what was saved?
  bool read_block(File& file, const Place& place, std::int64_t block, std::byte* into) const;
  struct Share;
  ReadTeam::Work start_part(const Place& place, const Request& request) const;
  // Which places are in a file, in their order: so that disks read ahead.
  std::map<const StoredFile*, std::vector<Place>> places_by_file() const;
  enum class Depth : std::uint8_t { kAll, kGlance };
  std::vector<std::string> verify_files(Depth depth) const;
  void verify_file(const StoredFile& stored, const std::vector<Place>& places,
                   std::vector<std::string>& problems) const;
  void verify_unread(const StoredFile& stored, const std::vector<Place>& places) const;

  Files& files;
  std::string folder;
  Manifest manifest;
  std::map<ArrayName, Entry> arrays;
  mutable std::vector<std::atomic<bool>> verified;  // blocks that have been read and were good
  mutable std::mutex opening;
  mutable std::map<const StoredFile*, std::weak_ptr<File>> opened;
  mutable ReadTeam team;
};

std::shared_ptr<File> CheckpointReader::Impl::open(const StoredFile& file) const {
  const std::scoped_lock lock(opening);
  std::weak_ptr<File>& known = opened[&file];
  std::shared_ptr<File> found = known.lock();
  if (!found) {
    found = files.open(path_join(folder, file.name), OpenMode::kReadDirect);
    known = found;
  }
  return found;
}

CheckpointReader::Impl::Impl(Files& all, std::string where, Manifest content, int threads)
    : files(all), folder(std::move(where)), manifest(std::move(content)), team(threads - 1) {
  std::size_t blocks = 0;
  for (const StoredFile& file : manifest.files)
    for (const StoredPiece& stored : file.pieces) {
      Entry& added = arrays[stored.piece.array.name];
      added.array = stored.piece.array;
      added.places.push_back({&file, &stored, blocks});
      blocks += stored.hashes.size();
    }
  verified = std::vector<std::atomic<bool>>(blocks);
}

const CheckpointReader::Impl::Entry& CheckpointReader::Impl::entry(const ArrayName& name) const {
  const auto found = arrays.find(name);
  check(found != arrays.end(), "checkpoint ", folder, " has no ", describe(name));
  return found->second;
}

std::string CheckpointReader::Impl::damage(const Place& place, std::int64_t block) const {
  const StoredPiece& stored = *place.stored;
  const Rectangle& at = stored.piece.at;
  const std::int64_t begin = stored.offset + block * kHashBlock;
  const std::int64_t end = std::min(stored.offset + stored_bytes(stored), begin + kHashBlock);
  return join("checkpoint ", path_join(folder, place.file->name),
              " is damaged: ", describe(stored.piece.array.name), ", ", at.rows, " x ", at.columns,
              " elements at row ", at.row, ", column ", at.column, ": bytes ", begin, " to ",
              end - 1, " of the file are not what was saved");
}

bool CheckpointReader::Impl::read_block(File& file, const Place& place, std::int64_t block,
                                        std::byte* into) const {
  const std::int64_t begin = block * kHashBlock;
  const std::int64_t bytes = std::min(kHashBlock, stored_bytes(*place.stored) - begin);
  const auto number = static_cast<std::size_t>(block);
  read_pages(file, into, bytes, place.stored->offset + begin);
  const bool good = block_hash(into, bytes) == place.stored->hashes[number];
  if (good) verified[place.first_block + number] = true;
  return good;
}

// A request's share of one stored piece, block by block.
struct CheckpointReader::Impl::Share {
  const Impl& reader;
  std::shared_ptr<File> file;
  Place place;
  Request request;
  Rectangle part;
  Convert convert;

  const Rectangle& at() const { return place.stored->piece.at; }
  DType stored() const { return place.stored->piece.array.dtype; }
  std::int64_t per_block() const { return kHashBlock / size_of(stored()); }
  Walk walk() const {
    const std::int64_t begin = part.column - at().column;
    return {at().columns, begin, begin + part.columns};
  }
  // Whole rows of both follow each other without gaps: one run.
  bool flat() const { return part.columns == at().columns && part.columns == request.at.columns; }
  std::int64_t first() const { return (part.row - at().row) * at().columns + walk().begin; }
  std::int64_t last() const {
    return (part.row - at().row + part.rows - 1) * at().columns + walk().end;
  }
  std::byte* place_of(std::int64_t e) const {
    const std::int64_t row = at().row + e / at().columns - request.at.row;
    const std::int64_t column = at().column + e % at().columns - request.at.column;
    return request.out + (row * request.at.columns + column) * size_of(request.dtype);
  }
  void read(std::int64_t block) const;
  void copy(const std::byte* from, std::int64_t base, std::int64_t begin, std::int64_t end) const;
};

void CheckpointReader::Impl::Share::read(std::int64_t block) const {
  const std::int64_t bytes = size_of(stored());
  const std::int64_t block_begin = block * per_block();
  const std::int64_t block_end = std::min(at().elements(), block_begin + per_block());
  const std::int64_t begin = walk().from(std::max(first(), block_begin));
  const std::int64_t end = walk().until(std::min(last(), block_end));
  if (begin >= end) return;
  // A block that is wanted as it lies there goes straight to its place.
  if (flat() && stored() == request.dtype && begin == block_begin && end == block_end) {
    if (!reader.read_block(*file, place, block, place_of(begin)))
      throw DamagedCheckpoint(reader.damage(place, block));
    return;
  }
  const bool known = reader.verified[place.first_block + static_cast<std::size_t>(block)];
  const std::int64_t page = kPage / bytes;
  const std::int64_t from = known ? begin / page * page : block_begin;
  const std::int64_t until = known ? end : block_end;
  const Buffer buffer = page_buffer((until - from) * bytes);
  if (known)
    read_pages(*file, buffer.get(), (until - from) * bytes, place.stored->offset + from * bytes);
  else if (!reader.read_block(*file, place, block, buffer.get()))
    throw DamagedCheckpoint(reader.damage(place, block));
  copy(buffer.get(), from, begin, end);
}

// `from` holds the piece's elements from `base` on.
void CheckpointReader::Impl::Share::copy(const std::byte* from, std::int64_t base,
                                         std::int64_t begin, std::int64_t end) const {
  for (std::int64_t e = begin; e < end;) {
    const std::int64_t run = flat() ? end - e : std::min(end - e, walk().end - e % at().columns);
    convert(from + (e - base) * size_of(stored()), place_of(e), run);
    e = walk().from(e + run);
  }
}

ReadTeam::Work CheckpointReader::Impl::start_part(const Place& place,
                                                  const Request& request) const {
  const StoredPiece& stored = *place.stored;
  const Rectangle part = intersect(stored.piece.at, request.at);
  if (part.elements() == 0) return {};
  const auto share =
      std::make_shared<const Share>(Share{*this, open(*place.file), place, request, part,
                                          converter(stored.piece.array.dtype, request.dtype)});
  const std::int64_t per_block = share->per_block(), first_block = share->first() / per_block;
  return team.start((share->last() + per_block - 1) / per_block - first_block,
                    [share, first_block](std::int64_t i) { share->read(first_block + i); });
}

std::map<const StoredFile*, std::vector<CheckpointReader::Impl::Place>>
CheckpointReader::Impl::places_by_file() const {
  std::map<const StoredFile*, std::vector<Place>> places;
  for (const auto& [name, found] : arrays)
    for (const Place& place : found.places) places[place.file].push_back(place);
  for (auto& [file, in_it] : places)
    std::sort(in_it.begin(), in_it.end(),
              [](const Place& a, const Place& b) { return a.stored->offset < b.stored->offset; });
  return places;
}

std::vector<std::string> CheckpointReader::Impl::verify_files(Depth depth) const {
  std::map<const StoredFile*, std::vector<Place>> places;
  if (depth == Depth::kAll) places = places_by_file();
  std::vector<std::string> problems;
  for (const StoredFile& stored : manifest.files) verify_file(stored, places[&stored], problems);
  return problems;
}

void CheckpointReader::Impl::verify_file(const StoredFile& stored, const std::vector<Place>& places,
                                         std::vector<std::string>& problems) const {
  const std::string path = path_join(folder, stored.name);
  const std::string problem = problem_of(files, folder, stored);
  if (!problem.empty()) {
    problems.push_back(problem);
    return;
  }
  try {
    const auto file = open(stored);
    const Buffer buffer = page_buffer(kHashBlock);
    for (const Place& place : places) {
      const auto blocks = static_cast<std::int64_t>(place.stored->hashes.size());
      std::int64_t block = 0;
      while (block < blocks && read_block(*file, place, block, buffer.get())) ++block;
      if (block < blocks) problems.push_back(damage(place, block));
    }
    if (rest_hash(*file, stored) != stored.rest_hash)
      problems.push_back(
          join("checkpoint ", path,
               " is damaged: bytes that belong to no tensor are not what was saved"));
  } catch (const Error& error) {
    problems.push_back(error.what());
  }
}

void CheckpointReader::Impl::verify_unread(const StoredFile& stored,
                                           const std::vector<Place>& places) const {
  const auto file = open(stored);
  for (const Place& place : places)
    team.run(std::ssize(place.stored->hashes), [&](std::int64_t block) {
      if (verified[place.first_block + static_cast<std::size_t>(block)]) return;
      const Buffer buffer = page_buffer(kHashBlock);
      if (!read_block(*file, place, block, buffer.get()))
        throw DamagedCheckpoint(damage(place, block));
    });
}

CheckpointReader::CheckpointReader(Files& files, const std::string& folder, int threads) {
  calling_it_damage([&] {
    impl_ = std::make_unique<Impl>(files, folder, read_manifest(files, folder), threads);
    impl_->expect_files();
  });
}

CheckpointReader::CheckpointReader(Files& files, const std::string& folder, Manifest manifest)
    : impl_(std::make_unique<Impl>(files, folder, std::move(manifest))) {
  impl_->expect_files();
}

void CheckpointReader::Impl::expect_files() const {
  std::vector<std::string> problems;
  for (const StoredFile& stored : manifest.files) {
    std::string problem = problem_of(files, folder, stored);
    if (!problem.empty()) problems.push_back(std::move(problem));
  }
  if (problems.empty()) return;
  fail(problems[0], problems.size() == 1
                        ? std::string()
                        : join("; ", problems.size() - 1, " more of its files are not whole"));
}

CheckpointReader::~CheckpointReader() = default;

const Manifest& CheckpointReader::manifest() const { return impl_->manifest; }

std::vector<LogicalArray> CheckpointReader::arrays() const {
  std::vector<LogicalArray> all;
  for (const auto& [name, found] : impl_->arrays) all.push_back(found.array);
  return all;
}

bool CheckpointReader::has(const ArrayName& name) const { return impl_->arrays.contains(name); }

void CheckpointReader::expect_shape(const ArrayName& name, const Shape& shape) const {
  const Shape& stored = impl_->entry(name).array.shape;
  check(stored == shape, "checkpoint ", impl_->folder, ": ", describe(name), " has the shape ",
        stored, ", the model wants ", shape);
}

CheckpointReader::Reading CheckpointReader::start_read(const ArrayName& name, const Rectangle& at,
                                                       DType dtype, void* out) const {
  const Impl::Entry& found = impl_->entry(name);
  check_piece({found.array, at}, "checkpoint " + impl_->folder);
  converter(found.array.dtype, dtype);  // throws for the caller's mistake
  const Impl::Request request{at, dtype, static_cast<std::byte*>(out)};
  Reading reading;
  calling_it_damage([&] {
    for (const Impl::Place& place : found.places)
      reading.parts_.push_back(impl_->start_part(place, request));
  });
  return reading;
}

void CheckpointReader::Reading::wait() {
  calling_it_damage([&] {
    for (ReadTeam::Work& part : parts_) part.wait();
  });
}

std::vector<std::string> CheckpointReader::verify() const {
  return impl_->verify_files(Impl::Depth::kAll);
}

void CheckpointReader::verify_unread() const {
  calling_it_damage([&] {
    for (const auto& [file, places] : impl_->places_by_file()) impl_->verify_unread(*file, places);
  });
}

Manifest read_manifest(Files& files, const std::string& folder) {
  const std::string path = path_join(folder, kManifestName);
  check(files.exists(path), "checkpoint ", folder, " has no ", kManifestName,
        ": it was never completed, or is none");
  Manifest manifest = decode_manifest(read_whole(files, path, kLongestManifest), path);
  check_cover(manifest, "checkpoint " + folder);
  return manifest;
}

std::vector<std::string> verify_checkpoint(Files& files, const std::string& folder) {
  using Impl = CheckpointReader::Impl;
  try {
    return Impl(files, folder, read_manifest(files, folder)).verify_files(Impl::Depth::kAll);
  } catch (const Error& error) {
    return {error.what()};
  }
}

std::vector<std::string> glance_at_checkpoint(Files& files, const std::string& folder) {
  using Impl = CheckpointReader::Impl;
  try {
    return Impl(files, folder, read_manifest(files, folder)).verify_files(Impl::Depth::kGlance);
  } catch (const Error& error) {
    return {error.what()};
  }
}

}  // namespace trireme
