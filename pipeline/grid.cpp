#include "pipeline/grid.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "framework/base/error.h"

namespace trireme {
namespace {

using Kind = Action::Kind;

double shortest_span(const Simulation& simulation) {
  double shortest = simulation.makespan;
  for (const StageTimeline& stage : simulation.stages)
    for (const Span& span : stage.spans) shortest = std::min(shortest, span.end - span.start);
  check(shortest > 0, "a schedule with a computation of no length cannot be drawn");
  return shortest;
}

int most_micro(const Simulation& simulation) {
  int most = 0;
  for (const StageTimeline& stage : simulation.stages)
    for (const Span& span : stage.spans) most = std::max(most, span.action.micro);
  return most;
}

char letter_of(Kind kind) {
  if (kind == Kind::kForward) return 'F';
  return kind == Kind::kBackwardWeight ? 'W' : 'B';
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

// Fills dark enough for white figures and light enough for a dark page; later chunks are darker.
std::string fill_of(const Action& action, int chunks) {
  struct Colour {
    int red, green, blue;
  };
  Colour base{47, 116, 208};
  if (action.kind == Kind::kBackward || action.kind == Kind::kBackwardInput) base = {34, 142, 106};
  if (action.kind == Kind::kBackwardWeight) base = {176, 108, 28};
  const double shade = chunks > 1 ? 1 - 0.35 * action.chunk / (chunks - 1) : 1;
  auto channel = [shade](int value) { return static_cast<int>(std::lround(value * shade)); };
  char text[16];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", channel(base.red), channel(base.green),
                channel(base.blue));
  return text;
}

// Coordinates with at most one decimal.
std::string number(double value) {
  const double rounded = std::round(value * 10) / 10;
  return join(rounded);
}

constexpr double kRow = 22, kLeft = 56, kGap = 1;

std::string box(const Span& span, double top, double unit, int chunks) {
  const double left = kLeft + span.start * unit, width = (span.end - span.start) * unit - kGap;
  return join("<rect x=\"", number(left), "\" y=\"", number(top), "\" width=\"", number(width),
              "\" height=\"", number(kRow - 2), "\" fill=\"", fill_of(span.action, chunks),
              "\"/><text x=\"", number(left + width / 2), "\" y=\"", number(top + 14), "\">",
              span.action.micro, "</text>\n");
}

}  // namespace

std::string grid_text(const Simulation& simulation) {
  const double cell = shortest_span(simulation);
  const std::size_t width = join(most_micro(simulation)).size() + (simulation.chunks > 1 ? 3 : 2);
  const auto cells = static_cast<std::size_t>(std::lround(simulation.makespan / cell));
  std::string text;
  for (std::size_t stage = 0; stage < simulation.stages.size(); ++stage) {
    std::vector<std::string> row(cells, ".");
    for (const Span& span : simulation.stages[stage].spans) {
      const auto begin = static_cast<std::size_t>(std::lround(span.start / cell));
      const auto end = static_cast<std::size_t>(std::lround(span.end / cell));
      for (std::size_t i = begin; i < std::min(end, cells); ++i) row[i] = "-";
      const std::string marks[] = {"", "'", "\"", "*"};
      if (begin < cells)
        row[begin] = join(letter_of(span.action.kind), span.action.micro,
                          marks[static_cast<std::size_t>(std::min(span.action.chunk, 3))]);
    }
    text += join("stage ", stage, "  ");
    for (const std::string& entry : row) text += padded(entry, width);
    while (text.back() == ' ') text.pop_back();
    text += "\n";
  }
  return text;
}

std::string grid_svg(const Simulation& simulation) {
  const double unit = 20 / shortest_span(simulation);
  const double width = kLeft + simulation.makespan * unit + 2;
  const double height = kRow * static_cast<double>(simulation.stages.size()) + 2;
  std::string svg =
      join("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", number(width), " ",
           number(height), "\" width=\"", number(width), "\" height=\"", number(height),
           "\" font-family=\"sans-serif\" font-size=\"11\">\n", "<g fill=\"#808080\">\n");
  for (std::size_t stage = 0; stage < simulation.stages.size(); ++stage)
    svg += join("<text x=\"2\" y=\"", number(kRow * static_cast<double>(stage) + 15), "\">stage ",
                stage, "</text>\n");
  svg += "</g>\n<g fill=\"#fff\" text-anchor=\"middle\">\n";
  for (std::size_t stage = 0; stage < simulation.stages.size(); ++stage)
    for (const Span& span : simulation.stages[stage].spans)
      svg += box(span, kRow * static_cast<double>(stage) + 1, unit, simulation.chunks);
  return svg + "</g>\n</svg>\n";
}

}  // namespace trireme
