// The same families with a key/value cache: logits after every token within 1e-5 of
// `transformers`, however prompts are cut into passes and whoever shares them; greedy tokens equal;
// under layouts as on one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "framework/checkpoint/convert.h"
#include "recipes/train/model_start.h"
#include "tests/golden/families/family.h"
#include "tests/parity/train_layout.h"
#include "tests/support/faulty_files.h"
#include "tests/support/guarded_backend.h"

namespace trireme::golden {
namespace {

// Texts in a cache: pages one after the other.
class CachedTexts {
 public:
  CachedTexts(Engine& engine, Backend& backend, const std::vector<Ids>& texts)
      : engine_(engine),
        texts_(texts),
        cache_(backend, engine.cache_options(std::ssize(texts) * kPagesEach)),
        done_(texts.size(), 0),
        logits_(texts.size()) {
    for (std::size_t i = 0; i < texts.size(); ++i) {
      tables_.emplace_back(static_cast<std::size_t>(kPagesEach));
      std::iota(tables_.back().begin(), tables_.back().end(), static_cast<int>(i) * kPagesEach);
    }
  }
  // The next counts[i] tokens of each text in one pass, cut into `micros` micro-batches.
  void step(const std::vector<std::size_t>& counts, std::size_t micros) {
    std::vector<InferenceRows> rows(micros);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      InferenceRows& r = rows[i % micros];
      const auto first = std::ssize(r.ids);
      r.sequences.push_back({first, static_cast<std::int64_t>(counts[i]),
                             static_cast<std::int64_t>(done_[i]), tables_[i]});
      for (std::size_t t = 0; t < counts[i]; ++t) {
        r.logit_rows.push_back(std::ssize(r.ids));
        r.ids.push_back(texts_[i][done_[i] + t]);
      }
    }
    std::erase_if(rows, [](const InferenceRows& r) { return r.ids.empty(); });
    const std::vector<Logits> all = engine_.infer(cache_, rows);
    const auto vocab = static_cast<std::ptrdiff_t>(engine_.options().model.vocab);
    std::vector<std::ptrdiff_t> at(micros, 0);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const Logits& from = all[std::min(i % micros, all.size() - 1)];
      if (counts[i] == 0 || from.empty()) continue;
      std::ptrdiff_t& begin = at[i % micros];
      const auto size = static_cast<std::ptrdiff_t>(counts[i]) * vocab;
      logits_[i].insert(logits_[i].end(), from.begin() + begin, from.begin() + begin + size);
      begin += size;
    }
    for (std::size_t i = 0; i < counts.size(); ++i) done_[i] += counts[i];
  }
  std::size_t left(std::size_t i) const { return texts_[i].size() - done_[i]; }
  const std::vector<Logits>& logits() const { return logits_; }

 private:
  static constexpr int kPagesEach = 4;
  Engine& engine_;
  std::vector<Ids> texts_;
  KvCache cache_;
  std::vector<std::size_t> done_;
  std::vector<std::vector<std::int32_t>> tables_;
  std::vector<Logits> logits_;
};

void expect_logits(const Family& family, const std::vector<Logits>& logits) {
  const std::vector<double> expected = family.expected("logits");
  std::size_t at = 0;
  for (const Logits& text : logits) {
    if (text.empty()) return;  // another stage's
    for (const float logit : text) {
      ASSERT_NEAR(logit, expected[at], 1e-5 * std::max(1.0, std::abs(expected[at]))) << at;
      ++at;
    }
  }
  ASSERT_EQ(at, expected.size());
}

void run_cuts(const Family& family, parity::Rank& rank) {
  const std::vector<Ids>& texts = family.samples();
  const auto whole = [&](std::size_t micros) {
    CachedTexts cached(rank.engine, rank.backend, texts);
    std::vector<std::size_t> counts;
    for (const Ids& text : texts) counts.push_back(text.size());
    cached.step(counts, micros);
    expect_logits(family, cached.logits());
  };
  const auto token_by_token = [&](CachedTexts& cached) {
    for (std::size_t i = 0; i < texts.size(); ++i)
      while (cached.left(i) > 0) {
        std::vector<std::size_t> counts(texts.size(), 0);
        counts[i] = 1;
        cached.step(counts, 1);
      }
    expect_logits(family, cached.logits());
  };
  whole(1);
  whole(2);
  {  // one text after the other, token by token
    CachedTexts cached(rank.engine, rank.backend, texts);
    token_by_token(cached);
  }
  {  // chunks, the later texts joining while the earlier ones go on
    CachedTexts cached(rank.engine, rank.backend, texts);
    for (std::size_t pass = 0; cached.left(texts.size() - 1) > 0; ++pass) {
      std::vector<std::size_t> counts(texts.size(), 0);
      for (std::size_t i = 0; i < texts.size(); ++i)
        if (i <= pass) counts[i] = std::min(cached.left(i), std::size_t{i == 0 ? 1u : 5u + i});
      cached.step(counts, 1);
    }
    token_by_token(cached);
  }
}

