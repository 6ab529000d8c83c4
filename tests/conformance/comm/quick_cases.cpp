// quick_all_reduce: the bits of all_reduce, counted exactly, in flight beside other operations, and
// named when ranks disagree or do not come.
#include "tests/conformance/comm/comm_cases.h"
#include "tests/support/tensors.h"

namespace trireme::test {

namespace {

constexpr DType kFloats[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

// Up to the limit, at it, and one element beyond.
void has_the_bits_of_all_reduce(CaseContext& c) {
  for (const DType dtype : kFloats) {
    const std::int64_t most = kQuickBytes / size_of(dtype);
    for (const std::int64_t n :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{3}, std::int64_t{577}, most, most + 1}) {
      const Tensor quick = tensor_of(c, c.rank(), n, dtype, 21);
      c.world.quick_all_reduce(quick).wait();
      const Tensor usual = tensor_of(c, c.rank(), n, dtype, 21);
      c.world.all_reduce(usual).wait();
      const std::string what = join("quick_all_reduce of ", n, " ", name_of(dtype));
      const std::vector<double> sums = result(c, quick);
      same(sums, result(c, usual), what);
      if (n < 1000) same(sums, sum_of_ranks(c.size(), n, dtype, dtype, 21), what);
    }
  }
}

void keeps_its_shape_and_sums_in_place(CaseContext& c) {
  const Tensor x = tensor(c.backend, {3, 4}, DType::kF32, std::vector<double>(12, 1.0));
  c.world.quick_all_reduce(x).wait();
  same(result(c, x), std::vector<double>(12, c.size()), "quick_all_reduce of ones");
  check(x.shape() == Shape{3, 4}, "quick_all_reduce changed the shape");
}

// Several at once, waited for in another order on every other rank, beside the usual one.
void is_in_flight_with_others(CaseContext& c) {
  constexpr std::int64_t n = 65;
  std::vector<Tensor> all;
  std::vector<Pending> pending;
  for (std::uint64_t i = 0; i < 6; ++i) {
    all.push_back(tensor_of(c, c.rank(), n, DType::kF32, 30 + i));
    pending.push_back(i % 3 == 2 ? c.world.all_reduce(all.back())
                                 : c.world.quick_all_reduce(all.back()));
  }
  for (std::size_t i = 0; i < pending.size(); ++i)
    pending[c.rank() % 2 == 0 ? i : pending.size() - 1 - i].wait();
  for (std::uint64_t i = 0; i < 6; ++i)
    same(result(c, all[i]), sum_of_ranks(c.size(), n, DType::kF32, DType::kF32, 30 + i),
         join("operation ", i, " in flight"));
}

// The sum of a rank that is done may change while others still add.
void a_sum_may_change_at_once(CaseContext& c) {
  for (std::uint64_t round = 0; round < 200; ++round) {
    const Tensor x = tensor_of(c, c.rank(), 33, DType::kF32, round);
    c.world.quick_all_reduce(x).wait();
    const std::vector<double> sum = result(c, x);
    const std::vector<float> other(33, -1e30F);
    c.backend.upload(other.data(), x);
    same(sum, sum_of_ranks(c.size(), 33, DType::kF32, DType::kF32, round), join("round ", round));
  }
}

void is_counted_exactly(CaseContext& c) {
  constexpr std::int64_t n = 17;
  const Tensor x = tensor_of(c, c.rank(), n, DType::kBF16, 8);
  c.world.reset_traffic();
  c.world.quick_all_reduce(x).wait();
  const Traffic& traffic = c.world.traffic();
  check(traffic.size() == 1 && traffic.contains("world/quick_all_reduce"), "traffic of ",
        traffic.size(), " operations");
  const TrafficEntry& entry = traffic.at("world/quick_all_reduce");
  check(entry.bytes == 2 * n * (c.size() - 1) && entry.calls == 1, "quick_all_reduce sent ",
        entry.bytes, " bytes in ", entry.calls, " calls");
}

void refuses_what_has_no_sum(CaseContext& c) {
  const Tensor ids = tensor_of(c, c.rank(), 4, DType::kI32, 9);
  contains(error_of([&] { (void)c.world.quick_all_reduce(ids); }),
           "sums take f64, f32, bf16 or f16");
  contains(error_of([&] { (void)c.world.quick_all_reduce({}); }), "the tensor is undefined");
}

bool is_odd(const CaseContext& c) { return c.rank() == c.size() - 1; }

void the_usual_one_instead(CaseContext& c) {
  const Tensor x = tensor_of(c, c.rank(), 16, DType::kF32, 1);
  const std::string error =
      error_of([&] { (is_odd(c) ? c.world.all_reduce(x) : c.world.quick_all_reduce(x)).wait(); });
  contains(error, join("rank ", c.size() - 1,
                       " called all_reduce of 16 f32 (64 bytes), call 1 of world, where rank 0 "
                       "called quick_all_reduce of 16 f32 (64 bytes), call 1 of world"));
}

void another_quick_count(CaseContext& c) {
  const Tensor x = tensor_of(c, c.rank(), is_odd(c) ? 17 : 16, DType::kF32, 1);
  const std::string error = error_of([&] { c.world.quick_all_reduce(x).wait(); });
  contains(error, join("rank ", c.size() - 1, " called quick_all_reduce of 17 f32"));
}

void a_rank_never_comes_to_it(CaseContext& c) {
  const int missing = c.size() - 1;
  c.world.set_place("a pass");
  c.world.barrier();
  if (c.rank() == missing) return c.meet();
  c.clock.advance_at_every_look(kCaseTimeout / 4);
  const Tensor x = tensor_of(c, c.rank(), 5, DType::kF32, 1);
  const std::string error = error_of([&] { c.world.quick_all_reduce(x).wait(); });
  c.meet();
  contains(error,
           "quick_all_reduce of 5 f32 (20 bytes), call 2 of world at a pass did not complete in "
           "30 s");
  contains(error, join("rank ", missing, " has not arrived"));
}

}  // namespace

std::vector<CommCase> quick_cases() {
  return {{"quick_all_reduce has the bits of all_reduce", has_the_bits_of_all_reduce},
          {"quick_all_reduce in place", keeps_its_shape_and_sums_in_place},
          {"quick_all_reduce in flight", is_in_flight_with_others},
          {"quick_all_reduce, then other values", a_sum_may_change_at_once},
          {"quick_all_reduce is counted", is_counted_exactly},
          {"quick_all_reduce of bad operands", refuses_what_has_no_sum}};
}

std::vector<CommCase> quick_fault_cases() {
  return {{"all_reduce where others are quick", the_usual_one_instead, 2},
          {"another count of quick_all_reduce", another_quick_count, 2},
          {"a rank never comes to quick_all_reduce", a_rank_never_comes_to_it, 2}};
}

}  // namespace trireme::test
