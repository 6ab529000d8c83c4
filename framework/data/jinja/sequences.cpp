// Items, slices, membership: strings count in characters, not bytes.
#include <algorithm>

#include "framework/base/error.h"
#include "framework/data/jinja/builtins.h"

namespace trireme::jinja {

namespace {

// Begins of the characters of UTF-8 text, and its end.
std::vector<std::size_t> characters(const std::string& text) {
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) begins.push_back(i);
  begins.push_back(text.size());
  return begins;
}

// Indices of size items that begin:end:step picks, as Python does.
std::vector<std::int64_t> picked(std::int64_t size, const Value& begin, const Value& end,
                                 const Value& step, Budget& budget) {
  const auto bound = [&](const Value& value, std::int64_t none) {
    if (value.is<None>()) return none;
    const auto* given = value.as<std::int64_t>();
    check(given != nullptr, "a slice takes integers, not ", kind_of(value));
    return *given;
  };
  const std::int64_t by = bound(step, 1);
  check(by != 0, "a slice's step is 0");
  const std::int64_t lowest = by > 0 ? 0 : -1, highest = by > 0 ? size : size - 1;
  const auto placed = [&](const Value& value, std::int64_t none) {
    if (value.is<None>()) return none;
    std::int64_t at = bound(value, 0);
    if (at < 0) at = std::max<std::int64_t>(at, -size - 1) + size;
    return std::clamp(at, lowest, highest);
  };
  const std::int64_t from = placed(begin, by > 0 ? lowest : highest);
  const std::int64_t to = placed(end, by > 0 ? highest : lowest);
  std::vector<std::int64_t> indices;
  for (std::int64_t at = from; by > 0 ? at < to : at > to;) {
    budget.step();
    indices.push_back(at);
    if (by > 0 ? by >= to - at : by <= to - at) break;
    at += by;
  }
  return indices;
}

// -1: not there.
std::int64_t index_in(std::size_t size, const Value& index) {
  const auto* given = index.as<std::int64_t>();
  if (given == nullptr) return -1;
  const auto all = static_cast<std::int64_t>(size);
  const std::int64_t at = *given < 0 ? *given + all : *given;
  return at >= 0 && at < all ? at : -1;
}

}  // namespace

Value item_of(const Value& value, const Value& index) {
  if (const Mapping* mapping = value.mapping()) {
    const Value* found = index.text() ? mapping->find(index.text()->bytes()) : nullptr;
    if (found) return *found;
  } else if (const List* list = value.list()) {
    const std::int64_t at = index_in(list->items.size(), index);
    if (at >= 0) return list->items[static_cast<std::size_t>(at)];
  } else if (const Text* text = value.text()) {
    const std::vector<std::size_t> begins = characters(text->bytes());
    const std::int64_t at = index_in(begins.size() - 1, index);
    if (at >= 0) {
      const auto character = static_cast<std::size_t>(at);
      return text->part(begins[character], begins[character + 1] - begins[character]);
    }
  } else if (const auto* space = value.as<std::shared_ptr<Namespace>>()) {
    const auto found = (*space)->members.find(index.text() ? index.text()->bytes() : "");
    if (found != (*space)->members.end()) return found->second;
  }
  return Undefined{to_text(index).bytes()};
}

Value slice_of(const Value& value, const Value& begin, const Value& end, const Value& step,
               Budget& budget) {
  if (const List* list = value.list()) {
    std::vector<Value> items;
    for (const std::int64_t at :
         picked(static_cast<std::int64_t>(list->items.size()), begin, end, step, budget))
      items.push_back(list->items[static_cast<std::size_t>(at)]);
    return make_list(std::move(items));
  }
  const Text* text = value.text();
  if (text == nullptr) fail(kind_of(value), " cannot be sliced");
  const std::vector<std::size_t> begins = characters(text->bytes());
  budget.text(static_cast<std::int64_t>(text->size()));
  Text out;
  for (const std::int64_t at :
       picked(static_cast<std::int64_t>(begins.size()) - 1, begin, end, step, budget)) {
    const auto character = static_cast<std::size_t>(at);
    out.append(text->part(begins[character], begins[character + 1] - begins[character]));
  }
  return out;
}

bool contains(const Value& container, const Value& item) {
  if (const List* list = container.list())
    return std::any_of(list->items.begin(), list->items.end(),
                       [&](const Value& other) { return equal(item, other); });
  if (const Mapping* mapping = container.mapping())
    return item.text() && mapping->find(item.text()->bytes()) != nullptr;
  if (container.text() && item.text())
    return container.text()->bytes().find(item.text()->bytes()) != std::string::npos;
  if (container.is<Undefined>()) return false;
  fail(kind_of(item), " cannot be looked for in ", kind_of(container));
}

std::vector<Value> items_of(const Value& value, Budget& budget) {
  std::vector<Value> items;
  if (const List* list = value.list()) {
    items = list->items;
  } else if (const Mapping* mapping = value.mapping()) {
    for (const auto& [name, member] : mapping->members) items.push_back(name);
  } else if (const Text* text = value.text()) {
    const std::vector<std::size_t> begins = characters(text->bytes());
    for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
      budget.step();
      items.push_back(text->part(begins[i], begins[i + 1] - begins[i]));
    }
  } else if (!value.is<Undefined>()) {
    fail(kind_of(value), " cannot be gone through");
  }
  budget.step(static_cast<std::int64_t>(items.size()));
  return items;
}

}  // namespace trireme::jinja
