// Weights that pass through slots give the logits of weights that stay, bit for bit: from the host
// and from disk, with any number of slots, any that stay, rows cut in any way, over tensor ranks,
// stages and ranks that share the weights out; keys and values on the host, too. The ledger holds
// what the shape says and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "framework/base/error.h"
#include "tests/parity/train_layout.h"
#include "tests/support/guarded_backend.h"

namespace trireme::test {
namespace {

using Ids = std::vector<std::int32_t>;
using parity::Layout;

constexpr std::int64_t kPages = 12;  // of the cache; a third for each text

parity::Task task(const ModelOptions& model) {
  parity::Task t{.model = model, .compute = DType::kF32, .forward_only = true};
  t.model.sequence = 48;
  return t;
}

// A prompt, and five tokens that are written, one a pass.
struct Text {
  Ids ids;
  std::int64_t prompt = 0, done = 0;
};
std::vector<Text> texts() {
  std::vector<Text> all(3);
  for (std::int32_t i = 0; i < 3; ++i) {
    Text& text = all[static_cast<std::size_t>(i)];
    text.prompt = 3 + 9 * i;
    for (std::int32_t t = 0; t < text.prompt + 5; ++t) text.ids.push_back((t * t + 3 * t + i) % 13);
  }
  return all;
}

// Logits of rows of texts: by text and position.
using Places = std::map<std::pair<std::size_t, std::int64_t>, Logits>;

// Adds the next rows of a text to a pass: a chunk of the prompt, or one that is written.
void add_rows(InferenceRows& pass, Text& text, std::int64_t chunk,
              std::span<const std::int32_t> pages) {
  const std::int64_t rows =
      text.done < text.prompt ? std::min(chunk, text.prompt - text.done) : std::int64_t{1};
  const auto first = std::ssize(pass.ids);
  const auto from = text.ids.begin() + text.done;
  pass.ids.insert(pass.ids.end(), from, from + rows);
  pass.sequences.push_back({first, rows, text.done, pages});
  pass.logit_rows.push_back(first + rows - 1);
  text.done += rows;
}

// All texts, together or one after the other. Every rank runs the same rows; the logits are those
// of the last stage.
Places write(parity::Rank& rank, KvCache& cache, bool together, std::int64_t chunk) {
  std::vector<Text> all = texts();
  std::vector<std::int32_t> pages(kPages);
  std::iota(pages.begin(), pages.end(), 0);
  Places places;
  for (;;) {
    InferenceRows pass;
    std::vector<std::size_t> who;
    for (std::size_t i = 0; i < 3; ++i) {
      if (all[i].done == std::ssize(all[i].ids) || (!together && !who.empty())) continue;
      add_rows(pass, all[i], chunk, std::span(pages).subspan(i * kPages / 3, kPages / 3));
      who.push_back(i);
    }
    if (who.empty()) return places;
    const Logits& logits = rank.engine.infer(cache, std::span(&pass, 1)).front();
    const std::size_t width = logits.size() / who.size();
    for (std::size_t w = 0; w < who.size(); ++w)
      places[{who[w], all[who[w]].done}].assign(
          logits.begin() + static_cast<std::ptrdiff_t>(w * width),
          logits.begin() + static_cast<std::ptrdiff_t>((w + 1) * width));
  }
}

struct Result {
  Places places;
  std::int64_t device = 0, cache = 0;  // peaks of the last rank, bytes
  std::int64_t shape_device = 0, shape_cache = 0;
  StreamTimes totals;
};

Result run(const parity::Task& t, const Layout& layout, bool together, std::int64_t chunk) {
  Result result;
  parity::run_layout(t, layout, [&](parity::Rank& rank) {
    MemoryLedger& ledger = rank.backend.ledger();
    ledger.reset_peaks();
    KvCache cache(rank.backend, rank.engine.cache_options(kPages));
    Places places = write(rank, cache, together, chunk);
    if (rank.mesh.world().rank() + 1 != rank.mesh.world().size()) return;
    result.places = std::move(places);
    const Tier tier = layout.offload.kv_cache == Tier::kHost ? Tier::kHost : Tier::kDevice;
    result.device = ledger.entry(Tier::kDevice, MemoryKind::kParameters).peak;
    result.cache = ledger.entry(tier, MemoryKind::kKvCache).peak;
    result.shape_cache = kPages * KvCache::page_bytes(rank.engine.cache_options(1));
    if (const WeightStream* stream = rank.engine.stage().stream()) {
      result.shape_device = stream->streamed().device_bytes();
      result.totals = stream->totals();
    }
  });
  return result;
}

OffloadTiers streamed(Tier tier, int slots, std::int64_t resident) {
  return {.parameters = tier, .slots = slots, .resident = resident};
}

void expect_same(const Result& a, const Result& right, const Layout& layout) {
  EXPECT_EQ(a.places, right.places) << text_of(layout);
}

TEST(Streamed, AnySlotsAndResidentsGiveTheSameBits) {
  for (const ModelOptions& model : {parity::tiny_gpt2(), parity::tiny_qwen(1)}) {
    const parity::Task t = task(model);
    for (const bool together : {false, true}) {
      const Result right = run(t, {}, together, 64);
      EXPECT_EQ(right.places.size(), 3 * 6);
      for (const Tier tier : {Tier::kHost, Tier::kDisk})
        for (const int slots : {2, 3, 7})
          for (const std::int64_t resident : {0, 30000, 10000000}) {
            const Layout layout{.zero_stage = 3, .offload = streamed(tier, slots, resident)};
            const Result mine = run(t, layout, together, 64);
            expect_same(mine, right, layout);
            EXPECT_EQ(mine.device, mine.shape_device);
            EXPECT_EQ(mine.cache, mine.shape_cache);
            EXPECT_EQ(mine.totals.bytes == 0, resident == 10000000);
          }
    }
  }
}

TEST(Streamed, HowRowsAreCutChangesNothing) {
  const parity::Task t = task(parity::tiny_llama(2));
  const Layout layout{.zero_stage = 3, .offload = streamed(Tier::kDisk, 2, 0)};
  for (const std::int64_t chunk : {1, 5, 16})
    for (const bool together : {false, true})
      expect_same(run(t, layout, together, chunk), run(t, {}, together, chunk), layout);
}

// Each layout beside itself with weights that stay.
TEST(Streamed, UnderEveryLayout) {
  const parity::Task t = task(parity::tiny_llama(2));
  for (const MeshShape& mesh :
       {MeshShape{.tensor = 2}, MeshShape{.pipeline = 2}, MeshShape{.data = 2},
        MeshShape{.data = 3}, MeshShape{.pipeline = 2, .tensor = 2},
        MeshShape{.data = 2, .pipeline = 2}}) {
    const Result right = run(t, {.mesh = mesh, .zero_stage = mesh.data > 1 ? 3 : 0}, true, 4);
    for (const Tier tier : {Tier::kHost, Tier::kDisk})
      for (const std::int64_t resident : {0, 30000}) {
        const Layout layout{.mesh = mesh, .zero_stage = 3, .offload = streamed(tier, 2, resident)};
        const Result mine = run(t, layout, true, 4);
        expect_same(mine, right, layout);
        EXPECT_EQ(mine.device, mine.shape_device);
      }
  }
}

// Nothing but the backend touches device memory: slots are filled by uploads, keys and values on
// the host are seen by the host alone.
TEST(Streamed, OnADeviceOfItsOwn) {
  parity::Task t = task(parity::tiny_qwen(1));
  const Result right = run(t, {}, true, 7);
  t.backend = make_guarded_backend;
  for (const Tier tier : {Tier::kHost, Tier::kDisk})
    for (const Tier cache : {Tier::kDevice, Tier::kHost}) {
      Layout layout{.zero_stage = 3, .offload = streamed(tier, 3, 20000)};
      layout.offload.kv_cache = cache;
      const Result mine = run(t, layout, true, 7);
      expect_same(mine, right, layout);
      EXPECT_EQ(mine.cache, mine.shape_cache);
    }
  Layout alone;
  alone.offload.kv_cache = Tier::kHost;
  expect_same(run(t, alone, true, 7), right, alone);
}

// The ring wraps: after the first pass each brings exactly the bytes that are streamed, those of a
// tied table once: it stays in its slot from the head to the next pass's embedding.
TEST(Streamed, BytesOfAPass) {
  const parity::Task t = task(parity::tiny_gpt2());
  const Layout layout{.zero_stage = 3, .offload = streamed(Tier::kHost, 2, 0)};
  parity::run_layout(t, layout, [](parity::Rank& rank) {
    KvCache cache(rank.backend, rank.engine.cache_options(kPages));
    const WeightStream& stream = *rank.engine.stage().stream();
    write(rank, cache, false, 64);
    const StreamTimes before = stream.totals();
    write(rank, cache, false, 64);
    const StreamTimes after = stream.totals();
    const std::vector<Unit*> units = rank.engine.stage().units();
    std::int64_t all = 0;
    for (std::size_t u = 0; u < units.size(); ++u) all += stream.streamed().parts[u].own.size() * 4;
    EXPECT_TRUE(std::any_of(units.begin(), units.end(),
                            [](const Unit* u) { return u->name() == "embedding.table"; }));
    EXPECT_EQ(after.passes - before.passes, 18);
    EXPECT_EQ(after.bytes - before.bytes, 18 * all);
  });
}

TEST(Streamed, SlotsThatDoNotFitAreToldWithTheirBytes) {
  Layout layout{.zero_stage = 3, .offload = streamed(Tier::kHost, 3, 0)};
  layout.offload.device_total = 20000;
  try {
    run(task(parity::tiny_gpt2()), layout, false, 64);
    ADD_FAILURE() << "it fits";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("3 slots of the largest unit take"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace trireme::test
