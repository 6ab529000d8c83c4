// The pool of threads and its tickets.
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "framework/base/error.h"
#include "offload/io_pool.h"
#include "tests/support/faulty_files.h"

namespace trireme {
namespace {

using testing::sentence_of;

TEST(IoPool, ErrorsAreKeptForTheOneWhoWaits) {
  IoPool pool(2);
  EXPECT_EQ(pool.threads(), 2);
  IoTicket good = pool.start([] {});
  IoTicket bad = pool.start([] { fail("the disk is gone"); });
  EXPECT_TRUE(bad.pending());
  good.wait();
  EXPECT_EQ(sentence_of([&] { bad.wait(); }), "the disk is gone");
  EXPECT_FALSE(bad.pending());
  bad.wait();  // told once
  IoTicket none;
  none.wait();
}

TEST(IoPool, DroppingATicketWaits) {
  IoPool pool(1);
  std::promise<void> gate;
  bool done = false;  // not atomic: the wait orders it
  {
    IoTicket first = pool.start([&] { gate.get_future().wait(); });
    IoTicket second = pool.start([&] {
      done = true;
      fail("nobody hears this");
    });
    gate.set_value();
  }
  EXPECT_TRUE(done);
  bool again = false;
  IoTicket ticket = pool.start([&] { again = true; });
  ticket = IoTicket();
  EXPECT_TRUE(again);
}

TEST(IoPool, RequestsBeginInOrderAndTheEndWaitsForThem) {
  std::vector<int> order;
  std::vector<IoTicket> tickets;
  {
    IoPool pool(1);
    for (int i = 0; i < 100; ++i)
      tickets.push_back(pool.start([&order, i] { order.push_back(i); }));
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  for (IoTicket& ticket : tickets) ticket.wait();
}

TEST(IoPool, TwoThreadsWorkAtOnce) {
  IoPool pool(2);
  std::promise<void> here, there;
  IoTicket a = pool.start([&] {
    here.set_value();
    there.get_future().wait();
  });
  IoTicket b = pool.start([&] {
    there.set_value();
    here.get_future().wait();
  });
  a.wait();
  b.wait();
}

TEST(IoPool, NeedsAThread) {
  EXPECT_EQ(sentence_of([] { IoPool pool(0); }), "io pool: 0 threads; at least 1 is needed");
}

}  // namespace
}  // namespace trireme
