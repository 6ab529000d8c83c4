// The API told to programs (OpenAPI 3.1, /openapi.json) and to people (/docs, one page without
// scripts), both from one table. Tests send every field of it at its limits.
#pragma once

#include <string>

#include "framework/base/json/json.h"
#include "recipes/api/api_request.h"

namespace trireme {

Json openapi(const ApiLimits& limits);
std::string api_page(const Json& described);

}  // namespace trireme
