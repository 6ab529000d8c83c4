// Communicator of a rank that is a thread: the operations as steps over peers' memory. Internal.
#pragma once

#include "framework/comm/thread_world.h"

namespace trireme {

class ThreadCommunicator : public RankCommunicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadWorld> world, std::shared_ptr<ThreadGroup> group,
                     int rank);

  std::unique_ptr<Communicator> split(int color, int key, std::string axis) override;
  void abort(const std::string& reason) noexcept override { world_->fail(world_rank(), reason); }
  std::string recent_calls() const override { return world_->recent_calls(); }

 protected:
  Pending start(Operation operation, int other) override;

 private:
  Pending join(const Call& call, const std::byte* memory, int other,
               std::shared_ptr<ThreadOperation> operation);

  std::shared_ptr<ThreadWorld> world_;
  std::shared_ptr<ThreadGroup> group_;
};

}  // namespace trireme
