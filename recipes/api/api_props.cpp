#include "recipes/api/api_props.h"

#include <algorithm>

namespace trireme {

namespace {

// Kinds without bytes are left out.
Json by_kind(const MemoryLedger& ledger, Tier tier) {
  Json::Object kinds;
  for (int k = 0; k < kMemoryKinds; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    if (const std::int64_t bytes = ledger.entry(tier, kind).current; bytes > 0)
      kinds.emplace_back(std::string(name_of(kind)), bytes);
  }
  return kinds;
}

Json memory_json(const ServedMemory& memory, const ServeStats& stats) {
  Json::Object tiers;
  std::int64_t used = 0;
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
    tiers.emplace_back(std::string(name_of(tier)),
                       memory.ledger ? by_kind(*memory.ledger, tier) : Json(Json::Object{}));
    if (memory.ledger && (tier == Tier::kDevice || (tier == Tier::kHost && !memory.device_alone)))
      used += memory.ledger->current(tier);
  }
  const std::int64_t pages = stats.pages - stats.free_pages;
  return Json::Object{
      {"ranks", memory.ranks},
      {"bytes", std::move(tiers)},
      {"cache", Json::Object{{"page_tokens", memory.page_tokens},
                             {"tokens", stats.pages * memory.page_tokens},
                             {"used_tokens", pages * memory.page_tokens},
                             {"bytes", stats.pages * memory.page_bytes},
                             {"used_bytes", pages * memory.page_bytes}}},
      {"limit", memory.limit > 0 ? Json(memory.limit) : Json()},
      {"limit_source", memory.limit_source},
      {"free", memory.limit > 0 ? Json(std::max<std::int64_t>(0, memory.limit - used)) : Json()}};
}

}  // namespace

Json props_json(const ServedModel& model, const ServeStats& stats) {
  const Sampling& s = model.drawing;
  return Json::Object{
      {"model", model.name},
      {"max_model_len", model.context},
      {"chat_template", model.chat != nullptr},
      {"sampling_defaults", Json::Object{{"temperature", s.temperature},
                                         {"top_p", s.top_p},
                                         {"top_k", s.top_k},
                                         {"min_p", s.min_p},
                                         {"repetition_penalty", s.repetition_penalty},
                                         {"presence_penalty", s.presence_penalty},
                                         {"frequency_penalty", s.frequency_penalty}}},
      {"memory", memory_json(model.memory, stats)}};
}

}  // namespace trireme
