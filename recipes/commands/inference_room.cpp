#include "recipes/commands/inference_room.h"

#include <algorithm>

#include "framework/base/error.h"
#include "recipes/report/numbers.h"
#include "recipes/train/plan.h"

namespace trireme {

namespace {

constexpr std::int64_t kRows = 512;  // of a pass
constexpr std::int64_t kLogitRows = 64;
constexpr std::int64_t kProcess = std::int64_t{256} << 20;  // code, stacks, tokenizer, buffers
constexpr std::int64_t kUnitRoom = 2 * 4096;                // see WeightStream

// Bytes of a matrix element: the type's, or bits with their scales (framework/backend/quantized.h).
double element_bytes(const Recipe& r, const EngineOptions& o, bool table) {
  if (r.inference.weights == "int8" || (table && r.inference.weights == "int4"))
    return 1.0 + 4.0 / 64;
  if (r.inference.weights == "int4") return 0.5 + 4.0 / 64;
  return static_cast<double>(size_of(o.stage.compute));
}

struct Units {
  std::int64_t all = 0, largest = 0;
};

// Units of one pipeline stage: a layer's parameters each, cut over tensor ranks.
Units units_of(const Recipe& r, const EngineOptions& o, int begin, int end) {
  const std::vector<LayerSpec> layers = layer_list(o.model);
  Units units;
  for (int i = begin; i < end; ++i) {
    const std::string prefix = layers[static_cast<std::size_t>(i)].name + ".";
    const auto is_table = [](const std::string& name) {
      return name == "embedding.table" || name == "head.weight";
    };
    const std::int64_t parameters = logical_parameters(o.model, [&](const std::string& name) {
      return name.starts_with(prefix) && !is_table(name);
    });
    std::int64_t tables = logical_parameters(o.model, [&](const std::string& name) {
      return name.starts_with(prefix) && is_table(name);
    });
    const bool head = i > 0 && i + 1 == static_cast<int>(layers.size());
    if (head && o.model.tie_embeddings && r.parallel.pipeline > 1)
      tables += o.model.vocab * o.model.hidden;  // its own copy of the table
    const auto bytes =
        static_cast<std::int64_t>((static_cast<double>(parameters) * element_bytes(r, o, false) +
                                   static_cast<double>(tables) * element_bytes(r, o, true)) /
                                  static_cast<double>(r.parallel.tensor)) +
        kUnitRoom;
    units.all += bytes;
    units.largest = std::max(units.largest, bytes);
  }
  return units;
}

std::int64_t slots_of(const Recipe& r, const std::string& home) {
  if (r.offload.slots > 0) return r.offload.slots;
  return home == "disk" ? 3 : 2;
}

}  // namespace

InferenceNeeds inference_needs(const Recipe& r, const EngineOptions& o, const CacheWish& cache,
                               const MemoryLimit& limit) {
  InferenceNeeds needs;
  const Bounds bounds = partition_of(o, static_cast<int>(r.parallel.pipeline));
  std::int64_t most_layers = 0;
  for (std::size_t part = 0; part + 1 < bounds.size(); ++part) {
    const Units units = units_of(r, o, bounds[part], bounds[part + 1]);
    needs.weights = std::max(needs.weights, units.all);
    needs.largest_unit = std::max(needs.largest_unit, units.largest);
    most_layers = std::max<std::int64_t>(most_layers, bounds[part + 1] - bounds[part]);
  }
  const ModelOptions& m = o.model;
  const std::int64_t tokens = cache.tokens > 0 ? cache.tokens : r.batch.sequence;
  const std::int64_t heads = std::max<std::int64_t>(1, m.kv_heads / r.parallel.tensor);
  const KvCacheOptions page{.layers = std::min(most_layers, m.layers),
                            .kv_heads = heads,
                            .head_dim = m.head_dim,
                            .pages = 1,
                            .compute = o.stage.compute};
  if (m.family == Family::kDecoder && r.offload.kv_cache == "none")
    needs.cache = cache.bytes > 0 ? cache.bytes : pages_for(tokens) * KvCache::page_bytes(page);
  const std::int64_t wide = size_of(accumulation_type(o.stage.compute));
  needs.pass =
      kRows * (8 * m.hidden + 4 * m.ffn / r.parallel.tensor) * wide + kLogitRows * m.vocab * wide;
  if (!limit.device_alone) needs.process = kProcess / r.parallel.ranks() + (32 << 20);
  return needs;
}

void leave_room(const Recipe& r, const InferenceNeeds& needs, const MemoryLimit& limit,
                EngineOptions& o) {
  OffloadTiers& tiers = o.stage.offload;
  if (r.offload.parameters == "none" || r.offload.resident != "auto" || limit.bytes == 0) return;
  // On the host of a CPU nothing would be gained by a second copy of what is in memory anyway.
  if (r.offload.parameters == "host" && !limit.device_alone) return;
  tiers.device_total = std::max<std::int64_t>(1, limit.bytes - needs.beside_weights());
}

std::string inference_misfit(const Recipe& r, const InferenceNeeds& needs,
                             const MemoryLimit& limit) {
  if (limit.bytes == 0) return {};
  const std::string& home = r.offload.parameters;
  const auto slots = [&](const std::string& where) {
    return slots_of(r, where) * needs.largest_unit;
  };
  const bool host_counts = home == "host" && !limit.device_alone;
  // What stays besides is chosen to fit.
  std::int64_t weights = home == "none" ? needs.weights : slots(home);
  if (home == "none" && r.zero.stage == 3)
    weights = needs.weights / r.parallel.data + 2 * needs.largest_unit;
  if (home != "none") weights = std::min(weights, needs.weights);
  if (host_counts) weights += needs.weights / r.parallel.data;
  const std::int64_t all = weights + needs.beside_weights();
  if (all <= limit.bytes) return {};
  std::string text = join("the model does not fit: a rank needs about ", bytes_text(all), " of ",
                          bytes_text(limit.bytes), " (", limit.source, ")\n");
  const auto line = [&](std::string name, std::int64_t bytes) {
    name.resize(28, ' ');
    text += join("  ", name, bytes_text(bytes), "\n");
  };
  line(home == "none" ? "weights" : "weights on the device", weights);
  line("keys and values", needs.cache);
  line("rows of a pass", needs.pass);
  if (needs.process > 0) line("the process", needs.process);
  const std::string away = limit.device_alone ? "host" : "disk";
  const auto fits = [&](std::int64_t w) { return w + needs.beside_weights() <= limit.bytes; };
  if (home != away && fits(slots(away)))
    return text + join("It fits with --offload.parameters=", away, ": ", bytes_text(slots(away)),
                       " for slots that the weights pass through, ",
                       "and what is left for units that stay");
  if (home != away && fits(2 * needs.largest_unit))
    return text + join("It fits with --offload.parameters=", away, " --offload.slots=2");
  if (home != "none" && slots_of(r, home) > 2 && !host_counts && fits(2 * needs.largest_unit))
    return text + "It fits with --offload.slots=2";
  if (limit.device_alone)
    return text + join("Streamed from the host it needs --device.memory=",
                       (2 * needs.largest_unit + needs.beside_weights() + (1 << 20) - 1) >> 20,
                       "MiB");
  return text + join("Streamed from disk through two slots it needs ",
                     bytes_text(2 * needs.largest_unit + needs.beside_weights()),
                     "; more tensor ranks on more machines cut the units");
}

}  // namespace trireme
