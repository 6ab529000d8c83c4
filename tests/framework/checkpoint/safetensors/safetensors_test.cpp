// Row R23 of the reliability table: mutants of safetensors files, each a sentence; and what is
// legal.
#include <gtest/gtest.h>

#include <cstring>

#include "framework/base/error.h"
#include "framework/base/random.h"
#include "framework/checkpoint/safetensors/safetensors_writer.h"
#include "tests/support/fault_count.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using test::FaultCount;
using testing::TemporaryFolder;

std::string with_length(const std::string& header, std::uint64_t length, const std::string& data) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}
std::string file_of(const std::string& header, const std::string& data) {
  return with_length(header, header.size(), data);
}

class Safetensors : public ::testing::Test {
 protected:
  std::string refusal(const std::string& bytes) {
    try {
      write_whole_atomically(*files_, path_, bytes);
      SafetensorsFile file(*files_, path_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  void expect_refused(const std::string& bytes, const std::string& part) {
    const std::string text = refusal(bytes);
    ++count_.runs, ++count_.injected;
    if (text.find(part) == std::string::npos || text.find(path_) == std::string::npos) {
      ++count_.lost;
      ADD_FAILURE() << "expected \"" << part << "\", got \"" << text.substr(0, 300) << "\"";
    }
  }

  std::unique_ptr<Files> files_ = real_files();
  TemporaryFolder folder_;
  std::string path_ = path_join(folder_.path(), "model.safetensors");
  FaultCount count_{.row = "R23", .what = "safetensors mutants"};
};

TEST_F(Safetensors, ReadsWhatIsLegal) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
      R"("scalar":{"dtype":"I32","shape":[],"data_offsets":[0,4]},)"
      R"("empty":{"dtype":"BF16","shape":[0,7],"data_offsets":[4,4]},)"
      R"("long":{"dtype":"I64","shape":[1,1,1,1,1],"data_offsets":[12,20]}}  )";
  ASSERT_EQ(refusal(file_of(header, "abcdefghijklmnopqrst")), "");
  const SafetensorsFile file(*files_, path_);
  ASSERT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.tensors()[0].name, "scalar");
  EXPECT_EQ(file.find("scalar")->elements(), 1);
  EXPECT_EQ(file.find("empty")->elements(), 0);
  EXPECT_EQ(file.find("none"), nullptr);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_FALSE(dtype_of_safetensors(file.find("long")->dtype).has_value());
  std::string bytes(8, ' ');
  file.read(*file.find("b"), 0, 8, bytes.data());
  EXPECT_EQ(bytes, "efghijkl");
  file.read(*file.find("b"), 4, 4, bytes.data());
  EXPECT_EQ(bytes, "ijklijkl");
  EXPECT_THROW(file.read(*file.find("b"), 4, 5, bytes.data()), Error);
  EXPECT_EQ(refusal(file_of("{}", "")), "");
}

TEST_F(Safetensors, RefusesMutants) {
  const auto one = [](const std::string& entry) { return "{\"a\":" + entry + "}"; };
  const auto tensor = [&](const std::string& dtype, const std::string& shape,
                          const std::string& offsets) {
    return one("{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
               "}");
  };
  expect_refused("", "0 bytes are no safetensors file");
  expect_refused("1234567", "7 bytes are no safetensors file");
  expect_refused(with_length("{}", 0, ""), "does not begin with {");
  expect_refused(with_length("{}", 1, ""), "");
  expect_refused(with_length("{}", std::uint64_t{1} << 63, ""), "at most 100000000 are legal");
  expect_refused(with_length("{}", ~std::uint64_t{0}, ""), "18446744073709551615");
  expect_refused(with_length("{}", 3, ""), "the file has 10 bytes in all");
  expect_refused(with_length("{}", 100'000'001, ""), "at most 100000000 are legal");
  expect_refused(file_of("[]", ""), "does not begin with {");
  expect_refused(file_of(" {}", ""), "does not begin with {");
  expect_refused(file_of("{\"\xff\":1}", ""), "header:1:");
  expect_refused(file_of("{\"a\":" + std::string(100'000, '['), ""), "levels of nesting");
  expect_refused(file_of(R"({"a":1,"a":2})", ""), "the key \"a\" comes twice");
  const std::string good = tensor("\"F32\"", "[2]", "[0,8]");
  ASSERT_EQ(refusal(file_of(good, "12345678")), "");
  expect_refused(file_of(good, "123456789"), "but 9 follow the header");
  expect_refused(file_of(good, "1234567"), "but 7 follow the header");
  expect_refused(file_of(good + "x", "12345678"), "header:1:");
  expect_refused(file_of(good + std::string("\0", 1), "12345678"), "a NUL byte is no JSON");
  ASSERT_EQ(refusal(file_of(R"({"__metadata__":null})", "")), "");
  expect_refused(file_of(tensor("\"F32\"", "[2]", "[8,0]"), "12345678"), "are no range");
  expect_refused(file_of(tensor("\"F32\"", "[2]", "[-8,0]"), "12345678"), "are no range");
  expect_refused(file_of(tensor("\"F32\"", "[2]", "[1,9]"), "123456789"), "begins at byte 1");
  expect_refused(file_of(tensor("\"F32\"", "[2]", "[0,8,16]"), "12345678"), "has 3 numbers");
  expect_refused(file_of(tensor("\"F32\"", "[2]", "[0,9223372036854775807]"), "12345678"),
                 "but its data_offsets span 9223372036854775807");
  expect_refused(file_of(tensor("\"F32\"", "[3]", "[0,8]"), "12345678"), "has 12 bytes");
  expect_refused(file_of(tensor("\"F32\"", "[-2]", "[0,8]"), "12345678"), "an extent is -2");
  expect_refused(file_of(tensor("\"F32\"", "[2e0]", "[0,8]"), "12345678"),
                 "an integer is expected");
  expect_refused(file_of(tensor("\"F32\"", "[2.0]", "[0,8]"), "12345678"),
                 "an integer is expected");
  expect_refused(file_of(tensor("\"F32\"", "[\"2\"]", "[0,8]"), "12345678"),
                 "an integer is expected, here is the string \"2\"");
  expect_refused(file_of(tensor("\"F32\"", "[4611686018427387904, 4, 2]", "[0,8]"), "12345678"),
                 "does not fit into 64 bits");
  // 2^32 x 2^32 elements of 4 bytes are 2^66: 0 when they wrap.
  expect_refused(file_of(tensor("\"F32\"", "[4294967296, 4294967296]", "[0,0]"), ""),
                 "does not fit into 64 bits");
  expect_refused(file_of(tensor("\"F33\"", "[2]", "[0,8]"), "12345678"), "\"F33\" is none of F64");
  expect_refused(file_of(tensor("7", "[2]", "[0,8]"), "12345678"), "dtype: a string is expected");
  expect_refused(file_of(one("[]"), ""), "an object is expected");
  expect_refused(file_of(R"({"__metadata__":{"a":1}})", ""), "a string is expected");
  const std::string b = R"({"dtype":"U8","shape":[4],"data_offsets":)";
  expect_refused(file_of("{\"a\":" + b + "[0,4]},\"b\":" + b + "[2,6]}}", "123456"),
                 "begins at byte 2");
  expect_refused(file_of("{\"a\":" + b + "[0,4]},\"b\":" + b + "[5,9]}}", "123456789"),
                 "begins at byte 5");
  std::string many = "{";
  for (int i = 0; i < 1'000'000; ++i)
    many += (i ? ",\"" : "\"") + std::to_string(i) +
            R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  expect_refused(file_of(many + "}", ""), "more than 400000 values");
  tell(count_);
}

// A byte of the header or of the length becomes another one: refused with a sentence, or the file
// still means whole tensors.
TEST_F(Safetensors, EveryByteOfTheHeaderMayBeAnything) {
  const std::string header =
      R"({"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"v":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";
  const std::string good = file_of(header, "123456789");
  const RngKey key = key_from_seed(7);
  count_.what = "safetensors, bytes of a header changed";
  for (std::uint64_t i = 0; i < 4000; ++i) {
    std::string bytes = good;
    const std::uint32_t word = random_word(key, i);
    bytes[word % (8 + header.size())] = static_cast<char>(word >> 24);
    if (bytes == good) continue;
    ++count_.runs, ++count_.injected;
    const std::string text = refusal(bytes);
    if (!text.empty() && text.find(path_) == std::string::npos) ++count_.lost;
  }
  tell(count_);
}

TEST_F(Safetensors, AFileThatShrinksWhileOpenIsAnError) {
  write_whole_atomically(
      *files_, path_,
      file_of(R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", "123456789"));
  const SafetensorsFile file(*files_, path_);
  files_->open(path_, OpenMode::kReadWrite)->truncate(20);
  std::string bytes(9, ' ');
  EXPECT_THROW(file.read(file.tensors()[0], 0, 9, bytes.data()), Error);
}

TEST_F(Safetensors, WritesPieceByPieceAndWholeOrNotAtAll) {
  const std::vector<SafeTensor> tensors = {{.name = "w", .dtype = "BF16", .shape = {2, 3}},
                                           {.name = "b", .dtype = "F32", .shape = {1}}};
  const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  {
    SafetensorsWriter writer(*files_, path_, tensors, metadata);
    writer.write("0123456789ab", 12);
    EXPECT_THROW(writer.commit(), Error);
  }
  EXPECT_TRUE(files_->list(folder_.path()).empty());
  SafetensorsWriter writer(*files_, path_, tensors, metadata);
  EXPECT_EQ(writer.data_bytes(), 16);
  writer.write("0123456", 7);
  writer.write("789abcdef", 9);
  EXPECT_THROW(writer.write("x", 1), Error);
  writer.commit();
  const SafetensorsFile file(*files_, path_);
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.tensors()[0].text(), "BF16 (2, 3)");
  std::string bytes(4, ' ');
  file.read(*file.find("b"), 0, 4, bytes.data());
  EXPECT_EQ(bytes, "cdef");
  EXPECT_EQ(file.find("w")->begin % 8, 0);
  EXPECT_THROW(SafetensorsWriter(*files_, path_, {tensors[0], tensors[0]}, {}), Error);
}

}  // namespace
}  // namespace trireme
