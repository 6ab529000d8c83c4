// Communicator of a rank that is a process under mpirun or srun. Internal.
#pragma once

#include "framework/comm/mpi_engine.h"

namespace trireme {

class MpiCommunicator : public RankCommunicator {
 public:
  // Owns `comm`.
  MpiCommunicator(std::shared_ptr<MpiEngine> engine, MPI_Comm comm, std::string axis, int rank,
                  std::vector<int> world_ranks);
  ~MpiCommunicator() override;

  std::unique_ptr<Communicator> split(int color, int key, std::string axis) override;
  void abort(const std::string& reason) noexcept override { engine_->abort(reason); }
  std::string recent_calls() const override;

 protected:
  Pending start(Operation operation, int other) override;

 private:
  std::shared_ptr<MpiOperation> launch(Operation operation, int other);

  std::shared_ptr<MpiEngine> engine_;
  std::shared_ptr<MpiGroup> group_;
};

}  // namespace trireme
