// A few threads that read and write files while the rank computes.
//
// Requests of one pool begin in the order given and may end in any order. A rank has a pool of its
// own; start() and wait() are called by the rank's thread only. An Error of the file layer is kept
// and thrown by wait(), with the sentence it had.
#pragma once

#include <functional>
#include <memory>

namespace trireme {

// Work under way. Move-only; wait() is idempotent. Dropping a ticket waits and swallows the error:
// nobody may free memory that a thread still uses.
class IoTicket {
 public:
  struct State;
  IoTicket() = default;  // already complete
  explicit IoTicket(std::shared_ptr<State> state);
  IoTicket(IoTicket&&) noexcept = default;
  IoTicket& operator=(IoTicket&& other) noexcept;
  ~IoTicket();
  // Blocks until done; throws what the work threw.
  void wait();
  bool pending() const { return state_ != nullptr; }

 private:
  std::shared_ptr<State> state_;
};

class IoPool {
 public:
  explicit IoPool(int threads);
  ~IoPool();  // ends after the requests begun
  IoPool(const IoPool&) = delete;
  IoPool& operator=(const IoPool&) = delete;

  [[nodiscard]] IoTicket start(std::function<void()> work);
  int threads() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
