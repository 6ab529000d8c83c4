// What is served and the memory it has, for GET /props: the model's name and context, whether it
// has a chat template, the defaults of sampling, bytes by kind and tier, pages of the cache.
#pragma once

#include "framework/base/json/json.h"
#include "recipes/api/api_request.h"

namespace trireme {

Json props_json(const ServedModel& model, const ServeStats& stats);

}  // namespace trireme
