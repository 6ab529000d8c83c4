// Communication between the ranks of a group. A rank is a value: the Communicator handed to it.
//
// Invariants
//  - All ranks of a group call the same operations in the same order. A rank that calls another
//  operation, dtype or
//    count is named in the Error that every rank of the group gets; a wrong result is never
//    returned.
//  - Sums are made in rank order in the wide type (f64 for f64, f32 otherwise) on every transport:
//  all_reduce is
//    reduce_scatter followed by all_gather over the same pieces, so its bits equal those of the two
//    calls.
//  - Piece r of n elements over N ranks is [piece_begin(n, N, r), piece_begin(n, N, r + 1)).
//  - Calls start the operation and return a Pending; operands must not be touched until wait()
//  returned. Dropping a
//    Pending waits. Several may be in flight; they complete in any order of waiting. send/recv
//    between a pair of ranks match in order.
//  - A wait that lasts longer than the timeout, without the time in which the process was stopped,
//    throws Error naming operation, peers, sequence number, bytes and place().
//    A rank that fails wakes its peers (abort), and their waits throw an Error naming it (thread
//    ranks: and its last call).
//  - A communicator whose wait has thrown stays failed: every later call of the rank throws again.
//  - Ranks in errors are ranks of the world.
//  - Types: sums take f64, f32, bf16, f16; the maximum f64 and f32; everything else any type.
//  - Traffic counts the bytes this rank sends to *other* ranks, exactly, by operation. barrier and
//  split are not
//    counted.
//  - Size 1 is an ordinary case: every operation works and moves 0 bytes.
//  - One thread (the rank's) uses a communicator and those split from it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "framework/backend/backend.h"
#include "framework/base/tensor.h"

namespace trireme {

enum class ReduceOp : std::uint8_t { kSum, kMax };

// Most bytes of a quick_all_reduce that is one.
inline constexpr std::int64_t kQuickBytes = std::int64_t{64} << 10;

// First element of piece `index` when n elements are cut over `pieces` ranks: equal pieces of
// ceil(n / pieces), the last ones smaller or empty.
std::int64_t piece_begin(std::int64_t n, std::int64_t pieces, std::int64_t index);

// An operation in flight. Move-only; wait() is idempotent.
class Pending {
 public:
  Pending() = default;  // already complete
  // `finish` blocks until complete and may throw; it is called at most once.
  explicit Pending(std::function<void()> finish) : finish_(std::move(finish)) {}
  Pending(Pending&& other) noexcept : finish_(std::exchange(other.finish_, nullptr)) {}
  Pending& operator=(Pending&& other);
  // Waits, and never throws: an error of that wait stays with the rank, whose next call throws it
  // (as does the end of run_thread_ranks). While an exception unwinds the stack it does not wait
  // for peers: the operation is withdrawn, and peers end when this rank's failure reaches them.
  ~Pending();
  void wait();

 private:
  std::function<void()> finish_;
};

// Bytes sent to other ranks and number of calls, by "axis/operation", e.g. "data/reduce_scatter".
struct TrafficEntry {
  std::int64_t bytes = 0;
  std::int64_t calls = 0;
};
using Traffic = std::map<std::string, TrafficEntry>;

// A tensor operation of this rank, once its wait returned. Times are of the observer's clock;
// between `started` and `waited` the rank did other work. No span comes from a group of one rank.
struct CommSpan {
  std::string operation;      // "data/all_gather"
  std::int64_t bytes = 0;     // sent to other ranks
  int peer = -1;              // world rank of the other end of a message, or of a broadcast's root
  std::int64_t sequence = 0;  // of the message between the two, or of the group's collectives
  double begin = 0, started = 0;  // the call, its return
  double waited = 0, end = 0;     // the wait, its return
};

struct CommObserver {
  std::function<double()> clock;
  std::function<void(const CommSpan&)>
      finished;  // called on the rank's thread; must not communicate
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Name of the axis this group lies along ("world", "data", "tensor", "pipeline", "ends"), used in
  // counts and errors.
  const std::string& axis() const { return axis_; }

  // Device memory that operands live in; one per rank, shared by all groups split from one world,
  // before or after. Must be set before the first tensor operation.
  virtual void attach(Backend& backend) = 0;