void expect_greedy(const Family& family, parity::Rank& rank) {
  const Ids& ids = family.greedy();
  CachedTexts cached(rank.engine, rank.backend, {ids});
  cached.step({family.prompt()}, 1);
  for (std::size_t n = family.prompt(); n < ids.size(); ++n) {
    const Logits& all = cached.logits()[0];
    if (!all.empty()) {
      const auto last = all.end() - static_cast<std::ptrdiff_t>(rank.engine.options().model.vocab);
      EXPECT_EQ(std::max_element(last, all.end()) - last, ids[n]);
    }
    cached.step({1}, 1);
  }
}

void expect_family(const std::string& name, const parity::Layout& layout,
                   const BackendMaker& backend) {
  SCOPED_TRACE(name + ": " + text_of(layout));
  const Family family(name);
  parity::Task task{.model = family.model(),
                    .global_batch = std::ssize(family.samples()),
                    .label_smoothing = 0,
                    .compute = DType::kF32};
  task.backend = backend;
  parity::run_layout(task, layout, [&](parity::Rank& rank) {
    rank.engine.kept().load_values(family.weights());
    run_cuts(family, rank);
    expect_greedy(family, rank);
  });
}

TEST(CachedFamilies, GuardedBackend) {
  for (const std::string& name : families()) expect_family(name, {}, test::make_guarded_backend);
}

TEST(CachedFamilies, CpuBackend) {
  const BackendMaker cpu = cpu_backend_maker();
  if (!cpu) GTEST_SKIP() << "this build has no cpu backend";
  for (const std::string& name : families()) expect_family(name, {}, cpu);
}

// One key/value head on three tensor ranks is replicated; stages get several micro-batches; weights
// that are sharded, and at home on the host, are gathered for each pass.
TEST(CachedFamilies, Layouts) {
  const parity::Layout tensor{.mesh = {.tensor = 3}, .micro = 2};
  const parity::Layout stages{.mesh = {.pipeline = 2}};
  const parity::Layout host{
      .mesh = {.data = 2}, .zero_stage = 3, .offload = {.parameters = Tier::kHost}};
  for (const std::string& name : families())
    for (const parity::Layout& layout : {tensor, stages, host})
      expect_family(name, layout, make_reference_backend);
}

// The folder with its weights as f32, which they are computed in.
void write_wide(const std::string& from, const testing::TemporaryFolder& to) {
  const auto files = real_files();
  write_whole_atomically(*files, to / "config.json",
                         read_whole(*files, path_join(from, "config.json")));
  const SafetensorsFile narrow(*files, path_join(from, "model.safetensors"));
  std::string header, data;
  for (const SafeTensor& t : narrow.tensors()) {
    std::vector<std::byte> raw(static_cast<std::size_t>(t.bytes));
    std::vector<std::byte> wide(static_cast<std::size_t>(t.elements() * 4));
    narrow.read(t, 0, t.bytes, raw.data());
    converter(*dtype_of_safetensors(t.dtype), DType::kF32)(raw.data(), wide.data(), t.elements());
    std::string shape;
    for (const std::int64_t extent : t.shape) shape += (shape.empty() ? "" : ",") + join(extent);
    header +=
        join(header.empty() ? "{" : ",", "\"", t.name, "\":{\"dtype\":\"F32\",\"shape\":[", shape,
             "],\"data_offsets\":[", data.size(), ",", data.size() + wide.size(), "]}");
    data.append(reinterpret_cast<const char*>(wide.data()), wide.size());
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const auto length = static_cast<std::uint64_t>(header.size());
  write_whole_atomically(*files, to / "model.safetensors",
                         std::string(reinterpret_cast<const char*>(&length), 8) + header + data);
}

// Weights that never were loaded: each pass reads them where the folder has them. GPT-2's are
// stored transposed, and tensor ranks cut rows: these are streamed from a copy.
void expect_streamed(const std::string& name, const MeshShape& mesh, const BackendMaker& backend) {
  const parity::Layout layout{
      .mesh = mesh, .zero_stage = 3, .offload = {.parameters = Tier::kDisk, .slots = 2}};
  SCOPED_TRACE(name + ": " + text_of(layout));
  const Family family(name);
  const testing::TemporaryFolder folder;
  write_wide(family.path(), folder);
  parity::Task task{
      .model = family.model(), .global_batch = 6, .compute = DType::kF32, .forward_only = true};
  task.backend = backend;
  parity::run_layout(task, layout, [&](parity::Rank& rank) {
    const auto files = real_files();
    load_model_folder({nullptr, rank.engine, rank.mesh, rank.backend, rank.backend}, *files,
                      folder.path());
    EXPECT_EQ(rank.engine.stage().stream()->reads_in_place(), name != "gpt2" && mesh.tensor == 1);
    run_cuts(family, rank);
    expect_greedy(family, rank);
  });
}

TEST(CachedFamilies, StreamedFromTheirOwnFiles) {
  for (const std::string& name : families()) {
    expect_streamed(name, {}, test::make_guarded_backend);
    for (const MeshShape& mesh :
         {MeshShape{}, MeshShape{.data = 2}, MeshShape{.pipeline = 2}, MeshShape{.tensor = 3}})
      expect_streamed(name, mesh, make_reference_backend);
    if (const BackendMaker cpu = cpu_backend_maker()) expect_streamed(name, {}, cpu);
  }
}

}  // namespace
}  // namespace trireme::golden
