// From tokens to the tree (Jinja's grammar, as far as chat templates use it). What it does not know
// is refused by name: include, import, extends, block, call, do, autoescape, trans.
#pragma once

#include <string>
#include <string_view>

#include "framework/data/jinja/syntax.h"

namespace trireme::jinja {

inline constexpr int kDeepestNesting = 100;  // of expressions and statements

// Error "NAME:LINE: ..." for what is no template.
Block parse(std::string_view source, const std::string& name);

}  // namespace trireme::jinja
