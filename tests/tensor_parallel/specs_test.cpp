// Descriptors of cut parameters: who holds what, who counts it, what is refused.
#include <gtest/gtest.h>

#include "tensor_parallel/attention.h"
#include "tensor_parallel/embedding.h"
#include "tests/support/ranks.h"

namespace trireme::test {
namespace {

TEST(PaddedVocab, IsAMultipleOfTheRanks) {
  EXPECT_EQ(padded_vocab(13, 1), 13);
  EXPECT_EQ(padded_vocab(13, 2), 14);
  EXPECT_EQ(padded_vocab(13, 4), 16);
  EXPECT_EQ(padded_vocab(1024, 2), 1024);
  EXPECT_EQ(padded_vocab(50257, 1), 50304);
  EXPECT_EQ(padded_vocab(50257, 2), 50304);
  EXPECT_EQ(padded_vocab(50257, 4), 50432);
}

TEST(VocabTable, PaddingRowsBelongToNoSection) {
  on_ranks(8, [](Communicator& world, Backend&) {
    const ParameterSpec spec =
        vocab_table({&world}, "table", 13, 3, 0.02, SumGroup::kEnds, false);  // 2 rows each
    EXPECT_EQ(spec.shape, (Shape{2, 3}));
    ASSERT_EQ(spec.sections.size(), 1U);
    const Section& s = spec.sections[0];
    EXPECT_EQ(s.logical, (Shape{13, 3}));
    EXPECT_EQ(s.rows, world.rank() < 6 ? 2 : world.rank() == 6 ? 1 : 0);
    EXPECT_EQ(s.global_row, std::min(13, 2 * world.rank()));
    EXPECT_EQ(s.sum, SumGroup::kEnds);
    EXPECT_FALSE(s.counts_in_norm);
    EXPECT_NO_THROW(Parameter{spec});
  });
}

TEST(Attention, FewerKvHeadsThanRanksAreHeldByNeighbours) {
  on_ranks(4, [](Communicator& world, Backend&) {
    SelfAttention module({&world}, "a", {.columns = 8, .heads = 4, .kv_heads = 2, .head_dim = 3});
    module.visit([&](Parameter& p) {
      if (p.name() != "a.qkv.weight") return;
      ASSERT_EQ(p.spec().sections.size(), 3U);
      const Section &q = p.spec().sections[0], &k = p.spec().sections[1];
      EXPECT_EQ(q.global_row, 3 * world.rank());
      EXPECT_EQ(k.name, "a.k.weight");
      EXPECT_EQ(k.logical, (Shape{6, 8}));
      EXPECT_EQ(k.global_row, world.rank() < 2 ? 0 : 3);
      EXPECT_EQ(k.sum, SumGroup::kKvReplicas);
      EXPECT_EQ(k.counts_in_norm, world.rank() % 2 == 0);
    });
  });
}

template <typename Body>
std::string refusal(int ranks, const Body& body) {
  try {
    on_ranks(ranks, [&](Communicator& world, Backend&) { body(TensorGroup{&world}); });
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Refusals, NameTheLegalSizes) {
  const auto attention = [](std::int64_t heads, std::int64_t kv_heads) {
    return [=](const TensorGroup& group) {
      SelfAttention(group, "a",
                    {.columns = 8, .heads = heads, .kv_heads = kv_heads, .head_dim = 2});
    };
  };
  EXPECT_NE(refusal(2, attention(3, 3))
                .find("3 attention heads cannot be split over 2 tensor "
                      "ranks; use 1 or 3"),
            std::string::npos);
  EXPECT_NE(refusal(1, attention(4, 3)).find("use 1, 2 or 4"), std::string::npos);
  EXPECT_NE(refusal(2, attention(6, 3)).find("3 key/value heads cannot be split over 2"),
            std::string::npos);
  EXPECT_NE(refusal(2, [](const TensorGroup& group) { even_part(group, "mlp.up", 7); })
                .find("column linear mlp.up: 7 outputs cannot be cut over 2 tensor ranks"),
            std::string::npos);
  EXPECT_NE(refusal(2,
                    [](const TensorGroup& group) {
                      RowLinear(group, {.name = "mlp.down", .inputs = 7}, 4, false);
                    })
                .find("row linear mlp.down: 7 inputs cannot be cut over 2 tensor ranks"),
            std::string::npos);
  EXPECT_EQ(legal_divisors(12), "1, 2, 3, 4, 6 or 12");
  EXPECT_EQ(legal_divisors(1), "1");
}

}  // namespace
}  // namespace trireme::test
