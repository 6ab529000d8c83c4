#include "recipes/report/trace.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

std::vector<TraceEvent> example() {
  return {{0, "compute", "F 0", 5000, 1500, 7, 0, {}},
          {1, "communication", "recv", 5500, 2000, 0, 7, {{"bytes", "64"}}},
          {0, "communication", "send \"x\"", 6500, 250, 0, 0, {}},
          {0, "compute", "B 0", 7000, 1, 0, 0, {}}};
}

TEST(Trace, RanksAreProcessesAndStreamsAreThreads) {
  auto json = nlohmann::json::parse(trace_json(example(), {{"rank 0: data 0"}}));
  std::map<std::string, int> threads;
  std::map<int, std::string> processes;
  int slices = 0;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("name") == "process_name") processes[event.at("pid")] = event["args"]["name"];
    if (event.at("name") == "thread_name")
      threads[std::to_string(event.at("pid").get<int>()) +
              event["args"]["name"].get<std::string>()] = event.at("tid");
    slices += event.at("ph") == "X";
  }
  EXPECT_EQ(slices, 4);
  EXPECT_EQ(processes.at(0), "rank 0: data 0");
  EXPECT_EQ(processes.at(1), "rank 1");
  EXPECT_EQ(threads, (std::map<std::string, int>{
                         {"0compute", 0}, {"0communication", 1}, {"1communication", 0}}));
}

TEST(Trace, TimesAreMicrosecondsFromTheFirstEvent) {
  auto json = nlohmann::json::parse(trace_json(example()));
  std::vector<double> begins, durations;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    begins.push_back(event.at("ts"));
    durations.push_back(event.at("dur"));
  }
  EXPECT_EQ(begins, (std::vector<double>{0, 0.5, 1.5, 2}));
  EXPECT_EQ(durations, (std::vector<double>{1.5, 2, 0.25, 0.001}));
}

TEST(Trace, ArrowsLeadFromSendToReceive) {
  auto json = nlohmann::json::parse(trace_json(example()));
  nlohmann::json start, finish;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") == "s") start = event;
    if (event.at("ph") == "f") finish = event;
  }
  EXPECT_EQ(start.at("id"), 7);
  EXPECT_EQ(start.at("pid"), 0);
  EXPECT_EQ(start.at("ts"), 0.0);
  EXPECT_EQ(finish.at("id"), 7);
  EXPECT_EQ(finish.at("pid"), 1);
  EXPECT_EQ(finish.at("ts"), 2.5);
}

TEST(Trace, NoEventsIsAnEmptyTrace) {
  EXPECT_TRUE(nlohmann::json::parse(trace_json({})).at("traceEvents").empty());
}

TEST(Trace, CompressedFilesHoldTheSameText) {
  TemporaryFolder folder;
  auto files = real_files();
  write_trace(*files, folder / "trace.json", example());
  write_trace(*files, folder / "trace.json.gz", example());
  std::string plain = read_whole(*files, folder / "trace.json");
  EXPECT_EQ(plain, trace_json(example()));
  gzFile packed = gzopen((folder / "trace.json.gz").c_str(), "rb");
  std::string text(plain.size() + 1, '\0');
  int length = gzread(packed, text.data(), static_cast<unsigned>(text.size()));
  gzclose(packed);
  EXPECT_EQ(text.substr(0, static_cast<std::size_t>(length)), plain);
}

}  // namespace
}  // namespace trireme::testing
