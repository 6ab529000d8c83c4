// The counts of an optimizer (steps taken, the loss scale) in a checkpoint's manifest.
#pragma once

#include "framework/checkpoint/manifest.h"
#include "recipes/models/engine.h"

namespace trireme {

// As they are now.
void add_counts(Engine& engine, Manifest& head);
// Of an engine that trains. A scale that was fixed says nothing about where a dynamic one should
// be: that one begins anew.
void restore_counts(Engine& engine, const Manifest& manifest);

}  // namespace trireme
