#include "recipes/train/step_trace.h"

#include <algorithm>
#include <sstream>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr double kNanoseconds = 1e9;

std::string span_name(const Action& action) {
  std::string name = action.kind == Action::Kind::kForward          ? "F "
                     : action.kind == Action::Kind::kBackwardWeight ? "W "
                                                                    : "B ";
  name += std::to_string(action.micro);
  if (action.chunk > 0) name += join(".", action.chunk);
  return name;
}

// Half of an operation: its call or its wait.
struct Half {
  const CommSpan* span;
  bool wait;
  double begin() const { return wait ? span->waited : span->begin; }
  double end() const { return wait ? span->end : span->started; }
};

std::vector<Half> halves_in_order(const std::vector<CommSpan>& spans) {
  std::vector<Half> halves;
  for (const CommSpan& span : spans) {
    halves.push_back({&span, false});
    halves.push_back({&span, true});
  }
  std::stable_sort(halves.begin(), halves.end(), [](const Half& a, const Half& b) {
    return std::pair(a.begin(), a.end()) < std::pair(b.begin(), b.end());
  });
  return halves;
}

}  // namespace

void StepTrace::begin_step() {
  spans_.clear();
  world_.set_observer(
      {.clock = clock_, .finished = [this](const CommSpan& span) { spans_.push_back(span); }});
}

void StepTrace::end_step(std::int64_t step, double begin, double end, const Runner& runner) {
  world_.set_observer({});
  events_.push_back(event("steps", join("step ", step), begin, end));
  for (const ActionSpan& span : runner.spans())
    events_.push_back(event("compute", span_name(span.action), span.begin, span.end));
  events_.push_back(event("compute", "optimizer", runner.end(), end));
  add_communication();
}

// Both ends are cut to nanoseconds before they are subtracted, so that neighbours stay neighbours.
TraceEvent StepTrace::event(const std::string& stream, const std::string& name, double begin,
                            double end) const {
  const auto from = static_cast<std::int64_t>(begin * kNanoseconds);
  const auto to = static_cast<std::int64_t>(end * kNanoseconds);
  return {.rank = world_.rank(),
          .stream = stream,
          .name = name,
          .begin_ns = from,
          .duration_ns = std::max<std::int64_t>(0, to - from)};
}

std::int64_t StepTrace::arrow(int from, int to, std::int64_t sequence) const {
  return ((std::int64_t{from} * world_.size() + to) << 32) + sequence;
}

void StepTrace::add_communication() {
  const std::vector<Half> halves = halves_in_order(spans_);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const CommSpan& span = *halves[i].span;
    const bool whole = i + 1 < halves.size() && halves[i + 1].span == &span;
    const bool call = !halves[i].wait, wait = halves[i].wait || whole;
    const std::string name = join(whole ? "" : call ? "start " : "wait ", span.operation);
    TraceEvent e =
        event("communication", name, halves[i].begin(), whole ? span.end : halves[i].end());
    if (span.bytes > 0) e.details["bytes sent"] = std::to_string(span.bytes);
    if (call && span.operation.ends_with("/send"))
      e.flow_out = arrow(world_.rank(), span.peer, span.sequence);
    if (wait && span.operation.ends_with("/recv"))
      e.flow_in = arrow(span.peer, world_.rank(), span.sequence);
    events_.push_back(std::move(e));
    if (whole) ++i;
  }
}

std::string encode_trace(const std::vector<TraceEvent>& events) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);  // no memory is no end of text
  for (const TraceEvent& e : events) {
    const auto bytes = e.details.find("bytes sent");
    out << e.stream << "\t" << e.begin_ns << "\t" << e.duration_ns << "\t" << e.flow_out << "\t"
        << e.flow_in << "\t" << (bytes == e.details.end() ? "0" : bytes->second) << "\t" << e.name
        << "\n";
  }
  return std::move(out).str();
}

void decode_trace(const std::string& text, int rank, std::vector<TraceEvent>& events) {
  std::istringstream in(text);
  in.exceptions(std::ios_base::badbit);  // no memory is no end of text
  for (std::string stream, bytes; std::getline(in, stream, '\t');) {
    TraceEvent event{.rank = rank, .stream = stream};
    in >> event.begin_ns >> event.duration_ns >> event.flow_out >> event.flow_in >> bytes;
    if (bytes != "0") event.details["bytes sent"] = bytes;
    in.ignore(1);
    std::getline(in, event.name);
    events.push_back(std::move(event));
  }
}

}  // namespace trireme
