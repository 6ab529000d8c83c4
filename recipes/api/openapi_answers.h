// What answers look like, for /openapi.json: its `components.schemas`, and how routes refer to
// them. Tests hold real answers against these, so they name every member that is said, and no more.
#pragma once

#include <string>

#include "framework/base/json/json.h"

namespace trireme {

Json answer_schemas();

// {"$ref": "#/components/schemas/NAME"}.
Json answer_ref(const std::string& name);

}  // namespace trireme
