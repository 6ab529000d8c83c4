// The small requests about tokens, and the reading of bodies. Pure functions; throw ApiError.
#pragma once

#include "recipes/api/api_request.h"

namespace trireme {

// A body as JSON, within the limits for depth and number of values.
Json api_body(const std::string& text);
// POST /tokenize: a text, or a conversation, as ids.
Json api_tokenize(const Json& body, const ServedModel& model, const ApiLimits& limits,
                  Encoder& encoder);
// POST /detokenize.
Json api_detokenize(const Json& body, const ServedModel& model);

}  // namespace trireme
