// A request and a response of HTTP/1.1, as values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

struct HttpRequest {
  std::string method;  // as sent: "GET"
  std::string path;    // up to the question mark; never decoded
  std::string query;   // behind it
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case, in order
  std::string body;
  std::uint64_t connection = 0;  // whose it is: 1, 2, ...

  // The first field of that name, given in lower case; empty if there is none.
  std::string_view field(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> fields = {};  // more of the head
};

// "Not Found"
std::string_view reason_phrase(int status);

}  // namespace trireme
