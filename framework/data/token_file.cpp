#include "framework/data/token_file.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "framework/base/error.h"

namespace trireme {

namespace {

static_assert(std::endian::native == std::endian::little, "tokens are mapped as they are stored");

constexpr std::int64_t kPiece = std::int64_t{1} << 20;  // bytes

// The tokens' bytes need not be aligned, so each is copied out.
template <typename Stored>
void widen(const std::byte* from, std::int64_t count, std::int32_t* ids) {
  for (std::int64_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, from + i * static_cast<std::int64_t>(sizeof value), sizeof value);
    ids[i] = static_cast<std::int32_t>(value);
  }
}

template <typename Stored>
void narrow(const std::vector<std::int32_t>& ids, std::vector<std::byte>& bytes) {
  const std::size_t start = bytes.size();
  bytes.resize(start + ids.size() * sizeof(Stored));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto value = static_cast<Stored>(ids[i]);
    std::memcpy(bytes.data() + start + i * sizeof value, &value, sizeof value);
  }
}

std::int64_t first_outside(const std::int32_t* ids, std::int64_t count, std::int64_t vocabulary) {
  const auto* end = ids + count;
  const auto* found =
      std::find_if(ids, end, [vocabulary](std::int32_t id) { return id < 0 || id >= vocabulary; });
  return found == end ? -1 : found - ids;
}

}  // namespace

std::shared_ptr<const TokenFile> TokenFile::open(Files& files, const std::string& path,
                                                 bool verify) {
  const FileStatus status = files.status(path);
  check(status.kind != FileKind::kMissing, "token file ", path, " does not exist");
  check(status.kind == FileKind::kFile, "token file ", path, " is not a file",
        status.kind == FileKind::kDirectory ? " but a directory" : "");
  const auto file = files.open(path, OpenMode::kRead);
  FoundTokens found = read_token_header(*file);
  auto tokens = file->map(found.offset, found.header.count * found.header.width);
  std::unique_ptr<Mapping> mask;
  if (found.header.mask_bytes() > 0) mask = file->map(found.mask_offset, found.header.mask_bytes());
  std::shared_ptr<const TokenFile> opened(
      new TokenFile(path, std::move(found), std::move(tokens), std::move(mask)));
  if (verify) opened->verify();
  return opened;
}

void TokenFile::copy(std::int64_t begin, std::int64_t count, std::int64_t vocabulary,
                     std::int32_t* ids) const {
  check(begin >= 0 && count >= 0 && begin <= this->count() - count, "token file ", path_, ": ",
        count, " tokens from position ", begin, " on do not exist; it has ", this->count());
  const std::byte* from = tokens_->data() + begin * header().width;
  if (header().width == 1)
    widen<std::uint8_t>(from, count, ids);
  else if (header().width == 2)
    widen<std::uint16_t>(from, count, ids);
  else
    widen<std::int32_t>(from, count, ids);
  const std::int64_t wrong = first_outside(ids, count, vocabulary);
  check(wrong < 0, "token file ", path_, ": id ", wrong < 0 ? 0 : ids[wrong], " at position ",
        begin + wrong, " is outside the vocabulary of ", vocabulary, " (ids 0 to ", vocabulary - 1,
        ")");
}

bool TokenFile::trained(std::int64_t position) const {
  check(position >= 0 && position < count(), "token file ", path_, ": position ", position,
        " does not exist; it has ", count(), " tokens");
  return !header().masked || bit(mask_at(), position);
}

bool TokenFile::begins_document(std::int64_t position) const {
  check(header().bounded && position >= 0 && position < count(), "token file ", path_,
        ": whether a document begins at ", position, " is not known; it has ", count(), " tokens",
        header().bounded ? "" : " without marks of documents");
  return bit(0, position);
}

bool TokenFile::bit(std::int64_t from, std::int64_t position) const {
  return (std::to_integer<unsigned>(mask_->data()[from + position / 8]) >> (position % 8) & 1U) !=
         0;
}

