#include "offload/io_pool.h"

#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "framework/base/condition.h"
#include "framework/base/error.h"

namespace trireme {

struct IoTicket::State {
  std::function<void()> work;
  std::mutex mutex;
  Condition finished;
  bool done = false;
  std::exception_ptr error;

  // On a thread of the pool.
  void run() {
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    work = nullptr;  // what it captured dies before anybody is told
    const std::scoped_lock lock(mutex);
    error = std::move(failure);
    done = true;
    finished.notify_all();
  }
  std::exception_ptr wait() {
    std::unique_lock lock(mutex);
    finished.wait(lock, [&] { return done; });
    return std::exchange(error, nullptr);
  }
};

IoTicket::IoTicket(std::shared_ptr<State> state) : state_(std::move(state)) {}

IoTicket& IoTicket::operator=(IoTicket&& other) noexcept {
  if (this == &other) return *this;
  if (state_) state_->wait();
  state_ = std::move(other.state_);
  return *this;
}

IoTicket::~IoTicket() {
  if (state_) state_->wait();
}

void IoTicket::wait() {
  if (!state_) return;
  const auto state = std::exchange(state_, nullptr);
  if (const std::exception_ptr error = state->wait()) std::rethrow_exception(error);
}

struct IoPool::Impl {
  ~Impl() {
    {
      const std::scoped_lock lock(mutex);
      ending = true;
    }
    changed.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  void serve() {
    for (;;) {
      std::shared_ptr<IoTicket::State> next;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return ending || !queue.empty(); });
        if (queue.empty()) return;
        next = std::move(queue.front());
        queue.pop_front();
      }
      next->run();
    }
  }

  std::mutex mutex;
  Condition changed;
  std::deque<std::shared_ptr<IoTicket::State>> queue;
  bool ending = false;
  std::vector<std::thread> threads;
};

IoPool::IoPool(int threads) : impl_(std::make_unique<Impl>()) {
  check(threads >= 1, "io pool: ", threads, " threads; at least 1 is needed");
  for (int i = 0; i < threads; ++i) {
    try {
      impl_->threads.emplace_back([impl = impl_.get()] { impl->serve(); });
    } catch (const std::system_error& error) {
      fail("io pool: thread ", i + 1, " of ", threads, " cannot be started: ", error.what());
    }
  }
}

IoPool::~IoPool() = default;

int IoPool::threads() const { return static_cast<int>(impl_->threads.size()); }

IoTicket IoPool::start(std::function<void()> work) {
  auto state = std::make_shared<IoTicket::State>();
  state->work = std::move(work);
  {
    const std::scoped_lock lock(impl_->mutex);
    impl_->queue.push_back(state);
  }
  impl_->changed.notify_one();
  return IoTicket(std::move(state));
}

}  // namespace trireme
