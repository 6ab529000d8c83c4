#include "recipes/api/drain.h"

#include "framework/base/error.h"

namespace trireme {

std::string drain_text(const DrainBegin& b, double seconds) {
  if (b.running + b.waiting + b.reading == 0) return "ending: nothing is under way";
  std::string text =
      join("ending: ", b.running,
           b.running == 1 ? " answer is being written, " : " answers are being written, ",
           b.waiting, b.waiting == 1 ? " waits" : " wait");
  if (b.reading > 0)
    text += join(", ", b.reading, b.reading == 1 ? " request is" : " requests are", " being read");
  return text + join("; they have ", seconds, " s");
}

std::string drain_text(const DrainEnd& e) {
  if (e.finished + e.cut + e.left == 0) return "ended: nothing was cut off";
  std::string text = join("ended: ", e.finished,
                          e.finished == 1 ? " answer was finished" : " answers were finished");
  if (e.cut > 0) text += join(", ", e.cut, e.cut == 1 ? " was" : " were", " cut off");
  if (e.left > 0) text += join(", ", e.left, e.left == 1 ? " was" : " were", " left by the client");
  return text;
}

}  // namespace trireme