void TokenFile::verify() const {
  ContentHash hash;
  hash.update(tokens_->data(), tokens_->bytes());
  std::int64_t trained = count();
  if (mask_) {
    hash.update(mask_->data(), mask_->bytes());
    if (header().masked) trained = 0;
    for (std::int64_t i = mask_at(); header().masked && i < mask_->bytes(); ++i)
      trained += std::popcount(std::to_integer<unsigned>(mask_->data()[i]));
  }
  check(hash.hex() == header().token_hash, "token file ", path_,
        " is damaged: its tokens have the hash ", hash.hex(), ", expected ", header().token_hash);
  check(header().about.empty() || trained == header().trained, "token file ", path_,
        " is damaged: its mask has ", trained, " trained tokens, expected ", header().trained);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min(kPiece, count())));
  for (std::int64_t begin = 0; begin < count(); begin += kPiece)
    copy(begin, std::min(kPiece, count() - begin), header().vocabulary, ids.data());
}

TokenWriter::TokenWriter(Files& files, const std::string& path, const std::string& tokenizer,
                         std::int64_t vocabulary, TokensOf of)
    : path_(path), atomic_(files, path) {
  header_.tokenizer = tokenizer;
  header_.vocabulary = vocabulary;
  header_.width = token_width(vocabulary);
  TokenHeader probe = header_;
  probe.count = 1;
  if (of == TokensOf::kDocuments) probe.about = "?";
  probe.bounded = header_.bounded = of == TokensOf::kDocuments;
  offset_ = write_token_header(atomic_.file(), probe).begin;
}

void TokenWriter::add(const std::vector<std::int32_t>& ids) {
  const std::int64_t wrong =
      first_outside(ids.data(), static_cast<std::int64_t>(ids.size()), header_.vocabulary);
  check(wrong < 0, "write ", path_, ": id ", wrong < 0 ? 0 : ids[static_cast<std::size_t>(wrong)],
        " at position ", header_.count + wrong, " is outside the vocabulary of ",
        header_.vocabulary);
  if (header_.width == 1)
    narrow<std::uint8_t>(ids, buffer_);
  else if (header_.width == 2)
    narrow<std::uint16_t>(ids, buffer_);
  else
    narrow<std::int32_t>(ids, buffer_);
  header_.count += static_cast<std::int64_t>(ids.size());
  if (static_cast<std::int64_t>(buffer_.size()) >= kPiece) flush();
}

void TokenWriter::add(const std::vector<std::int32_t>& ids,
                      const std::vector<std::uint8_t>& trained) {
  check(trained.size() == ids.size(), "write ", path_, ": ", ids.size(), " tokens and ",
        trained.size(), " marks of what counts");
  const std::int64_t first = header_.count;
  add(ids);
  for (std::vector<std::uint8_t>* bits : {&mask_, &begins_})
    bits->resize(static_cast<std::size_t>(header_.bit_bytes()));
  const auto set = [](std::vector<std::uint8_t>& bits, std::size_t at) {
    bits[at / 8] = static_cast<std::uint8_t>(bits[at / 8] | 1U << (at % 8));
  };
  if (!ids.empty()) set(begins_, static_cast<std::size_t>(first));
  for (std::size_t i = 0; i < trained.size(); ++i) {
    if (trained[i] == 0) continue;
    set(mask_, static_cast<std::size_t>(first) + i);
    ++header_.trained;
  }
}

void TokenWriter::flush() {
  const auto bytes = static_cast<std::int64_t>(buffer_.size());
  hash_.update(buffer_.data(), bytes);
  atomic_.file().write(buffer_.data(), bytes, offset_ + written_);
  written_ += bytes;
  buffer_.clear();
}

void TokenWriter::finish(const std::string& text_hash, const std::string& about,
                         std::int64_t documents) {
  check(header_.count > 0, "write ", path_, ": there are no tokens");
  flush();
  header_.about = about;
  header_.documents = documents;
  header_.masked = !about.empty() && header_.trained != header_.count;
  header_.text_hash = text_hash;
  if (header_.masked) begins_.insert(begins_.end(), mask_.begin(), mask_.end());
  if (header_.bounded) hash_.update(begins_.data(), std::ssize(begins_));
  header_.token_hash = hash_.hex();
  const TokenRange range = write_token_header(atomic_.file(), header_);
  check(range.begin == offset_, "write ", path_, ": HDF5 placed the tokens at ", range.begin,
        ", not at ", offset_);
  if (header_.bounded) atomic_.file().write(begins_.data(), std::ssize(begins_), range.mask_begin);
  atomic_.commit();
}

}  // namespace trireme
