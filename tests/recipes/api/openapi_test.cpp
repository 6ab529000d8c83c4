// What /openapi.json says is what the server does: every field of it is taken, at its limits, and
// not above them; what it does not name is refused.
#include "tests/recipes/api/api_fixture.h"

namespace trireme::test {
namespace {

// "name": value as a body with what else is needed.
std::string body_with(const std::string& required, const std::string& name, const Json& value) {
  std::string body = required + ", \"" + name + "\": " + to_text(value);
  if (name == "stream_options") body += ", \"stream\": true";
  if (name == "top_logprobs") body += ", \"logprobs\": true";
  return body + "}";
}

Json sample(const Json& field) {
  const std::string type = field.at("type", "").text("");
  if (type == "string") return "stub";
  if (type == "boolean") return true;
  if (type == "array") return Json::Array{};
  if (type == "object") return Json::Object{};
  return 1;
}

Json beside(const Json& limit, int by) {
  if (limit.is(Json::Kind::kInteger)) return limit.integer("") + by;
  return limit.number("") + by;
}

TEST_F(ApiTest, TheDescriptionIsTrue) {
  start();
  load();
  const Json described = json(ask(port_, get("/openapi.json")));
  EXPECT_EQ(described.at("openapi", "").text(""), "3.1.0");
  const std::pair<std::string, std::string> routes[] = {
      {"/v1/completions", R"({"prompt": "a>")"},
      {"/v1/chat/completions",
       R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])"},
      {"/tokenize", "{"},
      {"/detokenize", R"({"tokens": [1])"}};
  int tried = 0;
  for (const auto& [path, required] : routes) {
    if (path == "/tokenize") continue;  // needs one of two: TokensAndBack
    const Json& schema = described.at("paths", "")
                             .at(path, "")
                             .at("post", "")
                             .at("requestBody", "")
                             .at("content", "")
                             .at("application/json", "")
                             .at("schema", "");
    for (const auto& [name, field] : schema.at("properties", "").object("")) {
      if (required.find("\"" + name + "\"") != std::string::npos) continue;
      const auto status = [&](const Json& value) {
        return ask(port_, post(path, body_with(required, name, value))).status;
      };
      EXPECT_EQ(status(sample(field)), 200) << path << " " << name;
      const bool bounded_elsewhere =  // by the answer's length or the context
          name.starts_with("max_") || name.starts_with("min_tokens");
      const Json* least = field.find("minimum");
      const Json* most = field.find("maximum");
      if (least) {
        EXPECT_EQ(status(*least), 200) << path << " " << name;
        EXPECT_EQ(status(beside(*least, -1)), 400) << path << " " << name;
      }
      if (most && !bounded_elsewhere) {
        EXPECT_EQ(status(*most), 200) << path << " " << name;
      }
      if (most) {
        EXPECT_EQ(status(beside(*most, 1)), 400) << path << " " << name;
      }
      ++tried;
    }
  }
  EXPECT_GT(tried, 40);
  for (const auto& [path, methods] : described.at("paths", "").object(""))
    if (methods.find("get")) {
      EXPECT_EQ(ask(port_, get(path)).status, 200) << path;
    }
}

TEST_F(ApiTest, ThePageNeedsNothingFromElsewhere) {
  start();
  load();
  const Answer page = ask(port_, get("/docs"));
  EXPECT_EQ(page.status, 200);
  EXPECT_NE(page.head.find("Content-Type: text/html"), std::string::npos);
  EXPECT_NE(page.body.find("<code>temperature</code>"), std::string::npos);
  EXPECT_EQ(page.body.find("http:"), std::string::npos);
  EXPECT_EQ(page.body.find("https:"), std::string::npos);
  EXPECT_EQ(page.body.find("<script"), std::string::npos);
}

}  // namespace
}  // namespace trireme::test
