// A group that is only spoken of answers who it is and refuses everything else.
#include <gtest/gtest.h>

#include "framework/base/error.h"
#include "framework/comm/described_communicator.h"

namespace trireme {
namespace {

TEST(DescribedCommunicator, KnowsItsPlace) {
  const auto group = describe_communicator(1, 4, "tensor");
  EXPECT_EQ(group->rank(), 1);
  EXPECT_EQ(group->size(), 4);
  EXPECT_EQ(group->axis(), "tensor");
}

TEST(DescribedCommunicator, RefusesEveryOperationByName) {
  const auto group = describe_communicator(1, 4, "tensor");
  const Tensor x;
  const auto expect_refused = [](const std::string& operation, auto call) {
    try {
      call();
      ADD_FAILURE() << operation;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(),
                "described group \"tensor\" (rank 1 of 4) cannot communicate: " + operation);
    }
  };
  expect_refused("all_reduce", [&] { group->all_reduce(x).wait(); });
  expect_refused("all_gather", [&] { group->all_gather(x, x).wait(); });
  expect_refused("reduce_scatter", [&] { group->reduce_scatter(x, x).wait(); });
  expect_refused("broadcast", [&] { group->broadcast(x, 0).wait(); });
  expect_refused("send", [&] { group->send(x, 0).wait(); });
  expect_refused("recv", [&] { group->recv(x, 0).wait(); });
  expect_refused("barrier", [&] { group->barrier(); });
  expect_refused("split", [&] { group->split(0, 0, "data"); });
}

TEST(DescribedCommunicator, WhatOnlyTellsIsHarmless) {
  const auto group = describe_communicator(0, 1, "data");
  const auto backend = make_reference_backend(std::make_shared<MemoryLedger>());
  group->attach(*backend);
  group->set_place("step 1");
  group->set_observer({});
  group->reset_traffic();
  group->abort("nothing to end");
  EXPECT_TRUE(group->traffic().empty());
  EXPECT_EQ(group->recent_calls(), "");
}

TEST(DescribedCommunicator, ARankOutsideIsRefused) {
  EXPECT_THROW(describe_communicator(4, 4, "tensor"), Error);
  EXPECT_THROW(describe_communicator(-1, 4, "tensor"), Error);
  EXPECT_THROW(describe_communicator(0, 0, "tensor"), Error);
}

}  // namespace
}  // namespace trireme
