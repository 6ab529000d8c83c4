#include "framework/comm/mpi_communicator.h"

#include <algorithm>
#include <exception>
#include <numeric>

#include "framework/base/error.h"

namespace trireme {

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiEngine> engine, MPI_Comm comm, std::string axis,
                                 int rank, std::vector<int> world_ranks)
    : RankCommunicator(axis, rank, std::move(world_ranks), engine->state()),
      engine_(std::move(engine)),
      group_(std::make_shared<MpiGroup>(MpiGroup{comm, std::move(axis)})) {}

// Freeing is collective: after a failure peers may never come to it.
MpiCommunicator::~MpiCommunicator() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized || !engine_->healthy() || std::uncaught_exceptions() > 0) return;
  const MpiAccess access(engine_->backend_in_flight());
  MPI_Comm_free(&group_->comm);
}

std::shared_ptr<MpiOperation> MpiCommunicator::launch(Operation operation, int other) {
  const auto flight = std::make_shared<MpiOperation>();
  const Call& call = operation.call;
  flight->group = group_;
  if (call.kind != CallKind::kBarrier && call.kind != CallKind::kSplit)
    flight->backend = state().backend;
  if (call.is_message()) {
    const bool sends = call.kind == CallKind::kSend;
    flight->seat = sends ? 0 : 1;
    flight->ranks = {sends ? rank() : other, sends ? other : rank()};
  } else {
    flight->seat = rank();
    flight->ranks.resize(world_ranks().size());
    std::iota(flight->ranks.begin(), flight->ranks.end(), 0);
  }
  for (const int r : flight->ranks)
    flight->members.push_back(world_ranks()[static_cast<std::size_t>(r)]);
  flight->operation = std::move(operation);
  engine_->start(flight);
  return flight;
}

Pending MpiCommunicator::start(Operation operation, int other) {
  return Pending(
      [engine = engine_, flight = launch(std::move(operation), other)] { engine->wait(flight); });
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key, std::string axis) {
  Call call = collective(CallKind::kSplit, DType::kU8, 0);
  call.color = color;
  call.key = key;
  // With the headers everybody is here, so that MPI's own blocking call cannot wait for long.
  const auto flight = launch({call, {}, {}}, 0);
  engine_->wait(flight);
  const MpiAccess access(engine_->backend_in_flight());
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(group_->comm, color < 0 ? MPI_UNDEFINED : color, key, &comm),
            "MPI_Comm_split");
  if (color < 0) return nullptr;
  std::vector<std::pair<int, int>> chosen;  // (key, rank in this group)
  for (int r = 0; r < size(); ++r)
    if (const Call& theirs = flight->calls[static_cast<std::size_t>(r)]; theirs.color == color)
      chosen.emplace_back(theirs.key, r);
  std::sort(chosen.begin(), chosen.end());
  std::vector<int> members;
  for (const auto& entry : chosen)
    members.push_back(world_ranks()[static_cast<std::size_t>(entry.second)]);
  int new_rank = 0;
  MPI_Comm_rank(comm, &new_rank);
  return std::make_unique<MpiCommunicator>(engine_, comm, std::move(axis), new_rank,
                                           std::move(members));
}

std::string MpiCommunicator::recent_calls() const {
  return state().log.lines(join("rank ", world_rank(), ": "));
}

}  // namespace trireme
