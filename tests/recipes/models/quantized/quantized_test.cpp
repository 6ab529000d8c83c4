// Models with weights of 8 and 4 bits: their logits are those of the values that the bits stand
// for, as far from the full model's as the steps of quantization say; layouts, cuts of rows and
// company change no greedy token; there is never more of the full weights in memory than a piece.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "framework/base/error.h"
#include "tests/parity/train_layout.h"
#include "tests/support/guarded_backend.h"

namespace trireme::test {
namespace {

using Ids = std::vector<std::int32_t>;
using parity::Layout;
using parity::Logical;
using parity::Rank;
using parity::Task;

constexpr WeightFormat kFormats[] = {WeightFormat::kInt8, WeightFormat::kInt4};
constexpr std::int64_t kPages = 4;  // of each text
constexpr std::int64_t kTexts = 3;

// Inputs of row linears can be cut in two between groups of 64.
ModelOptions model_of(bool llama) {
  ModelOptions m = llama ? parity::tiny_llama(2) : parity::tiny_gpt2();
  m.layers = 3;
  m.hidden = 128;
  m.heads = 4;
  m.kv_heads = llama ? 2 : 4;
  m.head_dim = 32;
  m.ffn = 256;
  m.vocab = 61;
  m.sequence = 48;
  return m;
}

Task task_of(bool llama, WeightFormat weights, DType compute = DType::kF32) {
  return {.model = model_of(llama), .compute = compute, .forward_only = true, .weights = weights};
}

// Weights of a size at which every layer matters.
void fill(const Section& s, std::int64_t columns, std::span<double> out) {
  const bool norm = s.name.find("norm") != s.name.npos && s.name.ends_with("weight");
  const Init init = norm ? Init{Init::Kind::kOnes} : Init{Init::Kind::kNormal, 0.12};
  initial_values(init, 5)(s, columns, out);
}

struct Text {
  Ids ids;
  std::int64_t prompt = 0, done = 0;
};
std::vector<Text> prompts() {
  std::vector<Text> all(kTexts);
  for (std::int32_t i = 0; i < kTexts; ++i) {
    Text& text = all[static_cast<std::size_t>(i)];
    text.prompt = 3 + 11 * i;
    for (std::int32_t t = 0; t < text.prompt; ++t) text.ids.push_back((t * t + 3 * t + 7 * i) % 61);
  }
  return all;
}

struct Greedy {
  std::vector<Ids> ids;
  std::vector<Logits> logits;                               // of each token that was written
  int astray = 0;                                           // tokens that were not the forced ones
  double margin = std::numeric_limits<double>::infinity();  // the least, between the first two
};

void take(const Logits& from, std::size_t at, std::size_t width, Text& text, Logits& kept,
          Greedy& told) {
  const auto begin = from.begin() + static_cast<std::ptrdiff_t>(at * width);
  const auto end = begin + static_cast<std::ptrdiff_t>(width);
  Logits sorted(begin, end);
  std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater<>());
  told.margin = std::min<double>(told.margin, sorted[0] - sorted[1]);
  text.ids.push_back(static_cast<std::int32_t>(std::max_element(begin, end) - begin));
  kept.insert(kept.end(), begin, end);
}

// Eight greedy tokens of each text, together or one text after the other, prompts in chunks. Every
// rank runs the same rows, so each needs the tokens: they are `forced`, or, on one stage, its own.
Greedy write(Rank& rank, bool together, std::int64_t chunk, const Greedy* forced = nullptr) {
  constexpr std::int64_t kWritten = 8;
  KvCache cache(rank.backend, rank.engine.cache_options(kPages * kTexts));
  std::vector<std::int32_t> pages(kPages * kTexts);
  std::iota(pages.begin(), pages.end(), 0);
  std::vector<Text> all = prompts();
  Greedy told{.logits = std::vector<Logits>(kTexts)};
  const auto width = static_cast<std::size_t>(rank.engine.options().model.vocab);
  for (;;) {
    InferenceRows pass;
    std::vector<std::size_t> who;  // gets a token
    bool any = false;
    for (std::size_t i = 0; i < kTexts; ++i) {
      Text& text = all[i];
      const std::int64_t left = std::ssize(text.ids) - text.done;
      if (text.done >= text.prompt + kWritten - 1 || (any && !together)) continue;
      any = true;
      const std::int64_t rows = std::min(left, chunk), first = std::ssize(pass.ids);
      const auto from = text.ids.begin() + text.done;
      pass.ids.insert(pass.ids.end(), from, from + rows);
      pass.sequences.push_back(
          {first, rows, text.done, std::span(pages).subspan(i * kPages, kPages)});
      text.done += rows;
      if (rows < left) continue;
      pass.logit_rows.push_back(first + rows - 1);
      who.push_back(i);
    }
    if (!any) break;
    const Logits& logits = rank.engine.infer(cache, std::span(&pass, 1)).front();
    for (std::size_t w = 0; w < who.size(); ++w) {
      Text& text = all[who[w]];
      if (!logits.empty()) take(logits, w, width, text, told.logits[who[w]], told);
      if (!forced) continue;
      const std::size_t at = logits.empty() ? text.ids.size() : text.ids.size() - 1;
      if (logits.empty()) text.ids.push_back(-1);
      told.astray += text.ids[at] != forced->ids[who[w]][at];
      text.ids[at] = forced->ids[who[w]][at];
    }
  }
  for (const Text& text : all) told.ids.push_back(text.ids);
  return told;
}

void run(const Task& task, const Layout& layout, const std::function<void(Rank&)>& body) {
  run_layout(task, layout, [&](Rank& rank) {
    rank.engine.kept().load_values(fill);
    body(rank);
  });
}

Greedy alone(const Task& task, bool together = true, std::int64_t chunk = 64) {
  Greedy told;
  run(task, {}, [&](Rank& rank) { told = write(rank, together, chunk); });
  return told;
}

std::vector<float> whole_tensor(const std::string& name, const Shape& logical) {
  std::vector<double> values(static_cast<std::size_t>(logical.elements()));
  fill(whole_section(name, logical), logical[1], values);
  return {values.begin(), values.end()};
}

// What the bits of a tensor stand for, and by how much that is off, in the mean of squares.
struct Values {
  std::vector<float> values;
  double error = 0, size = 0;  // sums of squares
  double bound = 0;            // of `error`: half a step, squared and added up
};
Values quantized_values(WeightFormat format, const std::string& name, const Shape& logical) {
  const std::vector<float> full = whole_tensor(name, logical);
  const std::int64_t n = logical[0], k = logical[1];
  const QuantizedShape shape{format, n, k};
  std::vector<std::uint8_t> blob(static_cast<std::size_t>(shape.bytes()));
  for (std::int64_t b = 0; b < shape.blocks(); ++b) {
    const std::int64_t first = b * kQuantRows, rows = std::min(kQuantRows, n - first);
    quantize_block(shape, {k, 0},
                   std::span(full).subspan(static_cast<std::size_t>(first * k),
                                           static_cast<std::size_t>(rows * k)),
                   blob.data() + b * shape.block_bytes());
  }
  Values v{.values = std::vector<float>(full.size())};
  for (std::int64_t r = 0; r < n; ++r) {
    dequantize_row(shape, blob.data(), r, v.values.data() + r * k);
    for (std::int64_t c = 0; c < k; ++c) {
      const auto at = static_cast<std::size_t>(r * k + c);
      v.error += std::pow(static_cast<double>(v.values[at]) - full[at], 2);
      v.size += std::pow(full[at], 2);
      v.bound += std::pow(quantized_scale(shape, blob.data(), r, c), 2) / 4;
    }
  }
  return v;
}

std::map<std::string, Values> values_of(const Task& task) {
  std::map<std::string, Values> all;
  Task plain = task;
  plain.weights = WeightFormat::kPlain;
  run_layout(plain, {}, [&](Rank& rank) {
    rank.engine.stage().visit([&](Parameter& p) {
      const WeightFormat format = held_format(p.spec(), task.weights);
      if (format == WeightFormat::kPlain) return;
      EXPECT_EQ(format == WeightFormat::kInt8, task.weights == WeightFormat::kInt8 ||
                                                   p.name() == "embedding.table" ||
                                                   p.name() == "head.weight");
      for (const Section& s : p.spec().sections)
        all.emplace(s.name, quantized_values(format, s.name, s.logical));
    });
  });
  return all;
}

double squares(const Logits& x) { return std::inner_product(x.begin(), x.end(), x.begin(), 0.0); }
Logits minus(Logits a, const Logits& b) {
  std::transform(a.begin(), a.end(), b.begin(), a.begin(), std::minus<>());
  return a;
}

// The outside oracle: the same model, in full, of the values that the bits stand for.
TEST(QuantizedModel, LogitsAreThoseOfTheValues) {
  for (const bool llama : {false, true})
    for (const WeightFormat format : kFormats) {
      SCOPED_TRACE(std::string(llama ? "llama " : "gpt2 ") + std::string(name_of(format)));
      const Task task = task_of(llama, format, DType::kF64);
      const std::map<std::string, Values> values = values_of(task);
      EXPECT_GT(values.size(), 12U);
      const Greedy got = alone(task);
      Task plain = task;
      plain.weights = WeightFormat::kPlain;
      run_layout(plain, {}, [&](Rank& rank) {
        rank.engine.kept().load_values([&](const Section& s, std::int64_t columns,
                                           std::span<double> out) {
          const auto found = values.find(s.name);
          if (found == values.end()) return fill(s, columns, out);
          const float* from = found->second.values.data() + s.global_row * s.logical[1];
          for (std::size_t i = 0; i < out.size(); ++i) {
            const auto row = static_cast<std::int64_t>(i) / columns;
            out[i] =
                from[row * s.logical[1] + s.global_column + static_cast<std::int64_t>(i) % columns];
          }
        });
        const Greedy expected = write(rank, true, 64);
        EXPECT_EQ(got.ids, expected.ids);
        for (std::size_t i = 0; i < kTexts; ++i)
          for (std::size_t j = 0; j < expected.logits[i].size(); ++j)
            ASSERT_NEAR(got.logits[i][j], expected.logits[i][j],
                        1e-6 * (1 + std::abs(expected.logits[i][j])));
      });
    }
}

// First order: relative errors of the matrices that a row passes, independent of each other, add up
// in squares; a residual stream does not make them larger than about that. The errors themselves
// are below what half a step allows.
TEST(QuantizedModel, ErrorsAreThoseOfTheSteps) {
  for (const bool llama : {false, true}) {
    const Task full = task_of(llama, WeightFormat::kPlain);
    const Greedy right = alone(full);
    double before = 0;
    for (const WeightFormat format : kFormats) {
      const Task task = task_of(llama, format);
      double relative = 0;
      for (const auto& [name, v] : values_of(task)) {
        EXPECT_LE(v.error, v.bound) << name;
        EXPECT_GT(v.error, v.bound / 12) << name;  // a third of it if errors are even
        relative += v.error / v.size;
      }
      run(task, {}, [&](Rank& rank) {
        const Greedy got = write(rank, true, 64, &right);
        double error = 0, size = 0;
        for (std::size_t i = 0; i < kTexts; ++i) {
          error += squares(minus(got.logits[i], right.logits[i]));
          size += squares(right.logits[i]);
        }
        EXPECT_LE(error / size, 4 * relative) << name_of(format);
        EXPECT_GT(error / size, 4 * before) << name_of(format);  // int8 is far better than int4
        before = error / size;
      });
    }
  }
}

// Which layouts change sums: tensor ranks only.
TEST(QuantizedModel, GreedyTokensAreTheSameUnderEveryLayout) {
  for (const bool llama : {false, true})
    for (const WeightFormat format : kFormats) {
      const Task task = task_of(llama, format);
      const Greedy right = alone(task);
      ASSERT_GT(right.margin, 1e-4);
      for (const bool together : {false, true})
        for (const std::int64_t chunk : {1, 5}) {
          const Greedy cut = alone(task, together, chunk);
          EXPECT_EQ(cut.logits, right.logits);
        }
      const auto streamed = [](MeshShape mesh, Tier from) {
        return Layout{.mesh = mesh,
                      .zero_stage = 3,
                      .offload = {.parameters = from, .slots = 2, .resident = 0}};
      };
      for (const Layout& layout :
           {Layout{.mesh = {.tensor = 2}}, Layout{.mesh = {.pipeline = 2}},
            Layout{.mesh = {.pipeline = 2, .tensor = 2}},
            Layout{.mesh = {.data = 2}, .zero_stage = 3}, Layout{.mesh = {.data = 2}},
            Layout{.zero_stage = 3}, streamed({}, Tier::kHost), streamed({}, Tier::kDisk),
            streamed({.data = 3}, Tier::kHost), streamed({.data = 2, .tensor = 2}, Tier::kDisk)}) {
        SCOPED_TRACE(text_of(layout) + " " + std::string(name_of(format)));
        run(task, layout, [&](Rank& rank) {
          const Greedy got = write(rank, true, 7, &right);
          if (rank.mesh.coord().pipeline + 1 < rank.mesh.shape().pipeline) return;
          EXPECT_EQ(got.astray, 0);
          if (layout.mesh.tensor == 1) {
            EXPECT_EQ(got.logits, right.logits);
          }
        });
      }
    }
}

// Nobody but backends touches device memory.
TEST(QuantizedModel, OnADeviceOfItsOwn) {
  for (const WeightFormat format : kFormats) {
    Task task = task_of(true, format);
    const Greedy right = alone(task);
    task.backend = make_guarded_backend;
    EXPECT_EQ(alone(task).logits, right.logits);
    run(task, {.zero_stage = 3, .offload = {.parameters = Tier::kHost, .slots = 3, .resident = 0}},
        [&](Rank& rank) { EXPECT_EQ(write(rank, false, 9).logits, right.logits); });
  }
}

// The cpu backend: f32 beside the reference; in bf16 rows become bytes, and still neither company
// nor cuts change a bit.
TEST(QuantizedModel, OnTheCpu) {
  Task task = task_of(true, WeightFormat::kInt8);
  const Greedy reference = alone(task);
  task.backend = [](std::shared_ptr<MemoryLedger> ledger) {
    return make_cpu_backend(std::move(ledger), 1);
  };
  try {
    task.backend(std::make_shared<MemoryLedger>());
  } catch (const Error&) {
    GTEST_SKIP() << "no cpu backend in this build";
  }
  for (const WeightFormat format : kFormats) {
    task.weights = format;
    for (const DType compute : {DType::kF32, DType::kBF16}) {
      task.compute = compute;
      const Greedy right = alone(task);
      if (format == WeightFormat::kInt8 && compute == DType::kF32) {
        EXPECT_EQ(right.ids, reference.ids);
      }
      EXPECT_EQ(alone(task, true, 20).logits, right.logits) << name_of(compute);
      EXPECT_EQ(alone(task, false, 5).logits, right.logits) << name_of(compute);
      for (const std::int64_t resident : {0, 40000, 10000000})
        run(task,
            {.zero_stage = 3,
             .offload = {.parameters = Tier::kDisk, .slots = 2, .resident = resident}},
            [&](Rank& rank) { EXPECT_EQ(write(rank, true, 64).logits, right.logits); });
    }
  }
}

// Evaluation and the reports of training use no cache.
TEST(QuantizedModel, EvaluationReadsTheSameWeights) {
  for (const WeightFormat format :
       {WeightFormat::kPlain, WeightFormat::kInt8, WeightFormat::kInt4}) {
    const Task task = task_of(true, format, DType::kF64);
    run(task, {}, [&](Rank& rank) {
      const SampleSource samples = parity::random_samples(task.model, 3);
      Ids ids, labels;
      samples(0, 1, ids, labels);
      const std::vector<double> logits = rank.engine.next_logits(ids);
      std::fill(labels.begin(), labels.end() - 1, -1);
      labels.back() = 17;
      const double loss = rank.engine.evaluate(1, {[&](std::int64_t, std::int64_t, Ids& i, Ids& l) {
                                                     i = ids;
                                                     l = labels;
                                                   },
                                                   {}});
      double sum = 0;
      for (const double x : logits) sum += std::exp(x - logits[17]);
      EXPECT_NEAR(loss, std::log(sum), 1e-9);
    });
  }
}

// Bytes of the weights as formulas say; beside them, while they load, one piece.
TEST(QuantizedModel, TheFullWeightsAreNeverThere) {
  for (const WeightFormat format : kFormats) {
    Task task = task_of(true, format);
    task.model.layers = 12;
    run_layout(task, {}, [&](Rank& rank) {  // loads initial values
      std::int64_t expected = 0, full = 0, largest = 0;
      for (const Unit* unit : rank.engine.stage().units()) {
        std::int64_t of_unit = 0;
        for (const Parameter* p : unit->parameters()) of_unit += p->spec().shape.elements() * 4;
        full += of_unit;
        largest = std::max(largest, of_unit);
        expected += unit->layout().padded();
        EXPECT_EQ(unit->weights().dtype(), DType::kU8);
      }
      const MemoryLedger& ledger = rank.backend.ledger();
      const auto weights = ledger.entry(Tier::kDevice, MemoryKind::kParameters);
      EXPECT_EQ(weights.current, expected);
      EXPECT_EQ(weights.peak, expected);
      EXPECT_LT(expected, full * (format == WeightFormat::kInt8 ? 0.30 : 0.18));
      EXPECT_LE(ledger.peak(Tier::kDevice), expected + 2 * largest);
      EXPECT_LT(ledger.peak(Tier::kDevice), full / 2);
    });
  }
}

void expect_refused(const Task& task, const Layout& layout, const SectionSource& source,
                    const std::vector<std::string>& words) {
  try {
    run_layout(task, layout, [&](Rank& rank) { rank.engine.kept().load_values(source); });
    FAIL() << "not refused";
  } catch (const Error& error) {
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

TEST(QuantizedModel, Refusals) {
  Task task = task_of(true, WeightFormat::kInt4);
  task.model.ffn = 192;  // 96 a rank
  expect_refused(task, {.mesh = {.tensor = 2}}, fill,
                 {"mlp.down.weight", "64 inputs", "of 192 cut such a group"});
  task = task_of(false, WeightFormat::kInt8);
  task.forward_only = false;
  expect_refused(task, {}, fill, {"cannot be trained"});
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    for (const WeightFormat format : kFormats)
      expect_refused(task_of(true, format), {},
                     [&](const Section& s, std::int64_t columns, std::span<double> out) {
                       fill(s, columns, out);
                       if (s.name == "layers.1.attention.output.weight" && s.global_row == 0)
                         out[130] = bad;
                     },
                     {"layers.1.attention.output.weight", "row 1"});
}

}  // namespace
}  // namespace trireme::test