  // In place over all ranks.
  [[nodiscard]] virtual Pending all_reduce(const Tensor& x, ReduceOp op = ReduceOp::kSum) = 0;
  // The sum of all_reduce, with its bits, where latency counts more than bytes: of a few rows, as
  // inference writes them token by token. One exchange instead of two: every rank sends all of x to
  // every other and makes all sums by itself, in rank order. Longer x than kQuickBytes, and
  // communicators that know no quick way, do all_reduce instead.
  [[nodiscard]] virtual Pending quick_all_reduce(const Tensor& x) { return all_reduce(x); }
  // whole = pieces of all ranks in rank order. piece may be the own region of whole, and may be
  // empty. Elements of whole are cut by piece_begin; the piece must have that size.
  [[nodiscard]] virtual Pending all_gather(const Tensor& piece, const Tensor& whole) = 0;
  // piece = this rank's piece of the sum of all wholes. piece may be the own region of whole, and
  // may have a wider type than whole (then whole's other regions stay as they were). Without
  // widening whole's contents are unchanged too.
  [[nodiscard]] virtual Pending reduce_scatter(const Tensor& whole, const Tensor& piece) = 0;
  [[nodiscard]] virtual Pending broadcast(const Tensor& x, int root) = 0;
  [[nodiscard]] virtual Pending send(const Tensor& x, int to) = 0;
  [[nodiscard]] virtual Pending recv(const Tensor& x, int from) = 0;
  virtual void barrier() = 0;

  // A new group of the ranks that pass the same color, ordered by (key, rank). color < 0: this rank
  // joins none and gets nullptr. Collective over this group. Names the new group's axis.
  virtual std::unique_ptr<Communicator> split(int color, int key, std::string axis) = 0;

  // Tells peers that this rank failed; their waits throw. Never blocks. Idempotent.
  virtual void abort(const std::string& reason) noexcept = 0;

  // What this rank is doing, for error messages, e.g. "step 12, backward of micro-batch 3". Shared
  // with split groups.
  virtual void set_place(std::string place) = 0;
  // Follows the operations of all groups of this rank that start from now on; {} stops it.
  virtual void set_observer(CommObserver observer) = 0;
  // Bytes sent so far by this rank over all groups split from the same world.
  virtual const Traffic& traffic() const = 0;
  virtual void reset_traffic() = 0;
  // The last 64 calls of every rank that this one can see (threads: all; MPI: itself), a line each,
  // oldest first: for a log after a failure.
  virtual std::string recent_calls() const = 0;

 protected:
  explicit Communicator(std::string axis) : axis_(std::move(axis)) {}

 private:
  std::string axis_;
};

class RankScheduler;

struct CommunicatorOptions {
  double timeout_seconds = 600;
  // Seconds of a monotonic clock, called from all ranks; a test may give its own. Empty: the
  // steady clock.
  std::function<double()> clock = {};
  // Thread ranks only, for tests (rank_scheduler.h): decides which rank runs. Outlives them.
  RankScheduler* scheduler = nullptr;
};

// A group of one rank.
std::unique_ptr<Communicator> make_self_communicator(CommunicatorOptions options = {});

// Runs `body` on `ranks` threads of this process, each with its own communicator of one world, and
// joins them all. If a rank throws, the others are woken and end with an Error naming it; the first
// error is rethrown with the prefix that `prefix(rank)` gives ("[rank 5: data 0, pipeline 1, tensor
// 1] "), kept as UsageError if it was one.
void run_thread_ranks(int ranks, const CommunicatorOptions& options,
                      const std::function<void(Communicator& world)>& body,
                      const std::function<std::string(int)>& prefix = {});

// True when a launcher (Open MPI, PMI, Slurm) started this process. Reads the environment given as
// `lookup`.
bool under_launcher(const std::function<const char*(const char*)>& lookup);

// MPI, or a stub that throws when the build has none. init is called once per process, before any
// thread is made.
class MpiSession {
 public:
  static std::unique_ptr<MpiSession> start(int* argc, char*** argv);
  virtual ~MpiSession() =
      default;  // finalizes, unless a failure was reported: then ends without blocking
  virtual std::unique_ptr<Communicator> world(const CommunicatorOptions& options) = 0;
  virtual int rank() const = 0;         // in the world
  virtual int local_ranks() const = 0;  // ranks of this job on this machine
  virtual int local_rank() const = 0;
  // Ends the whole job with this exit code (MPI_Abort), after the message has been printed.
  [[noreturn]] virtual void abort_job(int exit_code) = 0;
};
bool mpi_is_built_in();
std::string mpi_version();

}  // namespace trireme
