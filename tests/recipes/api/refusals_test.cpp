// What is refused, with which field's name; who may ask.
#include "framework/data/tokenizers/utf8.h"
#include "tests/recipes/api/api_fixture.h"

namespace trireme::test {
namespace {

struct Case {
  std::string field;  // named by the refusal
  std::string good, bad;
};

std::string repeated(const std::string& text, int times, const std::string& between = ",") {
  std::string all;
  for (int i = 0; i < times; ++i) all += (i > 0 ? between : "") + text;
  return all;
}

std::string bias_of(int count) {
  std::string all;
  for (int i = 0; i < count; ++i)
    all += (i > 0 ? ", \"" : "\"") + std::to_string(i % 256) + "\": 1";
  return "{" + all + "}";
}

// Row 19 and the limits: at their value, and just above.
std::vector<Case> cases() {
  const std::string long_stop(256, 's');
  return {
      {"temperature", "2", "2.01"},
      {"temperature", "0", "-1"},
      {"temperature", "1e-9", "\"1\""},
      {"temperature", "null", "true"},
      {"top_p", "1", "1.1"},
      {"top_p", "1e-9", "0"},
      {"top_k", "-1", "-2"},
      {"top_k", "1000000000", "1.5"},
      {"min_p", "1", "1.01"},
      {"repetition_penalty", "1", "0"},
      {"presence_penalty", "2", "2.1"},
      {"presence_penalty", "-2", "-2.1"},
      {"frequency_penalty", "2", "2.1"},
      {"frequency_penalty", "-2", "-2.1"},
      {"n", "16", "17"},
      {"n", "1", "0"},
      {"n", "2", "1000000"},
      {"seed", "-9223372036854775808", "9223372036854775808"},
      {"max_tokens", "0", "-1"},
      {"max_tokens", "1020", "1021"},
      {"max_tokens", "1", "1.5"},
      {"max_tokens", "2", "\"x\""},
      {"max_tokens", "3", "9223372036854775807"},
      {"min_tokens", "2", "3"},
      {"logprobs", "20", "21"},
      {"stop", "[\"a\",\"b\",\"c\",\"d\"]", "[\"a\",\"b\",\"c\",\"d\",\"e\"]"},
      {"stop", "\"" + long_stop + "\"", "\"" + long_stop + "s\""},
      {"stop", "[]", "\"\""},
      {"stop", "null", "[" + repeated("\"a\"", 100'000) + "]"},
      {"stop_token_ids", "[255]", "[256]"},
      {"stop_token_ids", "[" + repeated("1", 128) + "]", "[" + repeated("1", 129) + "]"},
      {"logit_bias", "{\"255\": 100}", "{\"256\": 1}"},
      {"logit_bias", "{\"0\": -100}", "{\"0\": -101}"},
      {"logit_bias", bias_of(256), "{\"-1\": 1}"},
      {"logit_bias", "{}", "{\"1x\": 1}"},
      {"stream", "false", "1"},
      {"echo", "true", "\"yes\""},
      {"user", "\"me\"", "7"},
      {"best_of", "1", "2"},
      {"suffix", "\"\"", "\"x\""},
      {"ignore_eos", "true", "0"},
      {"add_special_tokens", "false", "[]"},
      {"model", "\"stub\"", "7"},
      {"stream_options", "null", "{}"},
      {"unheard_of", "null", "1"},
  };
}

TEST_F(ApiTest, FieldsHaveTheirLimits) {
  start();
  load();
  for (const Case& one : cases()) {
    const auto with = [&](const std::string& value) {
      std::string rest = one.field == "max_tokens" ? "" : ", \"max_tokens\": 2";
      return complete("{\"prompt\": \"abc>\", \"" + one.field + "\": " + value + rest + "}");
    };
    EXPECT_EQ(with(one.good).status, 200) << one.field << " " << one.good.substr(0, 80);
    const Answer refused = with(one.bad);
    ASSERT_EQ(refused.status, 400) << one.field << " " << one.bad.substr(0, 80) << refused.body;
    const Json error = json(refused).at("error", "").at("param", "");
    EXPECT_EQ(error.text("param"), one.field) << refused.body;
    EXPECT_EQ(json(refused).at("error", "").at("type", "").text(""), "invalid_request_error");
    EXPECT_LT(refused.body.size(), 1000u);
  }
}

TEST_F(ApiTest, PromptsAndMessagesAreChecked) {
  start();
  load();
  for (const char* prompt : {"null", "\"\"", "[]", "7", "{}", "[\"a\", 7]", "[[]]", "[-1]", "[256]",
                             "[1.5]", "[[1], \"a\"]", "[[256]]", "[null]"})
    EXPECT_EQ(complete("{\"prompt\": " + std::string(prompt) + "}").status, 400) << prompt;
  for (const std::string messages :
       {"null", "[]", "7", "[7]", "[{}]", "[{\"role\": \"user\"}]",
        "[{\"role\": \"king\", \"content\": \"a\"}]", "[{\"role\": \"user\", \"content\": 7}]",
        "[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": "
        "{\"url\": \"http://127.0.0.1:1/x\"}}]}]",
        "[{\"role\": \"user\", \"content\": \"a\", \"tool_calls\": [1]}]"})
    EXPECT_EQ(chat("{\"messages\": " + messages + "}").status, 400) << messages;
  const std::string one = R"({"role": "user", "content": "a"})";
  EXPECT_EQ(chat("{\"messages\": [" + repeated(one, 1025) + "]}").status, 400);
  // Row 26: the template's own words.
  const Answer raised =
      chat("{\"messages\": [" + one + R"(, {"role": "system", "content": "b"}], "max_tokens": 1})");
  EXPECT_EQ(raised.status, 400);
  EXPECT_NE(raised.body.find("the system speaks first"), std::string::npos) << raised.body;
  for (const std::string field :
       {R"("top_logprobs": 2)", R"("tools": [{}])", R"("response_format": {"type": "json_object"})",
        R"("top_logprobs": 21, "logprobs": true)", R"("echo": true)", R"("max_tokens": 0)",
        R"("chat_template_kwargs": {"messages": []})"})
    EXPECT_EQ(chat("{\"messages\": [" + one + "], " + field + "}").status, 400) << field;
  EXPECT_EQ(
      chat(join("{\"messages\": [", one, "], \"max_tokens\": 1, \"top_logprobs\": 0}")).status,
      200);
  EXPECT_EQ(chat("{\"model\": \"other\", \"messages\": [" + one + "]}").status, 404);
}

// What a request spells wrongly is quoted, and the answer is JSON all the same.
TEST_F(ApiTest, ErrorsAreUtf8WhateverTheyQuote) {
  start();
  load();
  const std::string long_name(63, 'x');
  for (const std::string& body :
       {std::string("\xa5"), std::string("{\"prompt\": \"\xfd\"}"), std::string("{\"\xc3"),
        "{\"prompt\": \"a\", \"" + long_name + "\xc3\xa9\": 1}",
        "{\"prompt\": \"a\", \"stop\": {\"" + long_name + "\xc3\xa9\": 1}}"}) {
    const Answer refused = complete(body);
    EXPECT_EQ(refused.status, 400) << body;
    EXPECT_TRUE(is_utf8(refused.body)) << refused.body;
    EXPECT_NO_THROW(json(refused).at("error", "")) << refused.body;
  }
  const Answer unknown = ask(port_, get("/v1/models/%ff"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_TRUE(is_utf8(unknown.body)) << unknown.body;
}

// JSON has one kind of numbers: 2.0 is whole.
TEST_F(ApiTest, WholeNumbersMayHaveAPoint) {
  start();
  load();
  const auto choices = [&](const std::string& rest) {
    return json(complete(R"({"temperature": 0, )" + rest)).at("choices", "");
  };
  EXPECT_EQ(choices(R"("prompt": [97.0, 98, 62.0], "max_tokens": 2.0, "top_k": 1e1})"),
            choices(R"("prompt": [97, 98, 62], "max_tokens": 2, "top_k": 10})"));
  for (const char* count : {"2.5", "1e300", "-1e300", "9007199254740994.0"})
    EXPECT_EQ(complete(join(R"({"prompt": "a", "max_tokens": )", count, "}")).status, 400) << count;
}

// Rows 15 and 16: both numbers, and the next one is answered.
TEST_F(ApiTest, TooLongIsSaid) {
  start({.context = 64});
  load();
  const std::string full(64, 'a');
  const std::pair<std::string, std::string> cases[] = {
      {"{\"prompt\": \"" + full + "a\", \"max_tokens\": 0}", "you requested 65 tokens"},
      {"{\"prompt\": \"" + full + "\", \"max_tokens\": 1}", "you requested 65 tokens"},
      {R"({"prompt": "a", "max_tokens": 2147483647})", "you requested 2147483648 tokens"}};
  for (const auto& [body, wanted] : cases) {
    const Answer answer = complete(body);
    EXPECT_EQ(answer.status, 400);
    const Json error = json(answer).at("error", "");
    EXPECT_EQ(error.at("code", "").text(""), "context_length_exceeded");
    EXPECT_NE(answer.body.find("maximum context length is 64 tokens"), std::string::npos);
    EXPECT_NE(answer.body.find(wanted), std::string::npos) << answer.body;
  }
  const Answer talk = chat("{\"messages\": [{\"role\": \"user\", \"content\": \"" + full + "\"}]}");
  EXPECT_EQ(json(talk).at("error", "").at("code", "").text(""), "context_length_exceeded");
  EXPECT_EQ(complete(R"({"prompt": "a>", "max_tokens": 62})").status, 200);
  const Answer none = complete("{\"prompt\": \"" + full + "\", \"max_tokens\": 0}");
  EXPECT_EQ(none.status, 200);
  EXPECT_NE(none.body.find("\"text\": \"\""), std::string::npos) << none.body;
}

// Row R27.
TEST_F(ApiTest, BombsAreRefused) {
  start();
  load();
  const std::string deep(100'000, '[');
  for (const std::string& body : std::vector<std::string>{
           std::string(), std::string("{"), "{\"prompt\": " + deep,
           "{\"prompt\": " + std::string(1'000'000, '1') + "}",
           std::string(R"({"prompt": "a>", "temperature": 1e999})"),
           std::string(R"({"prompt": "a>", "temperature": NaN})"),
           std::string(R"({"prompt": "\ud800"})"), std::string("{\"prompt\": \"\xff\"}"),
           std::string(R"({"prompt": "a>", "prompt": "b>"})"),
           "{\"prompt\": [" + repeated("1", 300'000) + "]}",
           "{\"logit_bias\": " + bias_of(250).substr(0, 200) + "}", std::string("[]"),
           std::string("{\"prompt\": \"a\"} {}")})
    EXPECT_EQ(complete(body).status, 400) << body.substr(0, 60);
  EXPECT_EQ(complete(R"({"prompt": "a\u0000b>", "max_tokens": 2})").status, 200);
}

TEST_F(ApiTest, WithoutAKeyNothingIsSaid) {
  start({.api = {.keys = {"first-key-0123456789", "other-key-0123456789"}}});
  load();
  EXPECT_EQ(ask(port_, get("/health")).status, 200);
  for (const char* path : {"/ready", "/metrics", "/v1/models", "/version", "/nowhere"}) {
    EXPECT_EQ(ask(port_, get(path)).status, 401) << path;
    EXPECT_EQ(ask(port_, get(path, "Authorization: Bearer wrong\r\n")).status, 401) << path;
  }
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"})
    EXPECT_EQ(ask(port_, post(path, "{}")).status, 401) << path;
  for (const char* field :
       {"Bearer ", "Bearer first-key-012345678", "Bearer first-key-01234567890",
        "Bearer  first-key-0123456789", "first-key-0123456789", "Basic first-key-0123456789"})
    EXPECT_EQ(ask(port_, get("/v1/models", "Authorization: " + std::string(field) + "\r\n")).status,
              401)
        << field;
  const Answer refused = ask(port_, get("/v1/models", "Authorization: Bearer secret-guess\r\n"));
  EXPECT_EQ(refused.body.find("secret-guess"), std::string::npos);
  EXPECT_EQ(json(refused).at("error", "").at("code", "").text(""), "invalid_api_key");
  for (const char* key : {"first-key-0123456789", "other-key-0123456789"})
    EXPECT_EQ(
        ask(port_, get("/v1/models", "Authorization: Bearer " + std::string(key) + "\r\n")).status,
        200);
  EXPECT_EQ(ask(port_, get("/v1/models", "Authorization: bEARER first-key-0123456789\r\n")).status,
            200);
}

// Row R30: neither another page, nor a name that was made to point here.
TEST_F(ApiTest, PagesOfOthersMayNotAsk) {
  start({.api = {.hosts = {"localhost", "127.0.0.1", "[::1]"}}});
  load();
  const auto status = [&](const std::string& host, const std::string& origin) {
    return ask(port_, "GET /v1/models HTTP/1.1\r\nHost: " + host + "\r\n" +
                          (origin.empty() ? "" : "Origin: " + origin + "\r\n") + "\r\n")
        .status;
  };
  for (const char* host : {"localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000"}) {
    EXPECT_EQ(status(host, ""), 200) << host;
    EXPECT_EQ(status(host, "http://" + std::string(host)), 200) << host;
    for (const char* origin : {"http://evil.example", "null", "http://localhost:1", "https://x",
                               "file://", "http://localhost.evil.example"})
      EXPECT_EQ(status(host, origin), 403) << host << " " << origin;
  }
  for (const char* host : {"evil.example", "evil.example:8000", "localhost.evil.example",
                           "127.0.0.1.evil.example", "[::2]", "0.0.0.0"})
    EXPECT_EQ(status(host, ""), 403) << host;
}

}  // namespace
}  // namespace trireme::test
