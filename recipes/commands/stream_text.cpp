#include "recipes/commands/stream_text.h"

#include <cmath>

#include "framework/base/error.h"
#include "recipes/report/numbers.h"

namespace trireme {

std::string stream_opening(const WeightStreamShape& shape, bool in_place) {
  std::int64_t streamed = 0, bytes = 0, kept = 0, kept_bytes = 0;
  for (std::size_t p = 0; p < shape.parts.size(); ++p) {
    const StreamedPart& part = shape.parts[p];
    if (part.resident) {
      ++kept, kept_bytes += part.whole * size_of(shape.dtype);
    } else {
      ++streamed, bytes += part.own.size() * size_of(shape.dtype);
    }
  }
  std::string text = join("weights: ", kept, " of ", kept + streamed, " units stay on the device, ",
                          bytes_text(kept_bytes));
  if (streamed > 0)
    text += join("; ", streamed, " are streamed, ", bytes_text(bytes), " a pass, from ",
                 shape.home == Tier::kHost ? "the host"
                 : in_place                ? "disk where they lie"
                                           : "a copy on disk",
                 " through ", shape.slots, " slots of ", bytes_text(shape.slot_bytes()));
  return text + "\n";
}

std::string stream_closing(const StreamTimes& t) {
  if (t.passes == 0 || t.bytes == 0) return {};
  const auto passes = static_cast<double>(t.passes);
  std::string text = join("streamed: ", bytes_text(t.bytes / t.passes), " a pass in ", t.passes,
                          t.passes == 1 ? " pass" : " passes");
  if (t.busy > 0)
    text +=
        join(", ", fixed(static_cast<double>(t.bytes) / t.busy / 1e9, 2),
             " GB/s while reading; stalled ", significant(t.stalled / passes, 3), " s of ",
             significant(t.passing / passes, 3), " s a pass; overlap ", fixed(overlap_of(t), 2));
  return text + "\n";
}

std::string stream_table(const StreamFigures& f) {
  std::string text =
      join("\n", bytes_text(f.bytes), " of weights are streamed a pass: ", fixed(f.fetch, 3),
           " s alone, ", fixed(static_cast<double>(f.bytes) / f.fetch / 1e9, 2), " GB/s\n\n",
           "| rows a pass | compute alone s | both s | stalled s | overlap |\n",
           "| ---: | ---: | ---: | ---: | ---: |\n");
  for (const StreamPass& pass : f.passes)
    text += join("| ", pass.rows, " | ", fixed(pass.compute, 3), " | ", fixed(pass.both, 3), " | ",
                 fixed(pass.stalled, 3), " | ", fixed(f.overlap(pass), 2), " |\n");
  if (!std::isfinite(f.hides)) return text;
  return text + join("\ncomputing hides the stream from ", fixed(f.hides, 0),
                     " rows a pass on (rows of a pass: texts that write, or tokens of prompts)\n");
}

}  // namespace trireme
