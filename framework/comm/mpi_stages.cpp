// The data part of each operation, as stages: each runs when the requests of the one before are
// complete.
#include <algorithm>

#include "framework/backend/backend.h"
#include "framework/comm/mpi_engine.h"
#include "framework/comm/pieces.h"

namespace trireme {

namespace {

// Bounds the communication buffers: (ranks - 1) chunks of this many bytes.
constexpr std::int64_t kChunkBytes = std::int64_t{4} << 20;
enum Channel { kPieces = 1, kGather = 2, kMessage = 5 };

std::byte* bytes_of(const Tensor& x) { return static_cast<std::byte*>(x.data()); }

struct Span {
  std::int64_t begin, count;
};

Span piece_of(const MpiOperation& o, std::size_t seat) {
  const auto n = static_cast<std::int64_t>(o.ranks.size()), s = static_cast<std::int64_t>(seat);
  const std::int64_t begin = piece_begin(o.call().elements, n, s);
  return {begin, piece_begin(o.call().elements, n, s + 1) - begin};
}

// Runs f(seat, its rank in the group) for everybody else.
template <typename F>
void for_others(const MpiOperation& o, const F& f) {
  for (std::size_t seat = 0; seat < o.ranks.size(); ++seat)
    if (seat != static_cast<std::size_t>(o.seat)) f(seat, o.ranks[seat]);
}

// The own piece of all wholes, summed into `out` chunk by chunk.
struct Reduction {
  MpiOperation& o;
  Tensor out;
  Span own;
  std::int64_t chunk;                // elements
  std::vector<Tensor> buffers = {};  // by seat; the own one is unused

  std::int64_t bytes(std::int64_t elements) const { return elements * size_of(o.call().dtype); }
  std::int64_t chunks(std::int64_t elements) const { return (elements + chunk - 1) / chunk; }
  std::int64_t length(std::int64_t elements, std::int64_t at) const {
    return std::min(chunk, elements - at * chunk);
  }

  void send_all() {
    for_others(o, [&](std::size_t seat, int rank) {
      const Span piece = piece_of(o, seat);
      for (std::int64_t c = 0; c < chunks(piece.count); ++c)
        o.background.send(bytes_of(o.operation.source) + bytes(piece.begin + c * chunk),
                          bytes(length(piece.count, c)), rank, o.tag(kPieces), o.group->comm);
    });
  }

  void receive(std::int64_t c) {
    buffers.resize(o.ranks.size());
    for_others(o, [&](std::size_t seat, int rank) {
      if (!buffers[seat])
        buffers[seat] = o.backend->allocate({std::min(chunk, own.count)}, o.call().dtype,
                                            MemoryKind::kCommunication);
      o.requests.receive(bytes_of(buffers[seat]), bytes(length(own.count, c)), rank, o.tag(kPieces),
                         o.group->comm);
    });
  }

