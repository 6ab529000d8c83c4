#include "framework/comm/thread_communicator.h"

#include <algorithm>

#include "framework/base/error.h"
#include "framework/comm/pieces.h"

namespace trireme {

namespace {

// What the steps of one operation need; keeps the operands alive while peers may read them.
struct Part {
  Operation operation;
  Backend& backend;
  int rank, size;
  const ThreadOperation* flight;  // whose steps read this; has its round when the seat is taken
  const Call& call() const { return operation.call; }
  const std::byte* memory(int seat) const {
    return flight->round->memory[static_cast<std::size_t>(seat)];
  }
};

// Own piece of everybody's whole, into `out`. In place it writes only the own region of the own
// whole, which no peer reads in this step.
void reduce_own(const Part& part, const Tensor& out) {
  const Call& call = part.call();
  const std::int64_t begin = piece_begin(call.elements, part.size, part.rank);
  std::vector<Tensor> pieces;
  if (out.elements() == 0) return;
  for (int r = 0; r < part.size; ++r)
    pieces.push_back(
        borrowed(part.memory(r) + begin * size_of(call.dtype), out.elements(), call.dtype));
  reduce_in_order(part.backend, call.kind, pieces, out);
}

// Everybody's piece into the own whole. For all_reduce peers offer wholes, of which the piece of
// rank r is final on rank r; for all_gather they offer the pieces themselves.
void gather_others(const Part& part) {
  const Call& call = part.call();
  const bool offers_whole = call.kind != CallKind::kAllGather;
  for (int r = 0; r < part.size; ++r) {
    const std::int64_t begin = piece_begin(call.elements, part.size, r);
    const std::int64_t count = piece_begin(call.elements, part.size, r + 1) - begin;
    if (count == 0 || (offers_whole && r == part.rank)) continue;
    const std::byte* memory = part.memory(r) + (offers_whole ? begin * size_of(call.dtype) : 0);
    copy_apart(part.backend, borrowed(memory, count, call.dtype),
               part.operation.target.elements_at(begin, {count}));
  }
}

// Everybody's whole into the own one, from copies.
void reduce_all(const Part& part) {
  const Call& call = part.call();
  std::vector<Tensor> wholes;
  for (int r = 0; r < part.size; ++r)
    wholes.push_back(borrowed(part.memory(r), call.elements, call.dtype));
  reduce_in_order(part.backend, call.kind, wholes, part.operation.target.reshaped({call.elements}));
}

void copy_from(const Part& part, int seat) {
  const Call& call = part.call();
  copy_apart(part.backend, borrowed(part.memory(seat), call.elements, call.dtype),
             part.operation.target.reshaped({call.elements}));
}

std::vector<ThreadOperation::Step> steps_of(const std::shared_ptr<const Part>& part, int root) {
  const auto gather = [part] { gather_others(*part); };
  switch (part->call().kind) {
    case CallKind::kAllReduce:
    case CallKind::kAllReduceMax:
      return {[part] {
                const Tensor& x = part->operation.target;
                const std::int64_t begin = piece_begin(x.elements(), part->size, part->rank);
                const std::int64_t end = piece_begin(x.elements(), part->size, part->rank + 1);
                reduce_own(*part, x.elements_at(begin, {end - begin}));
              },
              gather};
    case CallKind::kQuickAllReduce:
      return {[part] { reduce_all(*part); }};
    case CallKind::kReduceScatter:
      return {[part] {
        const Tensor& piece = part->operation.target;
        reduce_own(*part, piece.reshaped({piece.elements()}));
      }};
    case CallKind::kAllGather:
      return {gather};
    case CallKind::kBroadcast:
      if (part->rank == root) return {nullptr};
      return {[part, root] { copy_from(*part, root); }};
    case CallKind::kRecv:
      return {[part] { copy_from(*part, 0); }};
    case CallKind::kSend:
      return {nullptr};
    case CallKind::kBarrier:
    case CallKind::kSplit:
      break;
  }
  return {};
}

}  // namespace

ThreadCommunicator::ThreadCommunicator(std::shared_ptr<ThreadWorld> world,
                                       std::shared_ptr<ThreadGroup> group, int rank)
    : RankCommunicator(group->axis, rank, group->members,
                       world->state(group->members[static_cast<std::size_t>(rank)])),
      world_(std::move(world)),
      group_(std::move(group)) {}

Pending ThreadCommunicator::start(Operation operation, int other) {
  const Call call = operation.call;
  const auto* memory = static_cast<const std::byte*>(operation.source.data());
  auto flight = std::make_shared<ThreadOperation>();
  if (call.kind == CallKind::kBarrier) return join(call, memory, other, std::move(flight));
  const auto part = std::make_shared<Part>(Part{.operation = std::move(operation),
                                                .backend = *state().backend,
                                                .rank = rank(),
                                                .size = size(),
                                                .flight = flight.get()});
  flight->steps = steps_of(part, other);
  flight->operands = part;
  if (call.kind == CallKind::kQuickAllReduce) {
    const auto copy = std::make_shared<std::vector<std::byte>>(
        static_cast<std::size_t>(std::max<std::int64_t>(1, call.bytes())));
    part->backend.download(part->operation.source, copy->data());
    memory = copy->data();
    flight->offered = copy;
  }
  // Joining only publishes; the steps run later, on this thread.
  return join(call, memory, other, std::move(flight));
}

Pending ThreadCommunicator::join(const Call& call, const std::byte* memory, int other,
                                 std::shared_ptr<ThreadOperation> operation) {
  const int me = world_rank();
  operation->axis = axis();
  // Its memory is taken before the seat is: from there on somebody must wait for the operation.
  std::function<void()> wait = [world = world_, me, operation] { world->wait(me, operation); };
  world_->reach(me, CallPoint::kCall, call, axis());
  if (call.is_message()) {
    const bool sends = call.kind == CallKind::kSend;
    const int from = sends ? rank() : other, to = sends ? other : rank();
    operation->seat = sends ? 0 : 1;
    world_->join(me, *group_, {from, to, call.sequence},
                 {world_ranks()[static_cast<std::size_t>(from)],
                  world_ranks()[static_cast<std::size_t>(to)]},
                 call, memory, operation);
  } else {
    operation->seat = rank();
    world_->join(me, *group_, {-1, -1, call.sequence}, world_ranks(), call, memory, operation);
  }
  const bool only_receives = call.kind == CallKind::kRecv ||
                             call.kind == CallKind::kQuickAllReduce ||
                             (call.kind == CallKind::kBroadcast && rank() != other);
  operation->read_to_the_end = !only_receives;
  Pending pending(std::move(wait));
  world_->reach(me, CallPoint::kStarted, call, axis());
  return pending;
}

std::unique_ptr<Communicator> ThreadCommunicator::split(int color, int key, std::string axis) {
  Call call = collective(CallKind::kSplit, DType::kU8, 0);
  call.color = color;
  call.key = key;
  const auto operation = std::make_shared<ThreadOperation>();
  join(call, nullptr, 0, operation).wait();
  if (color < 0) return nullptr;
  std::vector<std::pair<int, int>> chosen;  // (key, rank in this group)
  for (int r = 0; r < size(); ++r)
    if (const Call& theirs = operation->round->calls[static_cast<std::size_t>(r)];
        theirs.color == color)
      chosen.emplace_back(theirs.key, r);
  std::sort(chosen.begin(), chosen.end());
  std::vector<int> members;
  for (const auto& [theirs, r] : chosen)
    members.push_back(world_ranks()[static_cast<std::size_t>(r)]);
  const auto position = std::find(members.begin(), members.end(), world_rank());
  const int new_rank = static_cast<int>(position - members.begin());
  auto group = world_->group_of(*operation->round, color, axis, std::move(members));
  return std::make_unique<ThreadCommunicator>(world_, std::move(group), new_rank);
}

}  // namespace trireme
