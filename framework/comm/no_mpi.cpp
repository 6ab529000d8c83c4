// The build without MPI.
#include "framework/base/error.h"
#include "framework/comm/communicator.h"

namespace trireme {

std::unique_ptr<MpiSession> MpiSession::start(int*, char***) {
  fail(
      "this build has no MPI: install libopenmpi-dev and openmpi-bin and build again, or use "
      "parallel.launch = threads");
}

bool mpi_is_built_in() { return false; }
std::string mpi_version() { return "none"; }

}  // namespace trireme