  void sum(std::int64_t c) {
    const std::int64_t n = length(own.count, c);
    std::vector<Tensor> pieces;
    for (std::size_t seat = 0; seat < o.ranks.size(); ++seat)
      pieces.push_back(seat == static_cast<std::size_t>(o.seat)
                           ? o.operation.source.elements_at(own.begin + c * chunk, {n})
                           : buffers[seat].elements_at(0, {n}));
    reduce_in_order(*o.backend, o.call().kind, pieces, out.elements_at(c * chunk, {n}));
  }
};

void plan_reduction(MpiOperation& o, const Tensor& out) {
  const auto r =
      std::make_shared<Reduction>(Reduction{o, out, piece_of(o, static_cast<std::size_t>(o.seat)),
                                            kChunkBytes / size_of(o.call().dtype)});
  const std::int64_t chunks = r->chunks(r->own.count);
  o.stages.push_back([r] {
    r->send_all();
    if (r->own.count > 0) r->receive(0);
  });
  for (std::int64_t c = 0; c < chunks; ++c)
    o.stages.push_back([r, c, chunks] {
      r->sum(c);
      if (c + 1 < chunks) r->receive(c + 1);
    });
  // In place, nothing may arrive in the whole before it has been sent.
  o.stages.push_back([&o] { o.requests.take(o.background); });
}

void plan_gather(MpiOperation& o, const Tensor& own, const Tensor& whole) {
  o.stages.push_back([&o, own, whole] {
    for_others(o, [&](std::size_t seat, int rank) {
      const Span piece = piece_of(o, seat);
      const Tensor region = whole.elements_at(piece.begin, {piece.count});
      o.requests.receive(bytes_of(region), region.bytes(), rank, o.tag(kGather), o.group->comm);
      o.requests.send(bytes_of(own), own.bytes(), rank, o.tag(kGather), o.group->comm);
    });
    const Span mine = piece_of(o, static_cast<std::size_t>(o.seat));
    copy_apart(*o.backend, own, whole.elements_at(mine.begin, {mine.count}));
  });
}

void plan_quick(MpiOperation& o) {
  o.stages.push_back([&o] { o.requests.take(o.background); });
  o.stages.push_back([&o] {
    const Tensor x = o.operation.target.reshaped({o.call().elements});
    o.arriving[static_cast<std::size_t>(o.seat)] = x;
    reduce_in_order(*o.backend, o.call().kind, o.arriving, x);
    o.arriving.clear();
  });
}

void plan_broadcast(MpiOperation& o) {
  o.stages.push_back([&o] {
    const Tensor& x = o.operation.target;
    const auto root_of = std::find(o.members.begin(), o.members.end(), o.call().peer);
    const int root = static_cast<int>(root_of - o.members.begin());
    if (o.seat != root) {
      o.requests.receive(bytes_of(x), x.bytes(), root, o.tag(kPieces), o.group->comm);
      return;
    }
    for_others(o, [&](std::size_t, int rank) {
      o.requests.send(bytes_of(x), x.bytes(), rank, o.tag(kPieces), o.group->comm);
    });
  });
}

}  // namespace

void post_quick(MpiOperation& o) {
  const Tensor& x = o.operation.source;
  o.arriving.resize(o.ranks.size());
  for_others(o, [&](std::size_t seat, int rank) {
    o.arriving[seat] = o.backend->allocate({x.elements()}, x.dtype(), MemoryKind::kCommunication);
    o.background.receive(bytes_of(o.arriving[seat]), x.bytes(), rank, o.tag(kPieces),
                         o.group->comm);
    o.background.send(bytes_of(x), x.bytes(), rank, o.tag(kPieces), o.group->comm);
  });
}

void plan_stages(MpiOperation& o) {
  const Tensor& target = o.operation.target;
  switch (o.call().kind) {
    case CallKind::kAllReduce:
    case CallKind::kAllReduceMax: {
      const Span mine = piece_of(o, static_cast<std::size_t>(o.seat));
      const Tensor own = target.elements_at(mine.begin, {mine.count});
      plan_reduction(o, own);
      plan_gather(o, own, target);
      return;
    }
    case CallKind::kQuickAllReduce:
      return plan_quick(o);
    case CallKind::kReduceScatter:
      return plan_reduction(o, target.reshaped({target.elements()}));
    case CallKind::kAllGather:
      return plan_gather(o, o.operation.source, target);
    case CallKind::kBroadcast:
      return plan_broadcast(o);
    case CallKind::kSend:
      o.stages.push_back([&o] {
        const Tensor& x = o.operation.source;
        o.requests.send(bytes_of(x), x.bytes(), o.ranks[1], o.tag(kMessage), o.group->comm);
      });
      return;
    case CallKind::kRecv:
      o.stages.push_back([&o] {
        const Tensor& x = o.operation.target;
        o.requests.receive(bytes_of(x), x.bytes(), o.ranks[0], o.tag(kMessage), o.group->comm);
      });
      return;
    case CallKind::kBarrier:
    case CallKind::kSplit:
      return;
  }
}

}  // namespace trireme
