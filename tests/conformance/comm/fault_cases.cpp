// What must end in the same sentence on every rank, never in a result and never in a hang.
#include <stdexcept>

#include "tests/conformance/comm/comm_cases.h"
#include "tests/support/tensors.h"

namespace trireme::test {

namespace {

// The last rank is the odd one; with two ranks rank 0's call counts as the rule.
bool is_odd(const CaseContext& c) { return c.rank() == c.size() - 1; }

void other_operation(CaseContext& c) {
  const Tensor x = tensor_of(c, c.rank(), 16, DType::kF32, 1);
  const std::int64_t own =
      piece_begin(16, c.size(), c.rank() + 1) - piece_begin(16, c.size(), c.rank());
  const Tensor piece = c.backend.zeros({own}, DType::kF32, MemoryKind::kActivations);
  const std::string error = error_of([&] {
    if (is_odd(c))
      c.world.all_gather(piece, x).wait();
    else
      c.world.all_reduce(x).wait();
  });
  contains(error, join("rank ", c.size() - 1,
                       " called all_gather of 16 f32 (64 bytes), call 1 of world, where rank 0 "
                       "called all_reduce of 16 f32 (64 bytes), call 1 of world"));
  contains(error_of([&] { c.world.barrier(); }), "called all_gather of 16 f32");
}

void other_count(CaseContext& c) {
  const Tensor x = tensor_of(c, c.rank(), is_odd(c) ? 17 : 16, DType::kF32, 1);
  const std::string error = error_of([&] { c.world.all_reduce(x).wait(); });
  contains(error, join("rank ", c.size() - 1, " called all_reduce of 17 f32"));
  contains(error, "where rank 0 called all_reduce of 16 f32");
}

void other_type(CaseContext& c) {
  const Tensor x = tensor_of(c, c.rank(), 16, is_odd(c) ? DType::kF64 : DType::kF32, 1);
  const std::string error = error_of([&] { c.world.all_reduce(x).wait(); });
  contains(error, join("rank ", c.size() - 1, " called all_reduce of 16 f64"));
  contains(error, "where rank 0 called all_reduce of 16 f32");
}

void other_root(CaseContext& c) {
  const Tensor x = tensor_of(c, c.rank(), 16, DType::kF32, 1);
  const std::string error =
      error_of([&] { c.world.broadcast(x, is_odd(c) ? c.size() - 1 : 0).wait(); });
  contains(error, join("rank ", c.size() - 1, " called broadcast of 16 f32 (64 bytes) from rank ",
                       c.size() - 1));
}

// With three ranks or more the majority is the rule, also against rank 0.
void rank_0_is_the_odd_one(CaseContext& c) {
  const Tensor x = tensor_of(c, c.rank(), c.rank() == 0 ? 15 : 16, DType::kF32, 1);
  const std::string error = error_of([&] { c.world.all_reduce(x).wait(); });
  contains(error, "rank 0 called all_reduce of 15 f32");
  contains(error, "where rank 1 called all_reduce of 16 f32");
}

void other_message(CaseContext& c) {
  if (c.rank() > 1) return;
  const Tensor x = tensor_of(c, c.rank(), c.rank() == 0 ? 16 : 17, DType::kF32, 1);
  const std::string error =
      error_of([&] { (c.rank() == 0 ? c.world.send(x, 1) : c.world.recv(x, 0)).wait(); });
  contains(error, "send of 16 f32 (64 bytes) to rank 1, message 1 of world");
  contains(error, "recv of 17 f32 (68 bytes) from rank 0, message 1 of world");
}

// Every kind of wait is woken by a rank that fails.
void a_rank_fails(CaseContext& c) {
  const auto pairs = c.world.split(c.rank() / 2, c.rank(), "pair");
  const int failing = c.size() - 1;
  c.meet();
  const Tensor x = tensor_of(c, c.rank(), 100, DType::kF32, 1);
  if (c.rank() == failing) {
    c.world.abort("no space on the moon");
    c.world.abort("a second reason, ignored");
    contains(error_of([&] { c.world.barrier(); }), "no space on the moon");
    return;
  }
  const std::string error = error_of([&] {
    if (c.rank() % 4 == 0) c.world.all_reduce(x).wait();
    if (c.rank() % 4 == 1) c.world.barrier();
    if (c.rank() % 4 == 2) pairs->recv(x, pairs->size() - 1).wait();
    if (c.rank() % 4 == 3) c.world.send(x, failing).wait();
  });
  contains(error, join("rank ", failing, " failed: no space on the moon"));
}

// An exception passes an operation in flight: its rank does not wait for peers, and peers hear the
// reason when it comes out.
void an_exception_passes_a_pending(CaseContext& c) {
  const int failing = c.size() - 1;
  const Tensor x = tensor_of(c, c.rank(), 100, DType::kF32, 1);
  if (c.rank() != failing) {
    contains(error_of([&] {
               const Pending first = c.world.all_reduce(x);
               c.world.barrier();
             }),
             join("rank ", failing, " failed: a bad number"));
    return;
  }
  try {
    const Pending passed = c.world.all_reduce(x);
    throw Error("a bad number");
  } catch (const Error& error) {
    c.world.abort(error.what());
  }
}

// The error of a dropped Pending is not lost.
void a_dropped_error_comes_back(CaseContext& c) {
  const Tensor x = tensor_of(c, c.rank(), is_odd(c) ? 17 : 16, DType::kF32, 1);
  { const Pending dropped = c.world.all_reduce(x); }
  contains(error_of([&] { (void)c.world.all_reduce(x); }), "called all_reduce of 17 f32");
}

void a_rank_never_comes(CaseContext& c) {
  const int missing = c.size() - 1;
  c.world.set_place(c.rank() == missing ? "step 12, forward of micro-batch 3"
                                        : "step 12, backward");
  c.world.barrier();
  if (c.rank() == missing) {
    c.meet();
    return;
  }
  c.clock.advance_at_every_look(kCaseTimeout / 4);
  const Tensor x = tensor_of(c, c.rank(), 5, DType::kF32, 1);
  const std::string error = error_of([&] { c.world.all_reduce(x).wait(); });
  c.meet();
  contains(error,
           "all_reduce of 5 f32 (20 bytes), call 2 of world at step 12, backward did not "
           "complete in 30 s");
  contains(error, join("rank ", missing, " has not arrived"));
  if (c.sees_peers)
    contains(error,
             "it is at step 12, forward of micro-batch 3, its last call was barrier, call 1 "
             "of world at step 12, forward of micro-batch 3");
}

void a_receiver_never_comes(CaseContext& c) {
  if (c.rank() == 0) {
    c.clock.advance_at_every_look(kCaseTimeout / 4);
    const Tensor x = tensor_of(c, c.rank(), 5, DType::kF32, 1);
    contains(error_of([&] { c.world.send(x, 1).wait(); }),
             "send of 5 f32 (20 bytes) to rank 1, message 1 of world did not complete in 30 s; "
             "rank 1 has not arrived");
  }
  c.meet();
}

}  // namespace

std::vector<CommCase> fault_cases() {
  return {{"another operation", other_operation, 2},
          {"another count", other_count, 2},
          {"another type", other_type, 2},
          {"another root", other_root, 2},
          {"rank 0 is the odd one", rank_0_is_the_odd_one, 3},
          {"another message", other_message, 2},
          {"a rank fails", a_rank_fails, 2},
          {"an exception passes a Pending", an_exception_passes_a_pending, 2},
          {"a dropped error comes back", a_dropped_error_comes_back, 2},
          {"a rank never comes", a_rank_never_comes, 2},
          {"a receiver never comes", a_receiver_never_comes, 2}};
}

}  // namespace trireme::test
