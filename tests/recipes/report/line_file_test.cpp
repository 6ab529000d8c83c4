#include "recipes/report/line_file.h"

#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

TEST(LineFile, LinesAreInTheFileAtOnce) {
  TemporaryFolder folder;
  auto files = real_files();
  LineFile out(*files, folder / "metrics.jsonl", LineStart::kFresh);
  out.line("one");
  EXPECT_EQ(read_whole(*files, folder / "metrics.jsonl"), "one\n");
  out.line("two");
  EXPECT_EQ(read_whole(*files, folder / "metrics.jsonl"), "one\ntwo\n");
}

TEST(LineFile, AppendsOrStartsAfresh) {
  TemporaryFolder folder;
  auto files = real_files();
  LineFile(*files, folder / "a", LineStart::kFresh).line("one");
  LineFile(*files, folder / "a", LineStart::kAppend).line("two");
  EXPECT_EQ(read_whole(*files, folder / "a"), "one\ntwo\n");
  LineFile(*files, folder / "a", LineStart::kFresh).line("three");
  EXPECT_EQ(read_whole(*files, folder / "a"), "three\n");
}

TEST(LineFile, AFullDiskIsASentence) {
  TemporaryFolder folder;
  bool ended = false;
  for (int call = 1; !ended; ++call) {
    FaultyFiles files({Fault::kDiskFull, call, true});
    std::string said = sentence_of([&] {
      LineFile out(files, folder / "metrics.jsonl", LineStart::kFresh);
      out.line("{\"step\": 1}");
      out.close();
    });
    ended = files.fired() == 0;
    if (ended) break;
    EXPECT_NE(said.find("metrics.jsonl"), std::string::npos) << said;
    EXPECT_NE(said.find("No space left on device"), std::string::npos) << said;
  }
  // The device that is always full: the append itself says how many bytes.
  auto files = real_files();
  std::string said = sentence_of([&] {
    LineFile out(*files, "/dev/full", LineStart::kAppend);
    out.line("{\"step\": 1}");
  });
  EXPECT_NE(said.find("/dev/full"), std::string::npos) << said;
  EXPECT_NE(said.find("12 bytes"), std::string::npos) << said;
  EXPECT_NE(said.find("No space left on device"), std::string::npos) << said;
}

TEST(LineFile, ShortWritesAreFinished) {
  TemporaryFolder folder;
  FaultyFiles files({Fault::kOneByte, 1, true});
  LineFile out(files, folder / "a", LineStart::kFresh);
  out.line("whole");
  EXPECT_EQ(read_whole(*real_files(), folder / "a"), "whole\n");
  EXPECT_GT(files.fired(), 0);
}

}  // namespace
}  // namespace trireme::testing
