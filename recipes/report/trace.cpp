#include "recipes/report/trace.h"

#include <algorithm>
#include <utility>

#include "framework/base/error.h"
#include "recipes/report/numbers.h"

namespace trireme {
namespace {

std::string microseconds(std::int64_t nanoseconds) {
  std::string fraction = std::to_string(nanoseconds % 1000 + 1000).substr(1);
  return std::to_string(nanoseconds / 1000) + "." + fraction;
}

// Numbers the streams of each rank and prints one object a line.
class Writer {
 public:
  Writer(const std::vector<TraceEvent>& events, const TraceOptions& options) : options_(options) {
    for (const auto& event : events) {
      if (first_ || event.begin_ns < origin_) origin_ = event.begin_ns;
      first_ = false;
    }
    for (const auto& event : events) add(event);
  }

  std::string text() const { return "{\"traceEvents\": [\n" + body_ + "\n]}\n"; }

 private:
  void object(const std::string& fields) {
    if (!body_.empty()) body_ += ",\n";
    body_ += "{" + fields + "}";
  }

  static std::string place(int rank, int track) {
    return "\"pid\": " + std::to_string(rank) + ", \"tid\": " + std::to_string(track);
  }

  void name(const char* what, int rank, int track, const std::string& text) {
    object(std::string("\"ph\": \"M\", \"name\": \"") + what + "\", " + place(rank, track) +
           ", \"args\": {\"name\": " + json_string(text) + "}");
  }

  int track_of(const TraceEvent& event) {
    auto& streams = tracks_[event.rank];
    if (streams.empty()) {
      auto rank = static_cast<std::size_t>(event.rank);
      name("process_name", event.rank, 0,
           rank < options_.rank_names.size() ? options_.rank_names[rank]
                                             : "rank " + std::to_string(event.rank));
    }
    auto [found, fresh] = streams.emplace(event.stream, static_cast<int>(streams.size()));
    if (fresh) name("thread_name", event.rank, found->second, event.stream);
    return found->second;
  }

  void add(const TraceEvent& event) {
    std::string where = place(event.rank, track_of(event));
    std::int64_t begin = event.begin_ns - origin_;
    std::string fields = "\"ph\": \"X\", \"name\": " + json_string(event.name) + ", " + where +
                         ", \"ts\": " + microseconds(begin) +
                         ", \"dur\": " + microseconds(event.duration_ns);
    if (!event.details.empty()) fields += ", \"args\": {" + details(event) + "}";
    object(fields);
    auto arrow = [&](const char* end, std::int64_t id, std::int64_t at) {
      if (id == 0) return;
      object(std::string(end) + ", \"cat\": \"message\", \"name\": \"message\", \"id\": " +
             std::to_string(id) + ", " + where + ", \"ts\": " + microseconds(at));
    };
    arrow("\"ph\": \"s\"", event.flow_out, begin);
    // "bp": "e" binds the arrow's head to the slice around it, here the receive's end.
    arrow("\"ph\": \"f\", \"bp\": \"e\"", event.flow_in, begin + event.duration_ns);
  }

  static std::string details(const TraceEvent& event) {
    std::string text;
    for (const auto& [key, value] : event.details)
      text += join(text.empty() ? "" : ", ", json_string(key), ": ", json_string(value));
    return text;
  }

  const TraceOptions& options_;
  std::int64_t origin_ = 0;
  bool first_ = true;
  std::map<int, std::map<std::string, int>> tracks_;
  std::string body_;
};

}  // namespace

std::string trace_json(const std::vector<TraceEvent>& events, const TraceOptions& options) {
  return Writer(events, options).text();
}

void write_trace(Files& files, const std::string& path, const std::vector<TraceEvent>& events,
                 const TraceOptions& options) {
  std::string text = trace_json(events, options);
  write_whole_atomically(files, path, path.ends_with(".gz") ? gzipped(text) : text);
}

}  // namespace trireme
