#include "framework/checkpoint/manifest.h"

#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#include "framework/base/checked.h"
#include "framework/base/error.h"
#include "framework/checkpoint/cover.h"
#include "framework/checkpoint/manifest_checks.h"
#include "framework/checkpoint/rest_hash.h"

namespace trireme {

namespace {

const std::string& scalar(const Manifest& manifest, const std::string& key) {
  const auto found = manifest.scalars.find(key);
  check(found != manifest.scalars.end(), "checkpoint of step ", manifest.step, ": \"", key,
        "\" is missing among its scalars");
  return found->second;
}

// The whole text, as from_chars reads it: no spaces, no locale.
template <typename Number, typename... Format>
bool parse(std::string_view text, Number& value, Format... format) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, format...);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_double(std::string_view text, double& value) {
  const bool negative = !text.empty() && text[0] == '-';
  const std::string_view digits = text.substr(negative ? 1 : 0);
  if (!digits.starts_with("0x")) return parse(text, value, std::chars_format::general);
  if (digits.size() < 3 || digits[2] == '-') return false;
  if (!parse(digits.substr(2), value, std::chars_format::hex)) return false;
  if (negative) value = -value;
  return true;
}

void check_file(const StoredFile& file, const std::string& where) {
  check(is_plain_name(file.name) && file.name != kManifestName, where, ": \"", file.name,
        "\" is no name for a file of a checkpoint");
  check(file.bytes >= 0, where, ": ", file.name, " has ", file.bytes, " bytes");
  std::int64_t end = 0;
  for (const StoredPiece* piece : in_file_order(file)) {
    const std::string what = join(where, ": ", file.name);
    check_piece(piece->piece, what);
    const std::int64_t bytes = stored_bytes(*piece);
    check(bytes > 0, what, ": ", describe(piece->piece.array.name), " has a piece of no elements");
    check(
        piece->offset >= end && piece->offset <= file.bytes && bytes <= file.bytes - piece->offset,
        what, ": ", describe(piece->piece.array.name), ": ", bytes, " bytes at offset ",
        piece->offset, " overlap others or end behind the file's ", file.bytes);
    check(piece->dataset == dataset_path(piece->piece), what, ": dataset \"", piece->dataset,
          "\" should be \"", dataset_path(piece->piece), "\"");
    const auto blocks = static_cast<std::size_t>((bytes - 1) / kHashBlock + 1);
    check(piece->hashes.size() == blocks, what, ": ", describe(piece->piece.array.name), " has ",
          piece->hashes.size(), " hashes for ", blocks, " blocks");
    end = piece->offset + bytes;
  }
}

}  // namespace

std::int64_t Manifest::integer(const std::string& key) const {
  std::int64_t value = 0;
  const std::string& text = scalar(*this, key);
  check(parse(text, value), "checkpoint of step ", step, ": \"", key, "\" is \"", text,
        "\", not an integer");
  return value;
}

double Manifest::number(const std::string& key) const {
  double value = 0;
  const std::string& text = scalar(*this, key);
  check(parse_double(text, value), "checkpoint of step ", step, ": \"", key, "\" is \"", text,
        "\", not a number");
  return value;
}

void Manifest::set_integer(const std::string& key, std::int64_t value) {
  scalars[key] = std::to_string(value);
}

void Manifest::set_number(const std::string& key, double value) {
  char digits[64];
  const double magnitude = std::fabs(value);
  const auto end =
      std::to_chars(digits, digits + sizeof digits, magnitude, std::chars_format::hex).ptr;
  const std::string prefix = std::isfinite(value) ? "0x" : "";
  scalars[key] = (std::signbit(value) ? "-" : "") + prefix + std::string(digits, end);
}

void check_manifest(const Manifest& manifest, const std::string& where) {
  check(manifest.format == 1, where, ": format ", manifest.format, ", this program reads 1");
  check(manifest.step >= 0, where, ": step ", manifest.step, " is negative");
  std::set<std::string> names;
  std::map<ArrayName, const LogicalArray*> arrays;
  for (const StoredFile& file : manifest.files) {
    check_file(file, where);
    check(names.insert(file.name).second, where, ": ", file.name, " is listed twice");
    for (const StoredPiece& piece : file.pieces) {
      const LogicalArray& array = piece.piece.array;
      const LogicalArray& first = *arrays.try_emplace(array.name, &array).first->second;
      check(array == first, where, ": ", describe(array.name),
            " has two shapes or types: ", first.shape, " ", name_of(first.dtype), " and ",
            array.shape, " ", name_of(array.dtype));
    }
  }
}

void check_cover(const Manifest& manifest, const std::string& path) {
  std::map<ArrayName, std::pair<const LogicalArray*, std::vector<Rectangle>>> arrays;
  for (const StoredFile& file : manifest.files)
    for (const StoredPiece& piece : file.pieces) {
      auto& entry = arrays[piece.piece.array.name];
      entry.first = &piece.piece.array;
      entry.second.push_back(piece.piece.at);
    }
  for (const auto& [name, entry] : arrays) {
    const auto fault = cover_fault(entry.first->rows(), entry.first->columns(), entry.second);
    if (!fault) continue;
    fail(path, ": ", describe(name), " of shape ", entry.first->shape, ": row ", fault->row,
         ", column ", fault->column, fault->doubled ? " is in two pieces" : " is in no piece");
  }
}

}  // namespace trireme
