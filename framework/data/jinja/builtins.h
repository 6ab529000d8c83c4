// Filters, tests and methods that chat templates use, with Python's results. Letters outside ASCII
// keep their case in upper, lower, title and capitalize.
#pragma once

#include <string>

#include "framework/data/jinja/budget.h"
#include "framework/data/jinja/value.h"

namespace trireme::jinja {

// Each Error is a sentence without place; a name that nobody knows is one.
Value apply_filter(const std::string& name, const Value& input, const Arguments& arguments,
                   Budget& budget);
bool apply_test(const std::string& name, const Value& input, const std::vector<Value>& arguments);
// The method of a string or mapping, bound to it; undefined if it has none of that name. `budget`
// must outlive it.
Value method_of(const Value& self, const std::string& name, Budget& budget);

// value[index], value[begin:end:step] and value.name of what is no method; undefined if missing.
Value item_of(const Value& value, const Value& index);
// Bounds that are none are left out.
Value slice_of(const Value& value, const Value& begin, const Value& end, const Value& step,
               Budget& budget);
bool contains(const Value& container, const Value& item);
// What a loop goes over: items, keys, or characters. Error for anything else.
std::vector<Value> items_of(const Value& value, Budget& budget);

}  // namespace trireme::jinja
