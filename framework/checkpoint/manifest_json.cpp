#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "framework/base/storage/content_hash.h"
#include "framework/checkpoint/manifest.h"
#include "framework/checkpoint/manifest_checks.h"

namespace trireme {

namespace {

// The text begins with this, 32 digits and kHashEnd. The hash is of everything behind.
constexpr std::string_view kHashBegin = "{\n\"hash\": \"";
constexpr std::string_view kHashEnd = "\",\n";
constexpr std::size_t kHashDigits = 32;
constexpr std::size_t kBody = kHashBegin.size() + kHashDigits + kHashEnd.size();
constexpr int kDeepest = 8;

std::string hash_of(std::string_view text) {
  ContentHash hash;
  hash.update(text.data(), static_cast<std::int64_t>(text.size()));
  return hash.hex();
}

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::string hex(std::uint64_t value) {
  std::string digits(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) digits[i] = "0123456789abcdef"[value & 15];
  return digits;
}

std::string text_of(const StoredPiece& stored) {
  const LogicalArray& array = stored.piece.array;
  const Rectangle& at = stored.piece.at;
  std::string shape = std::to_string(array.shape[0]);
  if (array.shape.dims() == 2) shape += ", " + std::to_string(array.shape[1]);
  std::string hashes;
  for (const std::uint64_t hash : stored.hashes) hashes += hex(hash);
  return join("{\"tensor\": ", quoted(array.name.tensor), ", \"array\": ", quoted(array.name.array),
              ", \"dtype\": \"", name_of(array.dtype), "\", \"shape\": [", shape, "], \"at\": [",
              at.row, ", ", at.column, ", ", at.rows, ", ", at.columns,
              "], \"offset\": ", stored.offset, ", \"hashes\": \"", hashes, "\"}");
}

// Between a bracket and its partner, an item a line.
template <typename Items, typename Text>
std::string lines(char open, const Items& items, const Text& text, char close) {
  std::string all(1, open);
  bool first = true;
  for (const auto& item : items) {
    all += first ? "\n" : ",\n";
    all += text(item);
    first = false;
  }
  return all + "\n" + close;
}

std::string text_of(const StoredFile& file) {
  return join("{\"name\": ", quoted(file.name), ", \"bytes\": ", file.bytes, ", \"rest\": \"",
              hex(file.rest_hash), "\", \"pieces\": ") +
         lines(
             '[', file.pieces, [](const StoredPiece& piece) { return text_of(piece); }, ']') +
         "}";
}

std::string body_of(const Manifest& manifest) {
  const auto scalar = [](const auto& pair) {
    return quoted(pair.first) + ": " + quoted(pair.second);
  };
  return join("\"format\": ", manifest.format, ",\n\"run\": ", quoted(manifest.run),
              ",\n\"step\": ", manifest.step, ",\n\"layout\": ", quoted(manifest.layout),
              ",\n\"recipe\": ", quoted(manifest.recipe), ",\n\"scalars\": ") +
         lines('{', manifest.scalars, scalar, '}') + ",\n\"files\": " +
         lines(
             '[', manifest.files, [](const StoredFile& file) { return text_of(file); }, ']') +
         "\n}\n";
}

// One JSON object while it is taken apart. `where` begins every sentence.
class Reading {
 public:
  Reading(const Json& object, const std::string& where) : object_(object), where_(where) {
    check(object.is(Json::Kind::kObject), where, ": something is not an object");
  }
  const Json& member(const char* key) const {
    const Json* found = object_.find(key);
    check(found != nullptr, where_, ": \"", key, "\" is missing");
    return *found;
  }
  std::string text(const char* key) const {
    const Json& value = member(key);
    check(value.is(Json::Kind::kString), where_, ": \"", key, "\" is not a text");
    return value.text(where_);
  }
  std::int64_t integer(const char* key) const { return integer(member(key), key); }
  std::vector<std::int64_t> integers(const char* key) const {
    std::vector<std::int64_t> all;
    for (const Json& value : list(key)) all.push_back(integer(value, key));
    return all;
  }
  const Json::Array& list(const char* key) const {
    const Json& value = member(key);
    check(value.is(Json::Kind::kArray), where_, ": \"", key, "\" is not a list");
    return value.array(where_);
  }
  std::vector<std::uint64_t> hashes(const char* key) const {
    const std::string digits = text(key);
    check(digits.size() % 16 == 0, where_, ": \"", key, "\" has ", digits.size(), " digits");
    std::vector<std::uint64_t> all(digits.size() / 16);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const char* begin = digits.data() + 16 * i;
      const auto [end, error] = std::from_chars(begin, begin + 16, all[i], 16);
      check(error == std::errc{} && end == begin + 16, where_, ": \"", key,
            "\" is not hexadecimal");
    }
    return all;
  }

