#include <exception>
#include <thread>

#include "framework/base/error.h"
#include "framework/comm/thread_communicator.h"

namespace trireme {

namespace {

std::unique_ptr<Communicator> world_communicator(const std::shared_ptr<ThreadWorld>& world,
                                                 int rank) {
  return std::make_unique<ThreadCommunicator>(world, world->everybody(), rank);
}

[[noreturn]] void rethrow_with(const std::string& prefix, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UsageError& e) {
    throw UsageError(prefix + e.what());
  } catch (...) {
    throw Error(prefix + reason_of(error));
  }
}

std::string unstarted(const std::exception_ptr& error) noexcept try {
  return join("its thread could not be started: ", reason_of(error));
} catch (...) {
  return reason_of(error);
}

// The rank's thread: runs the body, and turns what goes wrong into the world's failure.
void run_rank(const std::shared_ptr<ThreadWorld>& world, int rank,
              const std::function<void(Communicator&)>& body, std::exception_ptr& error) {
  if (world->scheduler()) world->scheduler()->begin(rank);
  try {
    const auto communicator = world_communicator(world, rank);
    body(*communicator);
    const std::string& dropped = world->state(rank).failure;
    check(dropped.empty(), dropped);
    world->end(rank);
  } catch (...) {
    error = std::current_exception();
    world->fail(rank, reason_of(error));
  }
  if (world->scheduler()) world->scheduler()->end(rank);
}

}  // namespace

std::unique_ptr<Communicator> make_self_communicator(CommunicatorOptions options) {
  return world_communicator(std::make_shared<ThreadWorld>(1, options), 0);
}

void run_thread_ranks(int ranks, const CommunicatorOptions& options,
                      const std::function<void(Communicator& world)>& body,
                      const std::function<std::string(int)>& prefix) {
  const auto world = std::make_shared<ThreadWorld>(ranks, options);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back(
          [&, rank] { run_rank(world, rank, body, errors[static_cast<std::size_t>(rank)]); });
  } catch (...) {  // those that run must be joined whatever happens
    const int missing = static_cast<int>(threads.size());
    world->fail(missing, unstarted(std::current_exception()));
  }
  for (std::thread& thread : threads) thread.join();
  const auto failure = world->failure();
  if (!failure) return;
  const auto& [rank, reason] = *failure;
  const std::string before = prefix ? prefix(rank) : std::string();
  if (const auto& error = errors[static_cast<std::size_t>(rank)]) rethrow_with(before, error);
  throw Error(before + reason);
}

}  // namespace trireme
