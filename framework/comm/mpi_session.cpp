#include <cstdlib>
#include <numeric>

#include "framework/base/error.h"
#include "framework/comm/mpi_communicator.h"

namespace trireme {

namespace {

class RealMpiSession : public MpiSession {
 public:
  RealMpiSession() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm local = MPI_COMM_NULL;
    check_mpi(
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local),
        "MPI_Comm_split_type");
    MPI_Comm_size(local, &local_ranks_);
    MPI_Comm_rank(local, &local_rank_);
    std::vector<LocalProcess> all(static_cast<std::size_t>(local_ranks_));
    const LocalProcess mine = local_process(rank_);
    check_mpi(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, local),
              "MPI_Allgather");
    peers_ = std::make_unique<LocalPeers>(all, rank_);
    MPI_Comm_free(&local);
  }

  // MPI_Finalize waits for all ranks: after a failure some may never come.
  ~RealMpiSession() override {
    for (const auto& engine : engines_)
      if (!engine->healthy()) return;
    engines_.clear();
    MPI_Finalize();
  }

  std::unique_ptr<Communicator> world(const CommunicatorOptions& options) override {
    MPI_Comm control = MPI_COMM_NULL, comm = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &control), "MPI_Comm_dup");
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    const auto& engine =
        engines_.emplace_back(std::make_shared<MpiEngine>(control, options, *peers_));
    std::vector<int> everybody(static_cast<std::size_t>(size_));
    std::iota(everybody.begin(), everybody.end(), 0);
    return std::make_unique<MpiCommunicator>(engine, comm, "world", rank_, std::move(everybody));
  }

  int rank() const override { return rank_; }
  int local_ranks() const override { return local_ranks_; }
  int local_rank() const override { return local_rank_; }

  [[noreturn]] void abort_job(int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);  // MPI_Abort returns only when it failed
  }

 private:
  int rank_ = 0, size_ = 1, local_ranks_ = 1, local_rank_ = 0;
  std::unique_ptr<LocalPeers> peers_;
  std::vector<std::shared_ptr<MpiEngine>> engines_;
};

}  // namespace

std::unique_ptr<MpiSession> MpiSession::start(int* argc, char*** argv) {
  int provided = 0;
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  check(provided >= MPI_THREAD_FUNNELED,
        "this MPI gives no threads beside the one that calls it (MPI_THREAD_FUNNELED)");
  return std::make_unique<RealMpiSession>();
}

bool mpi_is_built_in() { return true; }

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string version(text, static_cast<std::size_t>(length));
  return version.substr(0, version.find(','));
}

}  // namespace trireme
