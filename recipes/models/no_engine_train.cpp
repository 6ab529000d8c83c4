// Stands in for engine_train.cpp in builds for inference only (TRIREME_TRAINER=OFF).
#include "framework/base/error.h"
#include "recipes/models/engine.h"

namespace trireme {

namespace {

constexpr const char* kNone = "this build is for inference only: it trains no model";

}  // namespace

void EngineTrainingEnd::operator()(EngineTraining*) const {}
void Engine::make_training() { fail(kNone); }
ZeroOptimizer& Engine::optimizer() { fail(kNone); }
StateCopy* Engine::state_copy() { return nullptr; }
std::vector<TiledStore*> Engine::stores() const { return stage_->stores(); }
EngineStep Engine::train(std::int64_t, const SampleSource&, const Wishes&) { fail(kNone); }

}  // namespace trireme
