// Hostile manifests, each with a hash that fits: a sentence, soon, and in little memory.
#include "framework/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/base/storage/content_hash.h"
#include "tests/support/fault_count.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::sentence_of;

std::string sealed(const std::string& body) {
  ContentHash hash;
  hash.update(body.data(), static_cast<std::int64_t>(body.size()));
  return "{\n\"hash\": \"" + hash.hex() + "\",\n" + body;
}

std::string manifest_with(const std::string& step, const std::string& scalars,
                          const std::string& files) {
  return "\"format\": 1,\n\"run\": \"r\",\n\"step\": " + step +
         ",\n\"layout\": \"\",\n\"recipe\": \"\",\n\"scalars\": " + scalars +
         ",\n\"files\": " + files + "\n}\n";
}

std::string file_named(const std::string& name, const std::string& bytes = "100") {
  return "[\n{\"name\": \"" + name + "\", \"bytes\": " + bytes +
         ", \"rest\": \"0000000000000001\", \"pieces\": [\n]}\n]";
}

std::string many(const std::string& item, int count) {
  std::string all = "[";
  for (int i = 0; i < count; ++i) all += (i == 0 ? "\n" : ",\n") + item;
  return all + "\n]";
}

const std::string kNone = "{\n}", kNoFiles = "[\n]";

// What a stranger may write, by name.
std::vector<std::pair<std::string, std::string>> hostile() {
  std::vector<std::pair<std::string, std::string>> all;
  const auto add = [&](const std::string& name, const std::string& body) {
    all.emplace_back(name, sealed(body));
  };
  for (const char* number : {"-1", "1e3", "1.0", "01", "+1", "0x5", "1e999", "NaN", "true", "null",
                             "9223372036854775808", "18446744073709551616", "\"5\"", "[5]", ""})
    add(std::string("step ") + number, manifest_with(number, kNone, kNoFiles));
  for (const char* number : {"-1", "1e3", "100.0", "9223372036854775808"})
    add(std::string("bytes ") + number, manifest_with("5", kNone, file_named("a", number)));
  for (const char* name : {"../x", "/x", "x/y", "..", ".", "", "a\\u0000b", "a\\u0000", "a\\nb",
                           "manifest.json", "\\ud800", "\xff", "a/../b"})
    add(std::string("name ") + name, manifest_with("5", kNone, file_named(name)));
  add("a key twice", manifest_with("5,\n\"step\": 6", kNone, kNoFiles));
  add("a scalar twice", manifest_with("5", "{\n\"a\": \"1\",\n\"a\": \"2\"\n}", kNoFiles));
  add("a number as scalar", manifest_with("5", "{\n\"a\": 1\n}", kNoFiles));
  for (const int depth : {9, 65, 100000}) {
    const auto levels = static_cast<std::size_t>(depth);
    add("lists nested",
        manifest_with("5", kNone, std::string(levels, '[') + std::string(levels, ']')));
    add("lists open", manifest_with("5", kNone, std::string(levels, '[')));
    std::string objects;
    for (int i = 0; i < depth; ++i) objects += "{\"a\": ";
    add("objects open", manifest_with("5", objects, kNoFiles));
  }
  add("10^6 entries", manifest_with("5", kNone, many("{}", 1000000)));
  add("10^6 files of one name", manifest_with("5", kNone, many("{\"name\": \"a\"}", 1000000)));
  add("a text of 8 MB without end", manifest_with("5", kNone, "[\"" + std::string(8 << 20, 'a')));
  return all;
}

TEST(HostileManifest, IsASentence) {
  test::FaultCount count{.row = "R24", .what = "hostile manifests"};
  for (const auto& [name, text] : hostile()) {
    const std::string sentence = sentence_of([&] { decode_manifest(text, "m.json"); });
    ++count.runs;
    ++count.injected;
    const bool told = sentence.starts_with("manifest m.json") && sentence.size() < 1000;
    EXPECT_TRUE(told) << name << ": " << sentence.substr(0, 200);
    count.lost += told ? 0 : 1;
  }
  test::tell(count);
}

// The suite can fail: one without a trap is taken.
TEST(HostileManifest, OneWithoutATrapIsTaken) {
  EXPECT_EQ(sentence_of([] {
              decode_manifest(sealed(manifest_with("5", kNone, file_named("a"))), "m.json");
            }),
            "");
}

}  // namespace
}  // namespace trireme
