#include "framework/comm/rank_communicator.h"

#include <functional>

#include "framework/base/error.h"

namespace trireme {

RankCommunicator::RankCommunicator(std::string axis, int rank, std::vector<int> world_ranks,
                                   RankState& state)
    : Communicator(std::move(axis)),
      rank_(rank),
      world_ranks_(std::move(world_ranks)),
      state_(state),
      sent_(world_ranks_.size()),
      received_(world_ranks_.size()) {}

std::int64_t RankCommunicator::piece_elements(std::int64_t n, int index) const {
  return piece_begin(n, size(), index + 1) - piece_begin(n, size(), index);
}

Call RankCommunicator::collective(CallKind kind, DType dtype, std::int64_t elements, int root) {
  check(state_.failure.empty(), state_.failure);
  Call call{.kind = kind, .dtype = dtype, .elements = elements, .sequence = ++collectives_};
  if (root >= 0) call.peer = world_ranks_[static_cast<std::size_t>(root)];
  state_.log.record(call, axis());
  return call;
}

Call RankCommunicator::message(CallKind kind, const Tensor& x, int other) {
  check(state_.failure.empty(), state_.failure);
  check(x.defined(), name_of(kind), " on ", axis(), ": the tensor is undefined");
  check_member(name_of(kind), other);
  const auto peer = static_cast<std::size_t>(other);
  auto& messages = kind == CallKind::kSend ? sent_ : received_;
  const Call call{.kind = kind,
                  .dtype = x.dtype(),
                  .peer = world_ranks_[peer],
                  .elements = x.elements(),
                  .sequence = ++messages[peer]};
  state_.log.record(call, axis());
  check_operand(call, x);
  return call;
}

void RankCommunicator::check_operand(const Call& call, const Tensor& x) const {
  check(state_.backend, text_of(call, axis()), ": no backend is attached");
  const bool adds = call.kind == CallKind::kAllReduce || call.kind == CallKind::kReduceScatter ||
                    call.kind == CallKind::kQuickAllReduce;
  check(!adds || is_floating(x.dtype()), text_of(call, axis()),
        ": sums take f64, f32, bf16 or f16");
  check(
      call.kind != CallKind::kAllReduceMax || x.dtype() == DType::kF64 || x.dtype() == DType::kF32,
      text_of(call, axis()), ": the maximum takes f64 or f32");
}

void RankCommunicator::check_member(const char* operation, int rank) const {
  check(rank >= 0 && rank < size(), operation, " on ", axis(), ": rank ", rank,
        " is not one of 0 to ", size() - 1);
}

// The own piece, checked against the whole: size, type, and memory either apart or the own region.
Tensor RankCommunicator::check_piece(const Call& call, const Tensor& whole,
                                     const Tensor& piece) const {
  const std::int64_t begin = piece_begin(whole.elements(), size(), rank_);
  const std::int64_t expected = piece_elements(whole.elements(), rank_);
  const Tensor region = whole.elements_at(begin, {expected});
  if (!piece.defined() && expected == 0) return region;
  check(piece.defined() && piece.elements() == expected, text_of(call, axis()),
        ": the piece of rank ", rank_, " of ", size(), " has ",
        piece.defined() ? piece.elements() : 0, " elements instead of ", expected);
  const bool widens =
      call.kind == CallKind::kReduceScatter && piece.dtype() == accumulation_type(whole.dtype());
  check(piece.dtype() == whole.dtype() || widens, text_of(call, axis()), ": the piece is ",
        name_of(piece.dtype()));
  const auto* first = static_cast<const std::byte*>(piece.data());
  const auto* begin_of_whole = static_cast<const std::byte*>(whole.data());
  const std::less<const std::byte*> before;
  const bool apart = expected == 0 || !before(begin_of_whole, first + piece.bytes()) ||
                     !before(first, begin_of_whole + whole.bytes());
  check(apart || (piece.dtype() == whole.dtype() && piece.data() == region.data()),
        text_of(call, axis()), ": the piece overlaps the whole but is not the region of rank ",
        rank_);
  return piece;
}

Pending RankCommunicator::begin(Operation operation, int other, std::int64_t bytes) {
  const Call& call = operation.call;
  std::string name = axis() + "/" + name_of(call.kind);
  TrafficEntry& entry = state_.traffic[name];
  entry.bytes += bytes;
  ++entry.calls;
  if (!state_.observer.finished || size() == 1) return start(std::move(operation), other);
  return observe(
      {.operation = std::move(name), .bytes = bytes, .peer = call.peer, .sequence = call.sequence},
      std::move(operation), other);
}

Pending RankCommunicator::observe(CommSpan span, Operation operation, int other) {
  const CommObserver observer = state_.observer;
  span.begin = observer.clock();
  const auto pending = std::make_shared<Pending>(start(std::move(operation), other));
  span.started = observer.clock();
  return Pending([observer, pending, span]() mutable {
    span.waited = observer.clock();
    pending->wait();
    span.end = observer.clock();
    observer.finished(span);
  });
}

Pending RankCommunicator::all_reduce(const Tensor& x, ReduceOp op) {
  check(x.defined(), "all_reduce on ", axis(), ": the tensor is undefined");
  const auto kind = op == ReduceOp::kMax ? CallKind::kAllReduceMax : CallKind::kAllReduce;
  const Call call = collective(kind, x.dtype(), x.elements());
  check_operand(call, x);
  // Everybody else's piece once to be summed, and the own sum to everybody else.
  const std::int64_t own = piece_elements(x.elements(), rank_);
  return begin({call, x, x}, 0, (x.elements() - own + own * (size() - 1)) * size_of(x.dtype()));
}

Pending RankCommunicator::quick_all_reduce(const Tensor& x) {
  check(x.defined(), "quick_all_reduce on ", axis(), ": the tensor is undefined");
  if (x.bytes() > kQuickBytes) return all_reduce(x, ReduceOp::kSum);
  const Call call = collective(CallKind::kQuickAllReduce, x.dtype(), x.elements());
  check_operand(call, x);
  return begin({call, x, x}, 0, x.bytes() * (size() - 1));
}

Pending RankCommunicator::all_gather(const Tensor& piece, const Tensor& whole) {
  check(whole.defined(), "all_gather on ", axis(), ": the whole is undefined");
  const Call call = collective(CallKind::kAllGather, whole.dtype(), whole.elements());
  check_operand(call, whole);
  const Tensor source = check_piece(call, whole, piece);
  return begin({call, source, whole}, 0, source.bytes() * (size() - 1));
}

Pending RankCommunicator::reduce_scatter(const Tensor& whole, const Tensor& piece) {
  check(whole.defined(), "reduce_scatter on ", axis(), ": the whole is undefined");
  const Call call = collective(CallKind::kReduceScatter, whole.dtype(), whole.elements());
  check_operand(call, whole);
  const Tensor target = check_piece(call, whole, piece);
  return begin({call, whole, target}, 0,
               (whole.elements() - target.elements()) * size_of(whole.dtype()));
}

Pending RankCommunicator::broadcast(const Tensor& x, int root) {
  check(x.defined(), "broadcast on ", axis(), ": the tensor is undefined");
  check_member("broadcast", root);
  const Call call = collective(CallKind::kBroadcast, x.dtype(), x.elements(), root);
  check_operand(call, x);
  return begin({call, x, x}, root, rank_ == root ? x.bytes() * (size() - 1) : 0);
}

Pending RankCommunicator::send(const Tensor& x, int to) {
  const Call call = message(CallKind::kSend, x, to);
  return begin({call, x, {}}, to, to == rank_ ? 0 : x.bytes());
}

Pending RankCommunicator::recv(const Tensor& x, int from) {
  const Call call = message(CallKind::kRecv, x, from);
  return begin({call, {}, x}, from, 0);
}

void RankCommunicator::barrier() {
  start({collective(CallKind::kBarrier, DType::kU8, 0), {}, {}}, 0).wait();
}

}  // namespace trireme
