#include "framework/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "framework/base/checked.h"
#include "framework/base/error.h"
#include "framework/base/storage/content_hash.h"
#include "framework/checkpoint/cover.h"
#include "framework/checkpoint/hdf5_layout.h"
#include "framework/checkpoint/rest_hash.h"
#include "framework/checkpoint/write_behind.h"

namespace trireme {

namespace {

constexpr std::int64_t kAlignment = 4096;  // of pieces of at least so many bytes

std::int64_t bytes_of(const Piece& piece) {
  return piece.at.elements() * size_of(piece.array.dtype);
}

void check_pieces(const std::vector<Piece>& pieces, const std::string& path) {
  std::map<ArrayName, std::vector<const Piece*>> arrays;
  for (const Piece& piece : pieces) {
    check_piece(piece, path);
    arrays[piece.array.name].push_back(&piece);
  }
  for (const auto& [name, parts] : arrays) {
    std::vector<Rectangle> rectangles;
    for (const Piece* part : parts) {
      rectangles.push_back(part->at);
      check(part->array == parts[0]->array, path, ": ", describe(name),
            " is given with two shapes or types: ", parts[0]->array.shape, " ",
            name_of(parts[0]->array.dtype), " and ", part->array.shape, " ",
            name_of(part->array.dtype));
    }
    if (const auto twice = overlap(rectangles))
      fail(path, ": ", describe(name), ": row ", twice->row, ", column ", twice->column,
           " is in two pieces");
  }
}

}  // namespace

struct CheckpointWriter::Impl {
  // A block of which the first `filled` bytes are written.
  struct Block {
    std::int64_t filled = 0;
    BlockHash hash;
  };
  struct Progress {
    std::map<std::int64_t, Block>
        open;  // by number; while a thread works on one, it is not in here
    std::vector<bool> begun, done;
  };

  Impl(Files& all, std::string where) : files(all), path(std::move(where)) {}
  ~Impl() {
    if (finished) return;
    try {
      behind.reset();
      file.reset();
      files.remove(path);
    } catch (...) {
      // An error is on its way already, or nobody waits for one; the file is rubbish without
      // manifest.
    }
  }

  void create(std::vector<Piece> pieces);
  // Index in `stored.pieces`; throws unless these elements are inside the piece.
  std::size_t piece_of(std::size_t index, std::int64_t begin, std::int64_t count) const;
  void write_whole_block(std::size_t index, std::int64_t block, std::int64_t bytes,
                         const Fill& fill);
  Block take(std::size_t index, std::int64_t block, std::int64_t within);
  void give_back(std::size_t index, std::int64_t block, Block state);
  void settle(std::size_t index, std::int64_t block, std::uint64_t hash);
  void check_complete() const;

  Files& files;
  std::string path;
  std::unique_ptr<File> file;
  std::unique_ptr<WriteBehind> behind;  // where transfers go past the page cache
  bool finished = false;
  StoredFile stored;
  std::vector<std::size_t>
      stored_index;  // of the pieces as given; those without elements have none
  std::mutex mutex;  // guards progress and hashes
  std::vector<Progress> progress;
};

void CheckpointWriter::Impl::create(std::vector<Piece> pieces) {
  const std::int64_t needed = bytes_needed(pieces);
  const std::int64_t free = files.free_space(folder_of(path));
  check(needed <= free, "write ", path, ": it needs ", needed, " bytes, the disk has ", free,
        " free");
  file = files.open(path, OpenMode::kCreateDirect);
  const std::vector<std::int64_t> offsets = write_piece_datasets(*file, pieces);
  stored.bytes = file->size();
  file->preallocate(stored.bytes);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    stored_index.push_back(stored.pieces.size());
    if (offsets[i] < 0) continue;
    const auto blocks =
        static_cast<std::size_t>((bytes_of(pieces[i]) + kHashBlock - 1) / kHashBlock);
    check(bytes_of(pieces[i]) <= stored.bytes - offsets[i], "write ", path, ": HDF5 placed ",
          describe(pieces[i].array.name), " past the end of the file");
    progress.push_back({{}, std::vector<bool>(blocks), std::vector<bool>(blocks)});
    stored.pieces.push_back(
        {pieces[i], dataset_path(pieces[i]), offsets[i], std::vector<std::uint64_t>(blocks)});
  }
  // Now that these bytes were just written: later the disk would have to be asked for them.
  stored.rest_hash = rest_hash(*file, stored);
  if (file->direct()) behind = std::make_unique<WriteBehind>(*file, kHashBlock);
}

std::size_t CheckpointWriter::Impl::piece_of(std::size_t index, std::int64_t begin,
                                             std::int64_t count) const {
  check(index < stored_index.size(), "write ", path, ": it has ", stored_index.size(),
        " pieces, none has the number ", index);
  const std::size_t found = stored_index[index];
  if (count == 0) return found;
  const Piece& piece = stored.pieces[found].piece;
  const std::int64_t elements = piece.at.elements();
  check(begin >= 0 && count > 0 && begin <= elements && count <= elements - begin, "write ", path,
        ": ", describe(piece.array.name), ": elements ", begin, " to ", begin + count,
        " are not inside a piece of ", elements);
  return found;
}

void CheckpointWriter::Impl::write_whole_block(std::size_t index, std::int64_t block,
                                               std::int64_t bytes, const Fill& fill) {
  const std::int64_t offset = stored.pieces[index].offset + block * kHashBlock;
  if (behind && bytes >= kAlignment)
    return behind->write(bytes, offset, fill,
                         [this, index, block](std::uint64_t hash) { settle(index, block, hash); });
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
  fill(memory.get());
  if (behind)
    behind->write_late(memory.get(), bytes, offset);
  else
    file->write(memory.get(), bytes, offset);
  settle(index, block, block_hash(memory.get(), bytes));
}