 private:
  std::int64_t integer(const Json& value, const char* key) const {
    check(value.is(Json::Kind::kInteger), where_, ": \"", key, "\" is not a 64-bit integer");
    return value.integer(where_);
  }

  const Json& object_;
  const std::string& where_;
};

DType dtype_of(const std::string& name, const std::string& where) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
    if (name == name_of(dtype)) return dtype;
  fail(where, ": \"", name, "\" is no type; f64, f32, bf16 and f16 are");
}

StoredPiece piece_of(const Json& json, const std::string& where) {
  const Reading reading(json, where);
  StoredPiece stored;
  LogicalArray& array = stored.piece.array;
  array.name = {reading.text("tensor"), reading.text("array")};
  array.dtype = dtype_of(reading.text("dtype"), where);
  const auto shape = reading.integers("shape");
  check(shape.size() == 1 || shape.size() == 2, where, ": ", describe(array.name), " has ",
        shape.size(), " dims, expected 1 or 2");
  array.shape = shape.size() == 1 ? Shape{shape[0]} : Shape{shape[0], shape[1]};
  const auto at = reading.integers("at");
  check(at.size() == 4, where, ": ", describe(array.name), " has a rectangle of ", at.size(),
        " numbers");
  stored.piece.at = {at[0], at[1], at[2], at[3]};
  stored.dataset = dataset_path(stored.piece);
  stored.offset = reading.integer("offset");
  stored.hashes = reading.hashes("hashes");
  return stored;
}

StoredFile file_of(const Json& json, const std::string& where) {
  const Reading reading(json, where);
  StoredFile file;
  file.name = reading.text("name");
  file.bytes = reading.integer("bytes");
  const auto rest = reading.hashes("rest");
  check(rest.size() == 1, where, ": ", file.name, " has ", rest.size(), " hashes, expected 1");
  file.rest_hash = rest[0];
  for (const Json& piece : reading.list("pieces")) file.pieces.push_back(piece_of(piece, where));
  return file;
}

Manifest manifest_of(const Json& json, const std::string& where) {
  const Reading reading(json, where);
  Manifest manifest;
  const std::int64_t format = reading.integer("format");
  check(format == manifest.format, where, ": format ", format, ", this program reads ",
        manifest.format);
  manifest.run = reading.text("run");
  manifest.step = reading.integer("step");
  manifest.layout = reading.text("layout");
  manifest.recipe = reading.text("recipe");
  const Json& scalars = reading.member("scalars");
  const Reading scalar(scalars, where);
  for (const auto& [key, value] : scalars.object(where))
    manifest.scalars[key] = scalar.text(key.c_str());
  for (const Json& file : reading.list("files")) manifest.files.push_back(file_of(file, where));
  return manifest;
}

// Into a tree that takes no memory when it dies, as nlohmann's does.
Json parse(const std::string& text, const std::string& where) {
  try {
    return parse_json(text, "text", {.bytes = kLongestManifest, .depth = kDeepest});
  } catch (const Error& error) {
    fail(where, ": it is not JSON as it should be: ", error.what());
  }
}

std::string encode_unchecked(const Manifest& manifest, const std::string& where) {
  std::string body;
  try {
    body = body_of(manifest);
  } catch (const nlohmann::json::exception& error) {
    fail(where, ": a text in it is not UTF-8: ", error.what());
  }
  std::string text(kHashBegin);
  text.append(hash_of(body)).append(kHashEnd).append(body);
  check(static_cast<std::int64_t>(text.size()) <= kLongestManifest, where, ": it would have ",
        text.size(), " bytes, the limit is ", kLongestManifest);
  return text;
}

}  // namespace

std::string encode(const Manifest& manifest) {
  const std::string where = join("manifest of step ", manifest.step);
  check_manifest(manifest, where);
  return encode_unchecked(manifest, where);
}

Manifest decode_manifest(const std::string& text, const std::string& path) {
  const std::string where = "manifest " + path;
  check(static_cast<std::int64_t>(text.size()) <= kLongestManifest, where, ": ", text.size(),
        " bytes, the limit is ", kLongestManifest);
  const std::string_view all = text;
  check(all.size() >= kBody && all.starts_with(kHashBegin) &&
            all.substr(kBody - kHashEnd.size(), kHashEnd.size()) == kHashEnd,
        where, " is damaged: it does not begin with its hash");
  const std::string_view told = all.substr(kHashBegin.size(), kHashDigits);
  check(told == hash_of(all.substr(kBody)), where,
        " is damaged: its text does not have the hash that it tells");
  Manifest manifest = manifest_of(parse(text, where), where);
  check_manifest(manifest, where);
  check(encode_unchecked(manifest, where) == text, where,
        ": it is not written as this program writes it");
  return manifest;
}

}  // namespace trireme
