#include "recipes/report/event_file.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "framework/base/error.h"
#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

template <typename Word>
Word word_at(std::string_view bytes, std::size_t at) {
  Word word = 0;
  for (std::size_t i = 0; i < sizeof(Word); ++i)
    word |= static_cast<Word>(static_cast<Word>(static_cast<unsigned char>(bytes.at(at + i)))
                              << (8 * i));
  return word;
}

// A small reader of the two formats, written from their descriptions.
std::vector<std::string> records_of(std::string_view file) {
  std::vector<std::string> records;
  while (!file.empty()) {
    auto length = word_at<std::uint64_t>(file, 0);
    EXPECT_EQ(word_at<std::uint32_t>(file, 8), masked_crc32c(file.substr(0, 8)));
    std::string data(file.substr(12, length));
    EXPECT_EQ(word_at<std::uint32_t>(file, 12 + length), masked_crc32c(data));
    records.push_back(data);
    file.remove_prefix(16 + length);
  }
  return records;
}

struct Field {
  std::uint64_t number = 0;
  std::string bytes;
};

std::uint64_t take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    auto byte = static_cast<unsigned char>(bytes.at(0));
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

std::multimap<std::uint64_t, Field> fields_of(std::string_view bytes) {
  std::multimap<std::uint64_t, Field> fields;
  while (!bytes.empty()) {
    std::uint64_t key = take_varint(bytes);
    Field field;
    std::size_t length = 0;
    if ((key & 7) == 0)
      field.number = take_varint(bytes);
    else
      length = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : take_varint(bytes);
    field.bytes = std::string(bytes.substr(0, length));
    bytes.remove_prefix(length);
    fields.emplace(key >> 3, field);
  }
  return fields;
}

std::map<std::string, float> scalars_in(const std::string& event) {
  std::map<std::string, float> scalars;
  auto summary = fields_of(fields_of(event).find(5)->second.bytes);
  for (const auto& [number, field] : summary) {
    auto value = fields_of(field.bytes);
    scalars[value.find(1)->second.bytes] =
        std::bit_cast<float>(word_at<std::uint32_t>(value.find(2)->second.bytes, 0));
  }
  return scalars;
}

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(masked_crc32c("123456789"), 0xc78ab0e5u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
}

TEST(EventFile, DecodesToWhatWasWritten) {
  TemporaryFolder folder;
  auto files = real_files();
  EventFile out(*files, folder.path(), 1700000000.5, "host");
  StepRecord record;
  record.step = 300;
  record.steps = 1000;
  record.loss = 3.25;
  record.grad_norm = 0.5;
  record.lr = 0.125;
  record.validation_loss = 2.75;
  out.write(300, scalars_of(record), 1700000001.25);
  out.write(301, {{"a", 1.0}}, 1700000002);

  auto records = records_of(read_whole(*files, folder / "events.out.tfevents.1700000000.host"));
  ASSERT_EQ(records.size(), 3u);
  auto first = fields_of(records[0]);
  EXPECT_EQ(first.find(3)->second.bytes, "brain.Event:2");
  EXPECT_EQ(std::bit_cast<double>(word_at<std::uint64_t>(first.find(1)->second.bytes, 0)),
            1700000000.5);
  auto event = fields_of(records[1]);
  EXPECT_EQ(event.find(2)->second.number, 300u);
  EXPECT_EQ(std::bit_cast<double>(word_at<std::uint64_t>(event.find(1)->second.bytes, 0)),
            1700000001.25);
  auto scalars = scalars_in(records[1]);
  EXPECT_EQ(scalars.at("train/loss"), 3.25f);
  EXPECT_EQ(scalars.at("train/grad_norm"), 0.5f);
  EXPECT_EQ(scalars.at("train/learning_rate"), 0.125f);
  EXPECT_EQ(scalars.at("eval/loss"), 2.75f);
  EXPECT_TRUE(scalars.contains("throughput/tokens_per_s"));
  EXPECT_EQ(scalars_in(records[2]).at("a"), 1.0f);
}

TEST(EventFile, NoEvaluationNoTag) {
  for (const auto& [tag, value] : scalars_of(StepRecord{})) {
    EXPECT_NE(tag, "eval/loss");
    EXPECT_NE(tag, "pipeline/bubble");
  }
}

TEST(EventFile, AFullDiskIsASentence) {
  TemporaryFolder folder;
  for (int call = 1;; ++call) {
    FaultyFiles files({Fault::kDiskFull, call, true});
    std::string said = sentence_of([&] {
      EventFile out(files, folder.path(), 1, "h");
      out.write(1, {{"a", 1.0}}, 2);
      out.close();
    });
    if (files.fired() == 0) break;
    EXPECT_NE(said.find("events.out.tfevents.1.h"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace trireme::testing
