// A request that is refused, in the shape that OpenAI's clients read:
// {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <string>

#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "recipes/http/http_message.h"

namespace trireme {

class ApiError : public Error {
 public:
  // `param`: the field of the request; `code`: a word for programs; either may be empty (null).
  ApiError(int http_status, const std::string& sentence, std::string field = {},
           std::string word = {})
      : Error(sentence), status(http_status), param(std::move(field)), code(std::move(word)) {}
  const int status;
  const std::string param, code;
};

// "invalid_request_error", "rate_limit_error", ...
std::string_view error_type(int status);
Json error_json(const ApiError& error);
// With Retry-After where it may be tried again, and WWW-Authenticate where a key is missing.
HttpResponse error_response(const ApiError& error);

}  // namespace trireme
