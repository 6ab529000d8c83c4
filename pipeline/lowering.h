// From computations to a full schedule: puts the messages between them.
//
// Lists of computations alone say nothing about when a message is posted, and that decides between
// an ideal timeline and a deadlock. Here the computations are laid out on an ideal timeline
// (nominal costs: forward 1, backward 2, its halves 1 each; messages free); every message becomes
// an event at the time it is produced, and each stage's list is its view of that one sequence of
// events. Two stages that wait for each other's messages therefore wait for the same event, never
// in a circle.
#pragma once

#include "pipeline/schedule.h"

namespace trireme {

// `computations` holds one list per stage without communication actions. Throws Error naming stage
// and action if they can never run (an order that contradicts the data flow).
Schedule add_communication(const Schedule& computations);

}  // namespace trireme
