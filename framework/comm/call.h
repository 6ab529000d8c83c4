// One call of a communicator as data: what ranks compare before any byte moves, what errors say,
// and what a rank's log remembers. Internal to framework/comm.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "framework/base/dtype.h"

namespace trireme {

enum class CallKind : std::uint8_t {
  kAllReduce,
  kAllReduceMax,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kSend,
  kRecv,
  kBarrier,
  kSplit,
  kQuickAllReduce
};

// Trivially copyable: MPI ranks exchange it as bytes.
struct Call {
  CallKind kind = CallKind::kBarrier;
  DType dtype = DType::kU8;   // of the whole
  std::int32_t peer = -1;     // world rank of broadcast's root, or of the other end of a message
  std::int64_t elements = 0;  // of the whole
  std::int64_t sequence = 0;  // collectives of the group, or messages of the pair, from 1 on
  std::int32_t color = 0, key = 0;  // split only

  std::int64_t bytes() const { return elements * size_of(dtype); }
  bool is_message() const { return kind == CallKind::kSend || kind == CallKind::kRecv; }
};

// "all_reduce", the name in traffic counts.
const char* name_of(CallKind kind);
// "all_reduce of 16 f32 (64 bytes), call 12 of tensor"
std::string text_of(const Call& call, const std::string& axis);

// Empty when the calls of all members agree; else a sentence, the same on every rank, that names
// the first odd rank and both calls. The odd ones are those outside the largest group of equal
// calls. For a message the two calls are the sender's and the receiver's.
std::string mismatch(std::span<const Call> calls, std::span<const int> world_ranks,
                     const std::string& axis);

// The last calls of one rank. Thread-safe: peers read it for their errors.
class CallLog {
 public:
  void set_place(std::string place);
  std::string place() const;
  void record(const Call& call, const std::string& axis);
  // The last call with its place, or "no call yet".
  std::string last() const;
  // All remembered calls, oldest first, a line each with this prefix.
  std::string lines(const std::string& prefix) const;

 private:
  static constexpr std::size_t kRemembered = 64;
  struct Entry {
    Call call;
    std::string axis;
    std::shared_ptr<const std::string> place;
  };
  static std::string text_of_entry(const Entry& entry);

  mutable std::mutex mutex_;
  std::shared_ptr<const std::string> place_ = std::make_shared<const std::string>();
  std::array<Entry, kRemembered> entries_;
  std::size_t recorded_ = 0;  // since the start; entry i lies at i % kRemembered
};

}  // namespace trireme
