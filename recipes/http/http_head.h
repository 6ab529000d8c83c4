// The head of a request, checked byte by byte as it comes, before anything reads it: two parsers
// that understand a head in two ways are how requests are smuggled. Refused are control characters,
// line ends other than CR LF, folded lines, a blank before a colon, names that are no tokens,
// targets that are no plain path, versions other than 1.0 and 1.1, and all sizes over the limits.
// Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "recipes/http/http_message.h"

namespace trireme {

struct HeadLimits {
  std::size_t bytes = 16 << 10;  // of the whole head
  std::size_t line = 8 << 10;
  std::size_t fields = 100;
};

struct HttpProblem {
  int status;  // 400, 414, 431, 505, ...
  std::string sentence;
};

// Bytes of the head at the beginning of `text`, with the empty line; npos if it is not whole yet.
std::size_t head_size(std::string_view text);
// What is wrong with the head, or with the part of it that has come.
std::optional<HttpProblem> head_problem(std::string_view head, const HeadLimits& limits);
// What is wrong with the fields of a whole one: two hosts, two lengths, a length and chunks, a
// coding that is not chunked.
std::optional<HttpProblem> fields_problem(const HttpRequest& request, bool version_1_0);

}  // namespace trireme
