#include "framework/data/text_tokens.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "framework/base/error.h"
#include "framework/base/storage/content_hash.h"
#include "framework/data/parallel_encoder.h"
#include "framework/data/token_file.h"

namespace trireme {

namespace {

constexpr std::int64_t kPiece = std::int64_t{1} << 20;  // bytes

std::unique_ptr<File> open_text(Files& files, const std::string& path) {
  const FileStatus status = files.status(path);
  check(status.kind != FileKind::kMissing, "text ", path, " does not exist");
  check(status.kind != FileKind::kDirectory, "text ", path, " is a directory, not a file");
  check(status.kind == FileKind::kFile, "text ", path, " is not a regular file");
  auto file = files.open(path, OpenMode::kRead);
  check(file->size() > 0, "text ", path, " is empty");
  return file;
}

void refuse_binary(const File& file, std::string_view piece, std::int64_t offset,
                   std::int64_t lines_before) {
  const std::size_t position = piece.find('\0');
  if (position == std::string_view::npos) return;
  const auto* begin = piece.data();
  const std::int64_t line = lines_before + 1 + std::count(begin, begin + position, '\n');
  fail("text ", file.path(), " is not text: a NUL byte at offset ",
       offset + static_cast<std::int64_t>(position), " (line ", line, ")");
}

// Calls take(piece) for the whole text in order, refuses what is not text, and returns its hash.
template <typename Take>
std::string read_text(File& file, const Take& take) {
  ContentHash hash;
  std::string buffer(static_cast<std::size_t>(kPiece), '\0');
  std::int64_t offset = 0;
  std::int64_t lines = 0;
  while (const std::int64_t got = file.read_some(buffer.data(), kPiece, offset)) {
    const std::string_view piece(buffer.data(), static_cast<std::size_t>(got));
    refuse_binary(file, piece, offset, lines);
    hash.update(piece.data(), got);
    take(piece);
    lines += std::count(piece.begin(), piece.end(), '\n');
    offset += got;
  }
  return hash.hex();
}

// Empty if the file is whole and belongs to this text; else what is wrong with it.
std::string damage_of(Files& files, const std::string& path, const std::string& text_hash,
                      const Tokenizer& tokenizer) {
  try {
    const auto tokens = TokenFile::open(files, path);
    const TokenHeader& header = tokens->header();
    if (header.text_hash != text_hash || header.tokenizer != tokenizer.name() ||
        header.vocabulary != tokenizer.vocabulary())
      return join("token file ", path, " belongs to another text or tokenizer");
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::string hash_text(Files& files, const std::string& path) {
  const auto file = open_text(files, path);
  return read_text(*file, [](std::string_view) {});
}

TokenizeReport tokenize_file(Files& files, const std::string& input, const std::string& output,
                             const Tokenizer& tokenizer, const TokenizeOptions& options) {
  const auto file = open_text(files, input);
  TokenWriter writer(files, output, tokenizer.name(), tokenizer.vocabulary());
  TokenizeReport report;
  ParallelEncoder encoder(tokenizer, options.threads);
  std::vector<std::int32_t> ids;
  const std::int64_t all = file->size();
  report.text_hash = read_text(*file, [&](std::string_view piece) {
    encoder.add(piece, ids);
    writer.add(ids);
    ids.clear();
    report.text_bytes += static_cast<std::int64_t>(piece.size());
    if (options.progress) options.progress(report.text_bytes, all);
  });
  encoder.finish(ids);
  writer.add(ids);
  report.tokens = writer.count();
  writer.finish(report.text_hash);
  report.input = input;
  report.output = output;
  report.tokenizer = tokenizer.name();
  report.vocabulary = tokenizer.vocabulary();
  report.type = token_type_name(token_width(report.vocabulary));
  return report;
}

CachedTokens cached_tokens(Files& files, const std::string& text, const std::string& cache_folder,
                           const Tokenizer& tokenizer, const TokenizeOptions& options) {
  const std::string text_hash = hash_text(files, text);
  CachedTokens cached;
  cached.path = path_join(cache_folder, join("tokens-", text_hash, "-", tokenizer.name(), ".h5"));
  if (files.exists(cached.path)) {
    const std::string damage = damage_of(files, cached.path, text_hash, tokenizer);
    cached.reused = damage.empty();
    if (cached.reused) return cached;
    cached.note = join("the token cache was rebuilt: ", damage);
  }
  files.make_directories(cache_folder);
  const TokenizeReport report = tokenize_file(files, text, cached.path, tokenizer, options);
  check(report.text_hash == text_hash, "text ", text, " changed while it was read; try again");
  return cached;
}

}  // namespace trireme
