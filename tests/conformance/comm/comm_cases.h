// One list of cases that every communicator must pass: self, threads, MPI. A case runs on every
// rank of a world at once and throws Error when it is not satisfied.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "framework/base/error.h"
#include "framework/comm/communicator.h"

namespace trireme::test {

// A clock that stands still until a case makes every look at it cost seconds: deadlines pass
// without anybody sleeping.
class TestClock {
 public:
  double now() { return seconds_.fetch_add(step_) + step_; }
  void advance_at_every_look(double seconds) { step_ = seconds; }

 private:
  std::atomic<double> seconds_{0}, step_{0};
};

struct CaseContext {
  Communicator& world;
  Backend& backend;
  TestClock& clock;
  std::function<void()> meet;  // all ranks, by other means than the world
  bool sees_peers = true;      // errors of this transport know the peers' calls
  std::uint64_t digest = 0;    // of every result, in order: equal on all transports

  int rank() const { return world.rank(); }
  int size() const { return world.size(); }
};

struct CommCase {
  std::string name;
  std::function<void(CaseContext&)> run;
  int ranks = 1;  // at least
};

// Legal use.
std::vector<CommCase> collective_cases();
std::vector<CommCase> flight_cases();
std::vector<CommCase> quick_cases();
// What must end in an Error on every rank; the world is of no use afterwards.
std::vector<CommCase> fault_cases();
std::vector<CommCase> quick_fault_cases();

constexpr double kCaseTimeout = 30;  // of the world's own deadline

// --- for the cases ---

// Deterministic values of a rank: normals for floating types, small numbers for others.
std::vector<double> values_of(int rank, std::int64_t count, DType dtype, std::uint64_t salt);
Tensor tensor_of(CaseContext& context, int rank, std::int64_t count, DType dtype,
                 std::uint64_t salt);
// The elements; they also go into the digest.
std::vector<double> result(CaseContext& context, const Tensor& x);
// Throws naming the case's operation, type and first wrong element.
void same(const std::vector<double>& got, const std::vector<double>& expected,
          const std::string& what);
// The sum over these ranks in this order in the wide type of `dtype`, rounded to `to`.
std::vector<double> sum_of(const std::vector<int>& ranks, std::int64_t count, DType dtype, DType to,
                           std::uint64_t salt);
// The same over ranks 0 to ranks - 1.
std::vector<double> sum_of_ranks(int ranks, std::int64_t count, DType dtype, DType to,
                                 std::uint64_t salt);
// The sentence that `call` ends with; fails if it does not.
std::string error_of(const std::function<void()>& call);
// Throws unless `text` contains `part`.
void contains(const std::string& text, const std::string& part);

}  // namespace trireme::test
