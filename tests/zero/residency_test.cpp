// Weights at stage 3: counted gathers, a plan that is carried out, and an order that is not the
// plan's.
#include "zero/residency.h"

#include "framework/base/error.h"
#include "tests/support/tensors.h"
#include "tests/zero/toys.h"
#include "zero/sharded.h"

namespace trireme::test {
namespace {

UnitOptions stage3() {
  return {.compute = DType::kF64, .gradients = DType::kF64, .policy = policy_of(3)};
}

bool whole(ToyUnit& toy) { return toy.parameter(0).value.defined(); }

TEST(Residency, GathersAreCounted) {
  on_ranks(2, [](Communicator& world, Backend& backend) {
    ToyUnit toy({toy_spec("a", 20)}, backend, world, stage3());
    toy.unit().fill_initial(1, {});
    EXPECT_FALSE(whole(toy));
    toy.unit().gather();
    toy.unit().gather();
    toy.unit().release();
    EXPECT_TRUE(whole(toy));
    toy.unit().release();
    EXPECT_FALSE(whole(toy));
    EXPECT_THROW(toy.unit().release(), Error);
    toy.unit().hold();  // fetched ahead: nobody may use it yet
    EXPECT_FALSE(whole(toy));
    toy.unit().gather();
    EXPECT_EQ(toy.values(), std::vector<double>(20, 1.0));
    toy.unit().release();
    EXPECT_TRUE(whole(toy));
    toy.unit().release();
    EXPECT_EQ(world.traffic().at("world/all_gather").calls, 2);
  });
}

// Two entries of a unit each, forward and backward of one micro-batch.
GatherPlan plan_of_two(Reshard reshard, bool prefetch) {
  const std::vector<Use> order =
      flatten({{.kind = Action::Kind::kForward}, {.kind = Action::Kind::kBackward}}, {2});
  return {touches(order, {.entries = 2}),
          {.users = {{0}, {1}}, .elements = {16, 16}, .reshard = reshard, .prefetch = prefetch}};
}

TEST(Residency, HoldsWhatThePlanHolds) {
  for (const bool prefetch : {false, true})
    for (const Reshard reshard : {Reshard::kForward, Reshard::kBackward, Reshard::kStep})
      on_ranks(2, [&](Communicator& world, Backend& backend) {
        ToyUnit first({toy_spec("a", 16)}, backend, world, stage3());
        ToyUnit second({toy_spec("b", 16)}, backend, world, stage3());
        Residency residency({&first.unit(), &second.unit()});
        const GatherPlan plan = plan_of_two(reshard, prefetch);
        const auto use = [&](int entry) {
          residency.enter(entry);
          ToyUnit& toy = entry == 0 ? first : second;
          toy.unit().gather();
          EXPECT_TRUE(whole(toy));
          toy.unit().release();
          residency.leave(entry);
        };
        residency.begin(plan);
        for (const int entry : {0, 1}) use(entry);
        EXPECT_TRUE(whole(second)) << "the turn gathers nothing twice";
        EXPECT_EQ(whole(first), reshard != Reshard::kForward);
        for (const int entry : {1, 0}) use(entry);
        residency.end();
        EXPECT_FALSE(whole(first));
        EXPECT_FALSE(whole(second));
        EXPECT_EQ(world.traffic().at("world/all_gather").calls,
                  reshard == Reshard::kForward ? 3 : 2);
        EXPECT_EQ(world.traffic().at("world/all_gather").calls, plan.gathers(0) + plan.gathers(1));
      });
}

TEST(Residency, AnotherOrderIsAnError) {
  on_ranks(1, [](Communicator& world, Backend& backend) {
    ToyUnit first({toy_spec("a", 16)}, backend, world, stage3());
    ToyUnit second({toy_spec("b", 16)}, backend, world, stage3());
    Residency residency({&first.unit(), &second.unit()});
    const GatherPlan plan = plan_of_two(Reshard::kForward, true);
    residency.begin(plan);
    EXPECT_THROW(residency.begin(plan), Error);
    EXPECT_THROW(residency.enter(1), Error);
    EXPECT_THROW(residency.leave(0), Error);
    residency.enter(0);
    residency.leave(0);
    EXPECT_THROW(residency.end(), Error);
  });
}

}  // namespace
}  // namespace trireme::test
