#include "recipes/commands/inference_room.h"

#include <algorithm>

#include "framework/base/error.h"
#include "recipes/report/numbers.h"
#include "recipes/train/plan.h"

namespace trireme {

namespace {

constexpr std::int64_t kRows = 512;  // of a pass
constexpr std::int64_t kLogitRows = 64;
constexpr std::int64_t kShortText = 256;  // tokens
// Beside the ledger: code and stacks, buffers of clients, and a tokenizer's words and merges.
// Measured with SmolLM2 (49,152 of them): 15 to 20 MiB that are not of files.
constexpr std::int64_t kProcess = std::int64_t{64} << 20, kRank = std::int64_t{32} << 20;
constexpr std::int64_t kWordBytes = 512;
constexpr std::int64_t kUnitRoom = 2 * 4096;  // see WeightStream

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
  // One more than texts need: idle replicas run rows of their own into a page that nobody reads.
  const std::int64_t pages = cache.texts * pages_for(tokens) + 1;
  const std::int64_t heads = std::max<std::int64_t>(1, m.kv_heads / r.parallel.tensor);
  const KvCacheOptions page{.layers = std::min(most_layers, m.layers),
                            .kv_heads = heads,
                            .head_dim = m.head_dim,
                            .pages = 1,
                            .compute = o.stage.compute};
  if (m.family == Family::kDecoder) {
    const std::int64_t each = KvCache::page_bytes(page);
    needs.cache = cache.bytes > 0 ? std::min(cache.bytes, pages * each) : pages * each;
    const bool here = r.offload.kv_cache == "none" || !limit.device_alone;
    needs.cache_here = here ? needs.cache : 0;
    needs.least_cache = std::min(needs.cache_here, pages_for(kShortText) * each);
  }
  const std::int64_t wide = size_of(accumulation_type(o.stage.compute));
  needs.pass =
      kRows * (8 * m.hidden + 4 * m.ffn / r.parallel.tensor) * wide + kLogitRows * m.vocab * wide;
  const std::int64_t sharing = r.parallel.launch == "mpi" ? 1 : r.parallel.ranks();
  if (!limit.device_alone)
    needs.process = (kProcess + kWordBytes * r.model.vocab) / sharing + kRank;
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

namespace {

// What else would fit, each a line; the first begins "It fits with".
class Cures {
 public:
  Cures(const Recipe& r, const InferenceNeeds& needs, const MemoryLimit& limit, bool sized_cache)
      : r_(r), needs_(needs), limit_(limit), sized_cache_(sized_cache) {}

  // `weights`: bytes on the device, or beside them on the host, as the recipe is.
  std::string text(std::int64_t weights) {
    const std::string& home = r_.offload.parameters;
    const std::string away = limit_.device_alone ? "host" : "disk";
    const bool copies = away == "disk" && needs_.copied;
    const std::string offload =
        join("--offload.parameters=", away, copies ? " --offload.folder=FOLDER" : "");
    if (sized_cache_) smaller_cache("", weights);
    if (home != away) {
      if (!offer(offload, slots(away)) && !offer(offload + " --offload.slots=2", slots(2)) &&
          sized_cache_)
        smaller_cache(offload + " --offload.slots=2 ", slots(2));
    } else if (!offer("--offload.slots=2", slots(2)) && sized_cache_) {
      smaller_cache("--offload.slots=2 ", slots(2));
    }
    if (!text_.empty()) return text_;
    return least_room(away, offload);
  }

 private:
  static constexpr std::int64_t kMiB = std::int64_t{1} << 20;

  static std::int64_t whole_mib(std::int64_t bytes) { return (bytes + kMiB - 1) / kMiB; }

  // What it takes at least, and the flags that this counts on.
  std::string least_room(const std::string& away, const std::string& offload) const {
    const bool less = sized_cache_ && needs_.cache_here > 2 * needs_.least_cache;
    const std::int64_t cache = less ? whole_mib(needs_.least_cache) * kMiB : needs_.cache_here;
    const std::int64_t least = slots(2) + needs_.beside_weights() - needs_.cache_here + cache;
    const std::string flags =
        join(offload, " --offload.slots=2", less ? join(" --kv-cache=", cache / kMiB, "MiB") : "");
    if (limit_.device_alone)
      return join("Streamed from the ", away, " it needs --device.memory=", whole_mib(least),
                  "MiB, with ", flags);
    return join("Streamed from ", away, " it needs ", bytes_text(least), ", with ", flags,
                "; more tensor ranks on more machines cut the units");
  }

  std::int64_t slots(std::int64_t count) const {
    return std::min(count * needs_.largest_unit, needs_.weights);
  }
  std::int64_t slots(const std::string& home) const { return slots(slots_of(r_, home)); }

  void add(const std::string& flags, const std::string& about) {
    text_ += join(text_.empty() ? "It fits with " : ",\nor with ", flags, about);
  }

  bool offer(const std::string& flags, std::int64_t weights) {
    if (weights + needs_.beside_weights() > limit_.bytes) return false;
    add(flags, join(": ", bytes_text(weights),
                    " for slots that the weights pass through, and what "
                    "is left for units that stay"));
    return true;
  }

  void smaller_cache(const std::string& flags, std::int64_t weights) {
    const std::int64_t left =
        (limit_.bytes - weights - needs_.beside_weights() + needs_.cache_here) / kMiB * kMiB;
    if (left >= needs_.least_cache && left < needs_.cache_here && left > 0)
      add(join(flags, "--kv-cache=", left / kMiB, "MiB"), ": fewer and shorter texts at a time");
  }

  const Recipe& r_;
  const InferenceNeeds& needs_;
  const MemoryLimit& limit_;
  bool sized_cache_;
  std::string text_;
};

// On the fullest rank, as the recipe is.
std::int64_t weights_held(const Recipe& r, const InferenceNeeds& needs, const MemoryLimit& limit) {
  const std::string& home = r.offload.parameters;
  std::int64_t weights = home == "none" ? needs.weights : slots_of(r, home) * needs.largest_unit;
  if (home == "none" && r.zero.stage == 3)
    weights = needs.weights / r.parallel.data + 2 * needs.largest_unit;
  if (home != "none") weights = std::min(weights, needs.weights);  // what stays is chosen to fit
  const bool host_counts = home == "host" && !limit.device_alone;
  return host_counts ? weights + needs.weights / r.parallel.data : weights;
}

}  // namespace

std::string inference_misfit(const Recipe& r, const InferenceNeeds& needs, const MemoryLimit& limit,
                             bool sized_cache) {
  if (limit.bytes == 0) return {};
  const std::int64_t weights = weights_held(r, needs, limit);
  const std::int64_t all = weights + needs.beside_weights();
  if (all <= limit.bytes) return {};
  std::string text = join("the model does not fit: a rank needs about ", bytes_text(all), " of ",
                          bytes_text(limit.bytes), " (", limit.source, ")\n");
  const auto line = [&](std::string name, std::int64_t bytes) {
    name.resize(28, ' ');
    text += join("  ", name, bytes_text(bytes), "\n");
  };
  line(r.offload.parameters == "none" ? "weights" : "weights on the device", weights);
  line("keys and values", needs.cache_here);
  line("rows of a pass", needs.pass);
  if (needs.process > 0) line("the process", needs.process);
  return text + Cures(r, needs, limit, sized_cache).text(weights);
}

}  // namespace trireme
