#include "recipes/api/api_error.h"

#include "framework/data/tokenizers/utf8.h"

namespace trireme {

std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 500:
      return "server_error";
    case 503:
      return "unavailable_error";
    default:
      return "invalid_request_error";
  }
}

Json error_json(const ApiError& error) {
  // What they quote of a request may be no UTF-8, or end within a character.
  const auto word = [](const std::string& text) {
    return text.empty() ? Json() : Json(to_utf8(text));
  };
  return Json::Object{{"error", Json::Object{{"message", to_utf8(error.what())},
                                             {"type", std::string(error_type(error.status))},
                                             {"param", word(error.param)},
                                             {"code", word(error.code)}}}};
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response{.status = error.status, .body = to_text(error_json(error)) + "\n"};
  if (error.status == 429 || error.status == 503) response.fields.emplace_back("Retry-After", "1");
  if (error.status == 401) response.fields.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace trireme
