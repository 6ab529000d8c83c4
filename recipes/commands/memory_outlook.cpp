#include "recipes/commands/memory_outlook.h"

#include <algorithm>
#include <functional>

#include "framework/base/error.h"
#include "recipes/train/plan.h"

namespace trireme {

namespace {

std::int64_t needed_of(const Forecast& forecast, const MemoryLimit& limit) {
  return limit.device_alone ? forecast.peak[static_cast<std::size_t>(Tier::kDevice)] : forecast.ram;
}

// With keys that lose their meaning put back.
Recipe variant_of(Recipe r, std::int64_t stage, const std::string& offload,
                  const std::string& recompute) {
  r.zero.stage = stage;
  if (stage < 3) {
    r.zero.reshard = "forward";
    r.zero.max_live_parameters = 0;
  }
  if (stage == 0) r.zero.shard_ranks = 0;
  r.recompute.mode = recompute;
  if (recompute != "full") {
    r.recompute.every = 1;
    r.recompute.partition = false;
  }
  r.offload.optimizer = r.offload.gradients = stage >= 1 ? offload : "none";
  r.offload.parameters = stage == 3 ? offload : "none";
  r.offload.activations = recompute == "full" ? offload : "none";
  if (offload != "disk") r.offload.folder.clear();
  return r;
}

bool same_memory(const Recipe& a, const Recipe& b) {
  OffloadSection x = a.offload, y = b.offload;
  x.folder = y.folder;
  return a.zero == b.zero && a.recompute == b.recompute && x == y;
}

MemoryVariant row_of(const Recipe& recipe, const Recipe& changed, const std::string& offload,
                     const MemoryLimit& limit) {
  MemoryVariant row{.zero_stage = changed.zero.stage,
                    .offload = offload,
                    .recompute = changed.recompute.mode,
                    .is_recipe = same_memory(recipe, changed)};
  try {
    const MemoryOutlook told = memory_outlook(changed, limit, Detail::kBytes);
    for (const Forecast& stage : told.stages) {
      row.device = std::max(row.device, stage.peak[static_cast<std::size_t>(Tier::kDevice)]);
      row.host = std::max(row.host, stage.peak[static_cast<std::size_t>(Tier::kHost)]);
      row.disk = std::max(row.disk, stage.peak[static_cast<std::size_t>(Tier::kDisk)]);
    }
    row.needed = told.needed;
  } catch (const Error&) {
    row.possible = false;
  }
  return row;
}

bool fits(const Recipe& recipe, const MemoryLimit& limit) try {
  return memory_outlook(recipe, limit, Detail::kBytes).fits();
} catch (const Error&) {
  return false;
}

// The largest multiple of `unit` up to `most` that fits; memory grows with it.
struct Found {
  std::optional<std::int64_t> most;
  bool more = false;
};
Found search(std::int64_t unit, std::int64_t most, const std::function<bool(std::int64_t)>& fit) {
  const std::int64_t units = most / unit;
  if (units < 1 || !fit(unit)) return {};
  std::int64_t good = 1, bad = 2;
  while (bad <= units && fit(bad * unit)) {
    good = bad;
    bad *= 2;
  }
  if (bad > units) {
    if (fit(units * unit)) return {units * unit, true};
    bad = units;
  }
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fit(middle * unit) ? good : bad) = middle;
  }
  return {good * unit, false};
}

// As many micro-batches as now, each of `micro` samples.
Recipe with_micro(Recipe r, std::int64_t micro) {
  const std::int64_t count = r.micro_batches();
  r.batch.micro = micro;
  r.batch.global = r.parallel.data * micro * count;
  return r;
}

Recipe with_layers(Recipe r, std::int64_t layers) {
  r.model.layers = layers;
  r.pipeline.partition.clear();
  return r;
}

}  // namespace

MemoryOutlook memory_outlook(const Recipe& recipe, const MemoryLimit& limit, Detail detail) {
  const EngineOptions options = engine_options(recipe);
  const MeshShape mesh = mesh_shape(recipe);
  const ForecastOptions how{.detail = detail,
                            .transport = transport_of(recipe),
                            .background_save = saves_in_background(recipe)};
  MemoryOutlook told{.limit = limit};
  for (int stage = 0; stage < mesh.pipeline; ++stage) {
    told.stages.push_back(forecast(options, mesh, {.pipeline = stage}, how));
    const std::int64_t needed = needed_of(told.stages.back(), limit);
    if (stage > 0 && needed <= told.needed) continue;
    told.needed = needed;
    told.fullest = stage;
  }
  return told;
}

Recipe recipe_of(const Recipe& recipe, const MemoryVariant& row) {
  return variant_of(recipe, row.zero_stage, row.offload, row.recompute);
}

std::vector<MemoryVariant> memory_variants(const Recipe& recipe, const MemoryLimit& limit) {
  std::vector<MemoryVariant> rows;
  for (std::int64_t stage = 0; stage <= 3; ++stage)
    for (const char* offload : {"none", "host", "disk"})
      for (const char* recompute : {"none", "selective", "full"}) {
        const bool away = std::string_view(offload) != "none";
        if (away && stage == 0 && std::string_view(recompute) != "full") continue;
        rows.push_back(
            row_of(recipe, variant_of(recipe, stage, offload, recompute), offload, limit));
      }
  return rows;
}

std::vector<MemoryReach> memory_reach(const Recipe& recipe, const MemoryLimit& limit) {
  constexpr std::int64_t kMostMicro = 1 << 14, kMostSequence = 1 << 20, kMostLayers = 512;
  std::vector<MemoryReach> reach;
  if (limit.bytes == 0) return reach;
  const auto add = [&](const std::string& key, std::int64_t now, const Found& found) {
    reach.push_back({.key = key, .now = now, .most = found.most, .more = found.more});
  };
  add("batch.micro", recipe.batch.micro, search(1, kMostMicro, [&](std::int64_t micro) {
        return fits(with_micro(recipe, micro), limit);
      }));
  const std::int64_t unit = recipe.parallel.sequence ? recipe.parallel.tensor : 1;
  add("batch.sequence", recipe.batch.sequence,
      search(unit, kMostSequence, [&](std::int64_t sequence) {
        Recipe r = recipe;
        r.batch.sequence = sequence;
        return fits(r, limit);
      }));
  const std::int64_t parts = recipe.parallel.pipeline * recipe.pipeline.chunks;
  const std::int64_t fewest = std::max<std::int64_t>(1, parts - 2);
  const Found more = search(1, kMostLayers - fewest + 1, [&](std::int64_t n) {
    return fits(with_layers(recipe, fewest + n - 1), limit);
  });
  add("model.layers", recipe.model.layers,
      {more.most ? std::optional(*more.most + fewest - 1) : std::nullopt, more.more});
  if (const auto layers = reach.back().most)
    reach.back().parameters =
        logical_parameters(engine_options(with_layers(recipe, *layers)).model);
  return reach;
}

Recipe smallest_of(Recipe recipe) {
  Recipe least = variant_of(std::move(recipe), 3, "disk", "full");
  least.recompute.partition = least.parallel.tensor > 1 && !least.parallel.sequence;
  return with_micro(std::move(least), 1);
}

}  // namespace trireme
