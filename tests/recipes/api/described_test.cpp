// What the server answers is what /openapi.json says that it answers: each route's media type, and
// every member of every kind of answer.
#include "tests/recipes/api/api_fixture.h"
#include "tests/recipes/api/schema_check.h"

namespace trireme::test {
namespace {

class DescribedTest : public ApiTest {
 protected:
  void load_described() {
    load();
    described_ = json(ask(port_, get("/openapi.json", key_field_)));
  }
  const Json& content(const char* method, const std::string& path, const char* status) {
    return described_.at("paths", "")
        .at(path, "paths")
        .at(method, "")
        .at("responses", "")
        .at(status, "")
        .at("content", "");
  }
  // Status, media type and value; returns the answer.
  Answer fits(const char* method, const std::string& path, const Answer& answer, int status = 200) {
    EXPECT_EQ(answer.status, status) << path << answer.body.substr(0, 200);
    const Json& all = content(method, path, status == 200 ? "200" : "default");
    const std::size_t at = answer.head.find("Content-Type: ") + 14;
    const std::string type = answer.head.substr(at, answer.head.find_first_of(";\r", at) - at);
    const Json* of_type = all.find(type);
    EXPECT_TRUE(of_type) << path << " is answered as " << type;
    if (!of_type || type != "application/json") return answer;
    EXPECT_EQ(misfit(described_, of_type->at("schema", ""), json(answer)), "") << answer.body;
    return answer;
  }
  Answer posted(const std::string& path, const std::string& body, int status = 200) {
    return fits("post", path, ask(port_, post(path, body, key_field_)), status);
  }
  // Each chunk of a stream; returns how many there are.
  int chunks(const std::string& path, const std::string& body, const char* schema) {
    int count = 0;
    for (const std::string& data : events(posted(path, body).body)) {
      if (data == "[DONE]") continue;
      const Json chunk = parse_json(data, "chunk");
      EXPECT_EQ(misfit(described_, described_.at("components", "").at("schemas", "").at(schema, ""),
                       chunk),
                "")
          << data;
      ++count;
    }
    return count;
  }
  Json described_;
};

TEST_F(DescribedTest, AllThatIsRead) {
  start();
  load_described();
  int routes = 0;
  for (const auto& [path, methods] : described_.at("paths", "").object("")) {
    if (!methods.find("get")) continue;
    const bool one = path.find('{') != std::string::npos;
    fits("get", path, ask(port_, get(one ? "/v1/models/stub" : path)));
    ++routes;
  }
  EXPECT_EQ(routes, 9);
  fits("get", "/v1/models/{model}", ask(port_, get("/v1/models/other")), 404);
}

TEST_F(DescribedTest, Generated) {
  start();
  load_described();
  const std::string text = "/v1/completions", chat = "/v1/chat/completions";
  const std::string asks = R"("messages": [{"role": "user", "content": "a>"}])";
  posted(text, R"({"prompt": "a>"})");
  posted(text, R"({"prompt": ["a>", "b"], "n": 2, "echo": true, "logprobs": 3, "max_tokens": 2})");
  posted(text, R"({"prompt": "a>", "stop": "l", "logprobs": 0})");
  posted(text, R"({"prompt": "a>", "temperature": 3})", 400);
  posted(text, "{", 400);
  posted(chat, "{" + asks + "}");
  posted(chat, "{" + asks + R"(, "logprobs": true, "top_logprobs": 2, "n": 2, "stop": ["o"]})");
  posted(chat, R"({"messages": []})", 400);
  posted(chat, "{" + asks + R"(, "model": "other"})", 404);
  EXPECT_GT(chunks(text, R"({"prompt": "a>", "stream": true})", "CompletionChunk"), 2);
  EXPECT_GT(chunks(text,
                   R"({"prompt": "a>", "stream": true, "echo": true, "logprobs": 2,
                       "stream_options": {"include_usage": true}})",
                   "CompletionChunk"),
            2);
  EXPECT_GT(chunks(chat, "{" + asks + R"(, "stream": true})", "ChatCompletionChunk"), 2);
  EXPECT_GT(chunks(chat, "{" + asks + R"(, "stream": true, "logprobs": true, "n": 2, "stop": "lo",
                       "stream_options": {"include_usage": true}})",
                   "ChatCompletionChunk"),
            2);
  posted("/tokenize", R"({"prompt": "a"})");
  posted("/tokenize", R"({"prompt": "a", "return_token_strs": true})");
  posted("/tokenize", "{" + asks + "}");
  posted("/tokenize", "{}", 400);
  posted("/detokenize", R"({"tokens": [97]})");
}

TEST_F(DescribedTest, BeforeTheModelIsThereAndWithoutAKey) {
  key_field_ = "Authorization: Bearer 0123456789abcdef\r\n";
  start({.api = {.keys = {"0123456789abcdef"}}});
  const Answer loading = ask(port_, get("/health"));
  load_described();
  fits("get", "/health", loading, 503);
  fits("get", "/v1/models", ask(port_, get("/v1/models")), 401);
  fits("get", "/v1/models", ask(port_, get("/v1/models", key_field_)));
  posted("/v1/completions", R"({"prompt": "a>"})");
}

// Who reads a check that never fails?
TEST_F(DescribedTest, WhatDoesNotFitIsFound) {
  start();
  load_described();
  const Json answer = json(complete(R"({"prompt": "a>"})"));
  const Json schema = described_.at("components", "").at("schemas", "").at("Completion", "");
  for (std::size_t i = 0; i < answer.object("").size(); ++i) {
    Json::Object less = answer.object(""), other = less;
    less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
    other[i].second = Json::Object{{"stranger", 1}};
    EXPECT_NE(misfit(described_, schema, Json(less)), "") << other[i].first;
    EXPECT_NE(misfit(described_, schema, Json(other)), "") << other[i].first;
  }
  Json::Object more = answer.object("");
  more.emplace_back("stranger", 1);
  EXPECT_NE(misfit(described_, schema, Json(more)), "");
}

}  // namespace
}  // namespace trireme::test