CheckpointWriter::Impl::Block CheckpointWriter::Impl::take(std::size_t index, std::int64_t block,
                                                           std::int64_t within) {
  const std::lock_guard lock(mutex);
  Progress& piece = progress[index];
  const auto number = static_cast<std::size_t>(block);
  if (within == 0 && !piece.begun[number]) {
    piece.begun[number] = true;
    return {};
  }
  const auto found = piece.open.find(block);
  const std::int64_t filled = found == piece.open.end() ? -1 : found->second.filled;
  check(filled == within, "write ", path, ": ", describe(stored.pieces[index].piece.array.name),
        ": byte ", block * kHashBlock + within,
        " comes twice, or before the bytes of its block that precede it");
  Block state = std::move(found->second);
  piece.open.erase(found);
  return state;
}

void CheckpointWriter::Impl::give_back(std::size_t index, std::int64_t block, Block state) {
  const std::lock_guard lock(mutex);
  progress[index].open.emplace(block, std::move(state));
}

void CheckpointWriter::Impl::settle(std::size_t index, std::int64_t block, std::uint64_t hash) {
  const std::lock_guard lock(mutex);
  stored.pieces[index].hashes[static_cast<std::size_t>(block)] = hash;
  progress[index].done[static_cast<std::size_t>(block)] = true;
}

void CheckpointWriter::Impl::check_complete() const {
  for (std::size_t i = 0; i < progress.size(); ++i) {
    const auto& done = progress[i].done;
    const auto missing = std::find(done.begin(), done.end(), false);
    check(missing == done.end(), "write ", path, ": ", describe(stored.pieces[i].piece.array.name),
          ": not all of its bytes from ", (missing - done.begin()) * kHashBlock,
          " on were written");
  }
}

CheckpointWriter::CheckpointWriter(Files& files, const std::string& folder, const std::string& name,
                                   std::vector<Piece> pieces)
    : impl_(std::make_unique<Impl>(files, path_join(folder, name))) {
  impl_->finished = true;  // nothing to remove yet
  check(is_plain_name(name), "write ", impl_->path, ": \"", name, "\" is no plain file name");
  check_pieces(pieces, impl_->path);
  check(!files.exists(impl_->path), "write ", impl_->path, ": it is there already");
  impl_->finished = false;
  impl_->stored.name = name;
  impl_->create(std::move(pieces));
}

CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::fill(std::size_t index, std::int64_t begin, std::int64_t count,
                            const Fill& fill) {
  const std::size_t stored = impl_->piece_of(index, begin, count);
  if (count == 0) return;
  const Piece& piece = impl_->stored.pieces[stored].piece;
  const std::int64_t per_block = kHashBlock / size_of(piece.array.dtype);
  check(begin % per_block == 0 && count == std::min(per_block, piece.at.elements() - begin),
        "write ", impl_->path, ": ", describe(piece.array.name), ": elements ", begin, " to ",
        begin + count, " are no whole block");
  const std::int64_t block = begin / per_block;
  impl_->take(stored, block, 0);
  impl_->write_whole_block(stored, block, count * size_of(piece.array.dtype), fill);
}

void CheckpointWriter::write(std::size_t index, std::int64_t begin, std::int64_t count,
                             const void* data) {
  Impl& impl = *impl_;
  const std::size_t stored = impl.piece_of(index, begin, count);
  if (count == 0) return;
  const StoredPiece& to = impl.stored.pieces[stored];
  const std::int64_t width = size_of(to.piece.array.dtype);
  const auto* bytes = static_cast<const std::byte*>(data);
  const std::int64_t all = to.piece.at.elements() * width;
  const std::int64_t end = (begin + count) * width;
  for (std::int64_t at = begin * width; at < end;) {
    const std::int64_t block = at / kHashBlock;
    const std::int64_t block_begin = block * kHashBlock;
    const std::int64_t block_end = std::min(all, block_begin + kHashBlock);
    const std::int64_t part = std::min(end, block_end) - at;
    Impl::Block state = impl.take(stored, block, at - block_begin);
    if (part == block_end - block_begin) {
      impl.write_whole_block(stored, block, part, [&](void* into) {
        std::memcpy(into, bytes, static_cast<std::size_t>(part));
      });
    } else {
      impl.file->write(bytes, part, to.offset + at);
      state.hash.update(bytes, part);
      state.filled += part;
      if (block_begin + state.filled == block_end)
        impl.settle(stored, block, state.hash.value());
      else
        impl.give_back(stored, block, std::move(state));
    }
    bytes += part;
    at += part;
  }
}

StoredFile CheckpointWriter::finish() {
  if (impl_->behind) impl_->behind->drain();
  impl_->check_complete();
  impl_->behind.reset();
  impl_->file->sync();
  impl_->file->close();
  impl_->finished = true;
  return impl_->stored;
}

std::int64_t CheckpointWriter::bytes_needed(const std::vector<Piece>& pieces) {
  std::int64_t bytes = structure_bytes(pieces);
  for (const Piece& piece : pieces) {
    const std::int64_t own = bytes_of(piece);
    const std::int64_t lost = own < kAlignment ? 0 : kAlignment - 1;
    bytes = checked_add(bytes, checked_add(own, lost, piece.array.name.tensor),
                        "bytes of a checkpoint's file");
  }
  return bytes;
}

}  // namespace trireme
