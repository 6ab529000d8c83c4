// Signals of a chat as values, without a handler: they are blocked in the thread that makes this,
// and in all that it starts, and read from a signalfd by a thread of this.
//
// Until begin() they do what they always did: end the program. From then on Ctrl-C (SIGINT) is
// told, and SIGTERM, SIGHUP and SIGQUIT ask for an end. Who does not take a Ctrl-C before the next
// one, or a request to end before another, is taken to hang: the terminal is put back, and the
// program ends. Ctrl-Z (SIGTSTP) puts the terminal back and stops the program; whoever lets it go
// on (SIGCONT) makes it take the terminal again. While the terminal is lent to another program,
// the keys that make signals are that one's.
//
// Make it before any other thread. The functions below are the asking thread's.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

namespace trireme {

class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Called on the thread of this, or of who lends; they must not wait for anything.
  struct Terminal {
    std::function<void()> put_back = {};  // before the program is ended, stopped, or lends it
    std::function<void()> take = {};      // when the program goes on, or has it again
  };
  void begin(Terminal terminal);

  // Another program has the terminal from here on, and no more.
  void lend();
  void reclaim();

  // A Ctrl-C, or a request to end, that nobody took yet.
  bool pending() const { return told_.load() > 0 || ending() != 0; }
  // Forgets it; false if there was none.
  bool take();
  // The signal that asks for the end; 0: none.
  int ending() const { return ending_.load(); }

  enum class Woken : std::uint8_t { kInput, kInterrupt, kTerminate, kContinued };
  // Until the descriptor can be read, or is at its end, or one of the others. Calls `idle` about
  // twice a second. kContinued: the program was stopped, and goes on.
  Woken wait(int descriptor, const std::function<void()>& idle);

 private:
  void watch();
  void heard(int number);
  void stop_here();
  void go_on();
  void put_back();
  [[noreturn]] void leave(int number);

  int signals_, wake_, finish_;  // descriptors
  std::atomic<int> told_{0}, ending_{0};
  std::atomic<bool> continued_{false};
  std::mutex mutex_;
  Terminal terminal_;
  bool begun_ = false, lent_ = false;
  std::thread watcher_;
};

}  // namespace trireme
