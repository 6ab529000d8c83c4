#include "recipes/http/http_head.h"

#include <algorithm>

#include "framework/base/error.h"

namespace trireme {

namespace {

bool is_token(std::string_view text) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kMarks.find(c) != std::string_view::npos;
  });
}

// Control characters, and line ends that are not CR LF.
std::optional<HttpProblem> byte_problem(std::string_view head) {
  for (std::size_t i = 0; i < head.size(); ++i) {
    const auto c = static_cast<unsigned char>(head[i]);
    if (c == '\r' && i + 1 < head.size() && head[i + 1] != '\n')
      return HttpProblem{400, "the head has a carriage return without a line feed"};
    if (c == '\n' && (i == 0 || head[i - 1] != '\r'))
      return HttpProblem{400, "the head has a line feed without a carriage return"};
    if ((c < 0x20 && c != '\r' && c != '\n' && c != '\t') || c == 0x7F)
      return HttpProblem{400, "the head has a control character"};
  }
  return std::nullopt;
}

std::optional<HttpProblem> request_line_problem(std::string_view line) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return HttpProblem{400, "the request line is not: METHOD /path HTTP/1.1"};
  const std::string_view target = line.substr(first + 1, last - first - 1),
                         version = line.substr(last + 1);
  if (!is_token(line.substr(0, first))) return HttpProblem{400, "the method is no word"};
  if (!target.starts_with('/') ||
      !std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 0x7F; }))
    return HttpProblem{400, "the target is no path"};
  if (version == "HTTP/1.1" || version == "HTTP/1.0") return std::nullopt;
  if (version.starts_with("HTTP/"))
    return HttpProblem{505, "the server speaks HTTP/1.0 and HTTP/1.1"};
  return HttpProblem{400, "the request line does not end with HTTP/1.1"};
}

std::optional<HttpProblem> field_problem(std::string_view line) {
  if (line.starts_with(' ') || line.starts_with('\t'))
    return HttpProblem{400, "the head has a folded line"};
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
    return HttpProblem{400, "a line of the head is not: Name: value"};
  return std::nullopt;
}

HttpProblem too_long(bool request_line, const HeadLimits& limits) {
  if (request_line) return {414, join("the request line has more than ", limits.line, " bytes")};
  return {431, join("a line of the head has more than ", limits.line, " bytes")};
}

}  // namespace

std::size_t head_size(std::string_view text) {
  const std::size_t at = text.find("\r\n\r\n");
  return at == std::string_view::npos ? at : at + 4;
}

std::optional<HttpProblem> head_problem(std::string_view head, const HeadLimits& limits) {
  if (auto problem = byte_problem(head)) return problem;
  std::size_t lines = 0;
  for (std::size_t begin = 0; begin < head.size(); ++lines) {
    const std::size_t end = head.find("\r\n", begin);
    const std::string_view line = head.substr(begin, end - begin);
    if (line.size() > limits.line) return too_long(lines == 0, limits);
    if (end == std::string_view::npos) break;  // the rest has not come
    if (line.empty() && lines > 0) break;
    if (auto problem = lines == 0 ? request_line_problem(line) : field_problem(line))
      return problem;
    if (lines > limits.fields)
      return HttpProblem{431, join("the head has more than ", limits.fields, " fields")};
    begin = end + 2;
  }
  if (head.size() > limits.bytes)
    return HttpProblem{431, join("the head has more than ", limits.bytes, " bytes")};
  return std::nullopt;
}

std::optional<HttpProblem> fields_problem(const HttpRequest& request, bool version_1_0) {
  const auto count = [&](std::string_view name) {
    return std::count_if(request.fields.begin(), request.fields.end(),
                         [&](const auto& field) { return field.first == name; });
  };
  const auto hosts = count("host"), lengths = count("content-length"),
             codings = count("transfer-encoding");
  if (hosts > 1 || (hosts == 0 && !version_1_0))
    return HttpProblem{400, join("one Host is expected, here are ", hosts)};
  if (lengths > 1) return HttpProblem{400, "Content-Length is given twice"};
  if (lengths + codings > 1)
    return HttpProblem{400, "Content-Length and Transfer-Encoding exclude each other"};
  const std::string_view length = request.field("content-length");
  if (lengths == 1 && (length.empty() || length.size() > 18 ||
                       length.find_first_not_of("0123456789") != std::string_view::npos))
    return HttpProblem{400, "Content-Length is no number of bytes"};
  if (codings == 1 && (version_1_0 || request.field("transfer-encoding") != "chunked"))
    return HttpProblem{400, "of Transfer-Encoding, only \"chunked\" is understood, in HTTP/1.1"};
  const std::string_view packed = request.field("content-encoding");
  if (!packed.empty() && packed != "identity")
    return HttpProblem{415, "a body must not be compressed"};
  const std::string_view expected = request.field("expect");
  if (!expected.empty() && expected != "100-continue")
    return HttpProblem{417, "of Expect, only 100-continue is understood"};
  return std::nullopt;
}

}  // namespace trireme
