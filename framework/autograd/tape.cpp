#include "framework/autograd/tape.h"

#include <utility>

namespace trireme {

void Tape::run_entries() {
  while (!entries_.empty()) {
    Entry entry = std::move(entries_.back());
    entries_.pop_back();
    entry();
  }
}

void Tape::run_backward() {
  run_entries();
  drain();
}

void Tape::run_backward_input() {
  split_ = true;
  run_entries();
  split_ = false;
}

void Tape::drain() {
  while (!queue_.empty()) {
    std::vector<Entry> work = std::exchange(queue_, {});
    for (Entry& entry : work)
      std::exchange(entry, nullptr)();  // dies at once, with what it keeps alive
  }
}

void Tape::drain_unless_split() {
  if (!split_) drain();
}

}  // namespace trireme
