// MPI's handles and error codes in our terms. Internal: included by mpi_*.cpp only.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "framework/backend/backend.h"

namespace trireme {

// Throws Error with MPI's text unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* what);

// Any call of MPI may move the operands of any operation in flight, so device memory is open around
// all calls while there are some.
class MpiAccess {
 public:
  explicit MpiAccess(Backend* backend) : backend_(backend) {
    if (backend_) backend_->begin_access();
  }
  ~MpiAccess() {
    if (backend_) backend_->end_access();
  }
  MpiAccess(const MpiAccess&) = delete;
  MpiAccess& operator=(const MpiAccess&) = delete;

 private:
  Backend* backend_;
};

// A set of requests that are completed together.
class MpiRequests {
 public:
  // Messages longer than MPI's int counts are cut; both ends cut alike.
  void send(const std::byte* memory, std::int64_t bytes, int to, int tag, MPI_Comm comm);
  void receive(std::byte* memory, std::int64_t bytes, int from, int tag, MPI_Comm comm);
  // True when all are complete (then the set is empty). Never blocks.
  bool complete();
  void take(MpiRequests& other);
  bool empty() const { return requests_.empty(); }
  // Gives the requests up: receives are cancelled, nothing is waited for.
  void abandon() noexcept;

 private:
  std::vector<MPI_Request> requests_;
};

}  // namespace trireme
