#include "recipes/train/step_trace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/parity/train_layout.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

double seconds() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Two traced steps of a tiny model, out of the ranks by way of the transport's text.
Json trace_of(const parity::Layout& layout) {
  std::mutex mutex;
  std::vector<TraceEvent> events;
  const parity::Task task{.model = parity::tiny_gpt2()};
  const SampleSource source = parity::random_samples(task.model, task.seed);
  parity::run_layout(task, layout, [&](parity::Rank& rank) {
    StepTrace trace(rank.mesh.world(), seconds);
    rank.engine.runner().set_clock(seconds);
    for (int step = 0; step < 3; ++step) {
      if (step > 0) trace.begin_step();  // step 0 is not traced
      const double begin = seconds();
      rank.engine.train(step, source);
      if (step > 0) trace.end_step(step + 1, begin, seconds(), rank.engine.runner());
    }
    std::scoped_lock lock(mutex);
    decode_trace(encode_trace(trace.events()), rank.mesh.world().rank(), events);
  });
  return Json::parse(trace_json(events));
}

struct Slice {
  std::string name;
  double begin, end;
};
using Tracks = std::map<std::pair<int, std::string>, std::vector<Slice>>;

Tracks tracks_of(const Json& trace) {
  std::map<std::pair<int, int>, std::string> names;
  for (const Json& e : trace["traceEvents"])
    if (e["name"] == "thread_name") names[{e["pid"], e["tid"]}] = e["args"]["name"];
  Tracks tracks;
  for (const Json& e : trace["traceEvents"])
    if (e["ph"] == "X") {
      const double begin = e["ts"], length = e["dur"];
      tracks[{e["pid"], names.at({e["pid"], e["tid"]})}].push_back(
          {e["name"], begin, begin + length});
    }
  return tracks;
}

// Events of a track follow each other or one holds the other.
void expect_sane(std::vector<Slice> slices) {
  std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  constexpr double kRounding = 1e-4;  // microseconds; times are whole nanoseconds
  std::vector<Slice> open;
  for (const Slice& slice : slices) {
    while (!open.empty() && open.back().end <= slice.begin + kRounding) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(slice.end, open.back().end + kRounding) << slice.name << " " << open.back().name;
    }
    open.push_back(slice);
  }
}

std::set<std::string> names_of(const std::vector<Slice>& slices) {
  std::set<std::string> names;
  for (const Slice& slice : slices) names.insert(slice.name);
  return names;
}

TEST(StepTrace, ShowsWorkAndCommunicationOfEveryRank) {
  const Json trace = trace_of({.mesh = {.data = 2, .pipeline = 2, .tensor = 2},
                               .schedule = ScheduleKind::kZeroBubbleH1,
                               .micro = 3,
                               .sequence_parallel = true});
  const Tracks tracks = tracks_of(trace);
  EXPECT_EQ(tracks.size(), 8u * 3);
  for (const auto& [track, slices] : tracks) expect_sane(slices);
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(names_of(tracks.at({rank, "steps"})), (std::set<std::string>{"step 2", "step 3"}));
    EXPECT_EQ(names_of(tracks.at({rank, "compute"})),
              (std::set<std::string>{"F 0", "F 1", "B 0", "B 1", "W 0", "W 1", "optimizer"}));
    const std::set<std::string> moves = names_of(tracks.at({rank, "communication"}));
    for (const char* name :
         {"tensor/all_gather", "tensor/reduce_scatter", "start data/reduce_scatter",
          "wait data/reduce_scatter", "data/all_gather", "world/all_reduce", "ends/all_reduce"})
      EXPECT_TRUE(moves.contains(name)) << name << " on rank " << rank;
  }
}

TEST(StepTrace, ArrowsLeadFromSendsToTheirReceives) {
  const Json trace = trace_of({.mesh = {.data = 1, .pipeline = 4, .tensor = 1}, .micro = 2});
  std::map<std::int64_t, std::pair<int, int>> ends;  // begins and ends of an arrow
  std::map<std::int64_t, double> sent;
  for (const Json& e : trace["traceEvents"]) {
    if (e["ph"] == "s") ++ends[e["id"]].first, sent[e["id"]] = e["ts"];
    if (e["ph"] == "f") ++ends[e["id"]].second;
  }
  EXPECT_EQ(ends.size(), 2u * 2 * 3 * 6);  // steps, ways, cuts, micro-batches
  for (const auto& [id, count] : ends) EXPECT_EQ(count, std::pair(1, 1)) << id;
  for (const Json& e : trace["traceEvents"])
    if (e["ph"] == "f") {
      EXPECT_GE(e["ts"].get<double>(), sent.at(e["id"]));
    }
}

}  // namespace
}  // namespace trireme
