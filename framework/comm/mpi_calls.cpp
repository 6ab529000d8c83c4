#include "framework/comm/mpi_calls.h"

#include <algorithm>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::int64_t kLongestMessage = std::int64_t{1} << 30;  // bytes; counts are int

}  // namespace

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(what, " failed: ", std::string(text, static_cast<std::size_t>(length)));
}

void MpiRequests::send(const std::byte* memory, std::int64_t bytes, int to, int tag,
                       MPI_Comm comm) {
  for (std::int64_t at = 0; at < bytes; at += kLongestMessage) {
    const int count = static_cast<int>(std::min(kLongestMessage, bytes - at));
    check_mpi(MPI_Isend(memory + at, count, MPI_BYTE, to, tag, comm,
                        &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Isend");
  }
}

void MpiRequests::receive(std::byte* memory, std::int64_t bytes, int from, int tag, MPI_Comm comm) {
  for (std::int64_t at = 0; at < bytes; at += kLongestMessage) {
    const int count = static_cast<int>(std::min(kLongestMessage, bytes - at));
    check_mpi(MPI_Irecv(memory + at, count, MPI_BYTE, from, tag, comm,
                        &requests_.emplace_back(MPI_REQUEST_NULL)),
              "MPI_Irecv");
  }
}

bool MpiRequests::complete() {
  if (requests_.empty()) return true;
  int all = 0;
  check_mpi(
      MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE),
      "MPI_Testall");
  if (all) requests_.clear();
  return all != 0;
}

void MpiRequests::take(MpiRequests& other) {
  requests_.insert(requests_.end(), other.requests_.begin(), other.requests_.end());
  other.requests_.clear();
}

void MpiRequests::abandon() noexcept {
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
  requests_.clear();
}

}  // namespace trireme
