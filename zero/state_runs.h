// Which elements of a unit's flat buffer are which elements of the logical model: what a rank
// writes into a checkpoint and what it must read from one, whatever layout wrote it.
//
// Pure arithmetic over descriptors: one section of one parameter after the other, cut to a flat
// range, as rectangles of logical tensors. Padding lies in no section and so in no run. Frozen
// parameters have runs too.
#pragma once

#include <vector>

#include "framework/checkpoint/logical.h"
#include "zero/unit.h"

namespace trireme {

struct StateRun {
  Range flat;          // elements of the unit's flat buffer, row-major in the rectangle
  std::string tensor;  // logical name
  Shape logical;       // its whole shape
  Rectangle at;        // in the logical tensor
  bool trainable = true;
  bool counts = true;  // this holder writes it: exactly one of all does (ParameterSpec's sections)
};

// Runs of elements `part` of the unit's buffer, in flat order. A run is one rectangle; a flat piece
// of a matrix is up to three of them.
std::vector<StateRun> state_runs(const Unit& unit, Range part);

}  // namespace trireme
