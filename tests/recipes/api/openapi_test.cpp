// What /openapi.json says is what the server does: every field of it is taken, at its limits, and
// not above them; what it does not name is refused.
#include <tuple>

#include "tests/recipes/api/api_fixture.h"
#include "tests/recipes/api/schema_values.h"

namespace trireme::test {
namespace {

// "name": value as a body with what else is needed.
std::string body_with(const std::string& required, const std::string& name,
                      const std::string& value, bool is_good) {
  std::string body = required.empty() ? "{" : required + ", ";
  body += "\"" + name + "\": " + value;
  if (name == "stream_options") body += ", \"stream\": true";
  if (name == "top_logprobs") body += ", \"logprobs\": true";
  if (name == "best_of" && is_good) body += ", \"n\": " + value;
  if (name == "add_generation_prompt" && value == "false")
    body += ", \"continue_final_message\": true";
  return body + "}";
}

const Json& schema_of(const Json& described, const std::string& path) {
  return described.at("paths", "")
      .at(path, "")
      .at("post", "")
      .at("requestBody", "")
      .at("content", "")
      .at("application/json", "")
      .at("schema", "");
}

// What else a value of a field depends on, tested elsewhere: the context, the answer's length, the
// model's name, n.
bool is_bounded_elsewhere(const std::string& name, const std::string& value) {
  return (name.starts_with("max_") || name == "min_tokens") && value.size() > 4;
}

// Limit and limit + 1 of every field, whatever the document tells.
TEST_F(ApiTest, TheDescriptionIsTrue) {
  start({.api = {.limits = {.bias = 200}}});
  load();
  const Json described = json(ask(port_, get("/openapi.json")));
  EXPECT_EQ(described.at("openapi", "").text(""), "3.1.0");
  const std::pair<std::string, std::string> routes[] = {
      {"/v1/completions", R"({"prompt": "a>")"},
      {"/v1/chat/completions",
       R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])"},
      {"/detokenize", R"({"tokens": [1])"}};
  int good = 0, bad = 0;
  for (const auto& [path, required] : routes)
    for (const auto& [name, field] : schema_of(described, path).at("properties", "").object("")) {
      if (name == "messages" || name == "model") continue;  // PromptsAndMessagesAreChecked
      const bool needed = required.find("\"" + name + "\":") != std::string::npos;
      const SchemaValues values = values_of(field);
      const std::string rest = needed ? "" : required;
      for (const bool is_good : {true, false})
        for (const std::string& value : is_good ? values.good : values.bad) {
          if (is_good && is_bounded_elsewhere(name, value)) continue;
          const Answer answer = ask(port_, post(path, body_with(rest, name, value, is_good)));
          EXPECT_EQ(answer.status, is_good ? 200 : 400)
              << path << " " << name << " " << value.substr(0, 80) << answer.body.substr(0, 200);
          ++(is_good ? good : bad);
          // Numbers that are none are refused as they are read.
          if (is_good || answer.status != 400 || value.find("1e999") != std::string::npos ||
              value.find("92233720368547758") != std::string::npos)
            continue;
          const Json error = json(answer).at("error", "");
          const std::string param =
              error.at("param", "").is_null() ? "" : error.at("param", "").text("");
          EXPECT_EQ(param.substr(0, name.size()), name) << answer.body.substr(0, 200);
        }
    }
  EXPECT_GT(good, 120);
  EXPECT_GT(bad, 300);
  for (const auto& [path, methods] : described.at("paths", "").object(""))
    if (methods.find("get")) {
      const std::string named =
          path.substr(0, path.find('{')) + (path.find('{') == std::string::npos ? "" : "stub");
      EXPECT_EQ(ask(port_, get(named)).status, 200) << path;
    }
}

// A message's fields beside role and content, as clients send an answer back: all legal values of
// all of them are taken.
TEST_F(ApiTest, MessagesAreAsDescribed) {
  start();
  load();
  const Json described = json(ask(port_, get("/openapi.json")));
  const Json& item = schema_of(described, "/v1/chat/completions")
                         .at("properties", "")
                         .at("messages", "")
                         .at("items", "");
  const auto status = [&](const std::string& role, const std::string& more) {
    return chat(R"({"max_tokens": 1, "messages": [{"role": ")" + role + "\"" + more + "}]}").status;
  };
  int good = 0;
  for (const auto& [name, field] : item.at("properties", "").object("")) {
    if (name == "role" || name == "content") continue;
    const SchemaValues values = values_of(field);
    for (const bool is_good : {true, false})
      for (const std::string& value : is_good ? values.good : values.bad) {
        const std::string more = R"(, "content": "a", ")" + name + "\": " + value;
        EXPECT_EQ(status("assistant", more), is_good ? 200 : 400) << more;
        if (is_good) ++good;
      }
  }
  EXPECT_GT(good, 8);
  EXPECT_EQ(item.at("properties", "").at("role", "").at("enum", "").array("").size(), 4u);
  for (const Json& role : item.at("properties", "").at("role", "").at("enum", "").array(""))
    for (const char* content : {R"("")", R"("a")", "[]", R"([{"type": "text", "text": "a"}])"})
      EXPECT_EQ(status(role.text(""), R"(, "content": )" + std::string(content)), 200) << content;
  EXPECT_EQ(status("user", R"(, "content": "a", "weight": 1)"), 400);
}

// Lengths: with the prompt at most the context, 64.
TEST_F(ApiTest, LengthsHaveTheirLimits) {
  start({.context = 64});
  load();
  const std::string text = R"({"prompt": "abc>", )";                                // 4 tokens
  const std::string talk = R"({"messages": [{"role": "user", "content": "a"}], )";  // 19
  for (const auto& [path, required, names, most] :
       {std::tuple{"/v1/completions", text, std::vector<std::string>{"max_tokens"}, 60},
        {"/v1/chat/completions", talk, {"max_tokens", "max_completion_tokens"}, 45}})
    for (const std::string& name : names) {
      const auto status = [&, required = required, path = path](const std::string& more) {
        return ask(port_, post(path, required + "\"" + name + "\": " + more + "}")).status;
      };
      EXPECT_EQ(status(std::to_string(most)), 200) << path << name;
      EXPECT_EQ(status(std::to_string(most + 1)), 400) << path << name;
      EXPECT_EQ(status("2147483647"), 400) << path << name;
      EXPECT_EQ(status(R"(5, "min_tokens": 5)"), 200) << path << name;
      EXPECT_EQ(status(R"(5, "min_tokens": 6)"), 400) << path << name;
    }
  EXPECT_EQ(complete(R"({"prompt": ["a>", "b>"], "n": 8, "max_tokens": 1})").status, 200);
  EXPECT_EQ(complete(R"({"prompt": ["a>", "b>"], "n": 9, "max_tokens": 1})").status, 400);
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
