#include "pipeline/uses.h"

#include "framework/base/error.h"

namespace trireme {

namespace {

Use::Kind use_kind(Action::Kind kind) {
  if (kind == Action::Kind::kForward) return Use::Kind::kForward;
  return kind == Action::Kind::kBackwardWeight ? Use::Kind::kBackwardWeight : Use::Kind::kBackward;
}

}  // namespace

std::vector<Use> flatten(const ActionList& actions, const std::vector<int>& entries) {
  std::vector<int> first(entries.size() + 1, 0);
  for (std::size_t c = 0; c < entries.size(); ++c) first[c + 1] = first[c] + entries[c];
  std::vector<Use> uses;
  for (std::size_t a = 0; a < actions.size(); ++a) {
    const Action& action = actions[a];
    if (is_communication(action.kind)) continue;
    check(action.chunk >= 0 && static_cast<std::size_t>(action.chunk) < entries.size(),
          "schedule: ", text_of(action), " but this stage has ", entries.size(), " chunks");
    const auto chunk = static_cast<std::size_t>(action.chunk);
    const int count = entries[chunk];
    for (int i = 0; i < count; ++i) {
      const int offset = action.kind == Action::Kind::kForward ? i : count - 1 - i;
      uses.push_back({use_kind(action.kind), static_cast<std::int64_t>(a), action.micro,
                      first[chunk] + offset});
    }
  }
  return uses;
}

std::vector<std::int64_t> backward_uses(const std::vector<Use>& order, int entries) {
  std::vector<std::int64_t> uses(static_cast<std::size_t>(entries), 0);
  for (const Use& use : order)
    if (use.kind == Use::Kind::kBackward) ++uses[static_cast<std::size_t>(use.entry)];
  return uses;
}

}  // namespace trireme
