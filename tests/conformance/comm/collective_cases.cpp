// Every operation, over types and sizes that do not divide.
#include <algorithm>

#include "tests/conformance/comm/comm_cases.h"
#include "tests/support/tensors.h"

namespace trireme::test {

namespace {

constexpr DType kFloats[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
constexpr DType kAll[] = {DType::kF64, DType::kF32, DType::kBF16,
                          DType::kF16, DType::kI32, DType::kU8};
constexpr std::int64_t kSizes[] = {0, 1, 2, 3, 5, 7, 16, 17, 64, 1009};

std::string title(const char* operation, DType dtype, std::int64_t n) {
  return join(operation, " of ", n, " ", name_of(dtype));
}

std::int64_t own_begin(const CaseContext& c, std::int64_t n) {
  return piece_begin(n, c.size(), c.rank());
}
std::int64_t own_count(const CaseContext& c, std::int64_t n) {
  return piece_begin(n, c.size(), c.rank() + 1) - own_begin(c, n);
}
std::vector<double> own_part(const CaseContext& c, const std::vector<double>& whole) {
  const auto n = static_cast<std::int64_t>(whole.size());
  const auto first = whole.begin() + own_begin(c, n);
  return {first, first + own_count(c, n)};
}

void all_reduce_sums(CaseContext& c) {
  for (const DType dtype : kFloats)
    for (const std::int64_t n : kSizes) {
      const Tensor x = tensor_of(c, c.rank(), n, dtype, 1);
      c.world.all_reduce(x).wait();
      same(result(c, x), sum_of_ranks(c.size(), n, dtype, dtype, 1), title("all_reduce", dtype, n));
    }
}

void all_reduce_takes_the_maximum(CaseContext& c) {
  for (const DType dtype : {DType::kF64, DType::kF32})
    for (const std::int64_t n : kSizes) {
      const Tensor x = tensor_of(c, c.rank(), n, dtype, 2);
      c.world.all_reduce(x, ReduceOp::kMax).wait();
      std::vector<double> expected = values_of(0, n, dtype, 2);
      for (int r = 1; r < c.size(); ++r) {
        const std::vector<double> theirs = values_of(r, n, dtype, 2);
        for (std::size_t i = 0; i < theirs.size(); ++i)
          expected[i] = std::max(expected[i], theirs[i]);
      }
      same(result(c, x), expected, title("all_reduce (max)", dtype, n));
    }
}

// A local partial sum, or a result lost in a temporary, shows as 1.
void all_reduce_of_ones_counts_ranks(CaseContext& c) {
  const Tensor x = tensor(c.backend, {3, 4}, DType::kF32, std::vector<double>(12, 1.0));
  c.world.all_reduce(x).wait();
  same(result(c, x), std::vector<double>(12, c.size()), "all_reduce of ones");
  check(x.shape() == Shape{3, 4}, "all_reduce changed the shape");
}

void reduce_scatter_one(CaseContext& c, DType dtype, std::int64_t n, DType to) {
  const Tensor whole = tensor_of(c, c.rank(), n, dtype, 3);
  const Tensor piece = c.backend.allocate({own_count(c, n)}, to, MemoryKind::kGradients);
  c.world.reduce_scatter(whole, piece).wait();
  same(result(c, piece), own_part(c, sum_of_ranks(c.size(), n, dtype, to, 3)),
       title("reduce_scatter", dtype, n));
  same(result(c, whole), values_of(c.rank(), n, dtype, 3), "reduce_scatter's whole");
}

void reduce_scatter_sums(CaseContext& c) {
  for (const DType dtype : kFloats)
    for (const std::int64_t n : kSizes) {
      reduce_scatter_one(c, dtype, n, dtype);
      if (accumulation_type(dtype) != dtype)
        reduce_scatter_one(c, dtype, n, accumulation_type(dtype));
    }
}

void reduce_scatter_in_place(CaseContext& c) {
  for (const DType dtype : kFloats)
    for (const std::int64_t n : kSizes) {
      const Tensor whole = tensor_of(c, c.rank(), n, dtype, 4);
      const Tensor piece = whole.elements_at(own_begin(c, n), {own_count(c, n)});
      c.world.reduce_scatter(whole, piece).wait();
      std::vector<double> expected = values_of(c.rank(), n, dtype, 4);
      const auto sum = own_part(c, sum_of_ranks(c.size(), n, dtype, dtype, 4));
      std::copy(sum.begin(), sum.end(), expected.begin() + own_begin(c, n));
      same(result(c, whole), expected, title("reduce_scatter in place", dtype, n));
    }
}

std::vector<double> gathered(const CaseContext& c, std::int64_t n, DType dtype) {
  std::vector<double> whole;
  for (int r = 0; r < c.size(); ++r) {
    const std::vector<double> theirs = values_of(r, n, dtype, 5);
    whole.insert(whole.end(), theirs.begin() + piece_begin(n, c.size(), r),
                 theirs.begin() + piece_begin(n, c.size(), r + 1));
  }
  return whole;
}

void all_gather_joins_pieces(CaseContext& c) {
  for (const DType dtype : kAll)
    for (const std::int64_t n : kSizes) {
      const Tensor mine = tensor_of(c, c.rank(), n, dtype, 5);
      const Tensor piece = mine.elements_at(own_begin(c, n), {own_count(c, n)});
      const Tensor whole = c.backend.zeros({n}, dtype, MemoryKind::kParameters);
      c.world.all_gather(piece, whole).wait();
      same(result(c, whole), gathered(c, n, dtype), title("all_gather", dtype, n));
      c.world.all_gather(piece, mine).wait();
      same(result(c, mine), gathered(c, n, dtype), title("all_gather in place", dtype, n));
    }
}

void all_gather_takes_no_tensor_for_an_empty_piece(CaseContext& c) {
  const Tensor whole = c.backend.zeros({1}, DType::kF32, MemoryKind::kParameters);
  const Tensor piece = c.rank() == 0 ? tensor_of(c, 0, 1, DType::kF32, 5) : Tensor();
  c.world.all_gather(piece, whole).wait();
  same(result(c, whole), values_of(0, 1, DType::kF32, 5), "all_gather of one element");
}

void broadcast_from_every_root(CaseContext& c) {
  for (const DType dtype : kAll)
    for (const std::int64_t n : {0, 1, 17})
      for (int root = 0; root < c.size(); ++root) {
        const Tensor x = tensor_of(c, c.rank(), n, dtype, 6);
        c.world.broadcast(x, root).wait();
        same(result(c, x), values_of(root, n, dtype, 6), title("broadcast", dtype, n));
      }
}

void all_reduce_is_reduce_scatter_and_all_gather(CaseContext& c) {
  for (const DType dtype : kFloats) {
    const std::int64_t n = 1009;
    const Tensor x = tensor_of(c, c.rank(), n, dtype, 7);
    c.world.all_reduce(x).wait();
    const Tensor y = tensor_of(c, c.rank(), n, dtype, 7);
    const Tensor piece = y.elements_at(own_begin(c, n), {own_count(c, n)});
    c.world.reduce_scatter(y, piece).wait();
    c.world.all_gather(piece, y).wait();
    same(result(c, x), result(c, y), title("all_reduce and its parts", dtype, n));
  }
}

// Pieces longer than a transport's chunk.
void large_tensors(CaseContext& c) {
  if (c.size() != 2 && c.size() != 4) return;
  const std::int64_t n = c.size() * 1'100'003;
  const Tensor x = c.backend.zeros({n}, DType::kF32, MemoryKind::kActivations);
  std::vector<float> mine(static_cast<std::size_t>(n)), sum;
  for (std::size_t i = 0; i < mine.size(); ++i)
    mine[i] = static_cast<float>((i % 8191) * static_cast<std::size_t>(c.rank() + 1));
  c.backend.upload(mine.data(), x);
  c.world.all_reduce(x).wait();
  sum.resize(mine.size());
  c.backend.download(x, sum.data());
  const int factor = c.size() * (c.size() + 1) / 2;
  for (std::size_t i = 0; i < sum.size(); ++i)
    check(sum[i] == static_cast<float>((i % 8191) * static_cast<std::size_t>(factor)),
          "all_reduce of ", n, " f32: element ", i, " is ", sum[i]);
}

void traffic_is_exact(CaseContext& c) {
  constexpr std::int64_t n = 17;
  const Tensor x = tensor_of(c, c.rank(), n, DType::kBF16, 8);
  const Tensor wide = c.backend.zeros({own_count(c, n)}, DType::kF32, MemoryKind::kGradients);
  const Tensor piece = x.elements_at(own_begin(c, n), {own_count(c, n)});
  c.world.reset_traffic();
  c.world.reduce_scatter(x, wide).wait();
  c.world.all_gather(piece, x).wait();
  c.world.all_gather(piece, x).wait();
  c.world.all_reduce(x).wait();
  c.world.broadcast(x, 0).wait();
  Pending sent = c.world.send(x, (c.rank() + 1) % c.size());
  const Tensor y = c.backend.zeros({n}, DType::kBF16, MemoryKind::kActivations);
  c.world.recv(y, (c.rank() + c.size() - 1) % c.size()).wait();
  sent.wait();
  c.world.barrier();
  const std::int64_t others = c.size() - 1, own = own_count(c, n);
  const std::int64_t scattered = 2 * (n - own), gathered_bytes = 2 * own * others;
  const std::map<std::string, std::pair<std::int64_t, std::int64_t>> expected = {
      {"world/reduce_scatter", {scattered, 1}},
      {"world/all_gather", {2 * gathered_bytes, 2}},
      {"world/all_reduce", {scattered + gathered_bytes, 1}},
      {"world/broadcast", {c.rank() == 0 ? 2 * n * others : 0, 1}},
      {"world/send", {others > 0 ? 2 * n : 0, 1}},
      {"world/recv", {0, 1}}};
  check(c.world.traffic().size() == expected.size(), "traffic has ", c.world.traffic().size(),
        " entries instead of ", expected.size());
  for (const auto& [name, entry] : c.world.traffic())
    check(expected.at(name) == std::pair(entry.bytes, entry.calls), "traffic of ", name, " is ",
          entry.bytes, " bytes in ", entry.calls, " calls");
  c.world.reset_traffic();
  check(c.world.traffic().empty(), "traffic was not reset");
}

void bad_operands_are_refused(CaseContext& c) {
  const Tensor x = tensor_of(c, c.rank(), 12, DType::kF32, 9);
  const Tensor bytes = tensor_of(c, c.rank(), 12, DType::kI32, 9);
  const Tensor half = tensor_of(c, c.rank(), 12, DType::kF16, 9);
  auto& w = c.world;
  contains(error_of([&] { (void)w.all_reduce({}); }), "the tensor is undefined");
  contains(error_of([&] { (void)w.all_reduce(bytes); }), "sums take f64, f32, bf16 or f16");
  contains(error_of([&] { (void)w.all_reduce(half, ReduceOp::kMax); }), "takes f64 or f32");
  contains(error_of([&] { (void)w.broadcast(x, c.size()); }), "is not one of 0 to");
  contains(error_of([&] { (void)w.send(x, -1); }), "rank -1 is not one of 0 to");
  const Tensor longer = c.backend.zeros({13}, DType::kF32, MemoryKind::kActivations);
  contains(error_of([&] { (void)w.all_gather(longer, x); }), "has 13 elements instead of");
  const Tensor doubles = c.backend.zeros({own_count(c, 12)}, DType::kF64, MemoryKind::kActivations);
  if (doubles.elements() == 0 || c.size() == 1) return;
  contains(error_of([&] { (void)w.reduce_scatter(x, doubles); }), "the piece is f64");
  const Tensor next = x.elements_at(c.rank() == 0 ? 1 : 0, {own_count(c, 12)});
  contains(error_of([&] { (void)w.all_gather(next, x); }), "overlaps the whole");
}

}  // namespace

std::vector<CommCase> collective_cases() {
  return {{"all_reduce sums", all_reduce_sums},
          {"all_reduce takes the maximum", all_reduce_takes_the_maximum},
          {"all_reduce of ones", all_reduce_of_ones_counts_ranks},
          {"reduce_scatter sums", reduce_scatter_sums},
          {"reduce_scatter in place", reduce_scatter_in_place},
          {"all_gather joins pieces", all_gather_joins_pieces},
          {"all_gather of an absent piece", all_gather_takes_no_tensor_for_an_empty_piece},
          {"broadcast", broadcast_from_every_root},
          {"all_reduce = reduce_scatter + all_gather", all_reduce_is_reduce_scatter_and_all_gather},
          {"large tensors", large_tensors},
          {"traffic", traffic_is_exact},
          {"bad operands", bad_operands_are_refused}};
}

}  // namespace trireme::test
