// Pitfalls by their rows in the list (docs/serving_tests.md has the others), and bombs (R27).
#include <fstream>

#include "tests/recipes/api/api_fixture.h"

namespace trireme::test {
namespace {

const Json& choice(const Json& answer) { return answer.at("choices", "").array("choices").at(0); }

std::string ids_of(const Json& answer) { return to_text(answer.at("tokens", "")); }

// Row 3: the model's start token stands before a text once, and before a conversation as often as
// the template writes it.
TEST_F(ApiTest, TheStartTokenStandsOnce) {
  start();
  served_->start = 1;
  load();
  const auto tokens = [&](const std::string& body) {
    return ids_of(json(ask(port_, post("/tokenize", body))));
  };
  EXPECT_EQ(tokens(R"({"prompt": "hi"})"), "[1, 104, 105]");
  EXPECT_EQ(tokens(R"({"prompt": "hi", "add_special_tokens": false})"), "[104, 105]");
  EXPECT_TRUE(tokens(R"({"messages": [{"role": "user", "content": "a"}]})").starts_with("[60, "));
  const Json asked = json(complete(R"({"prompt": "hi>", "temperature": 0})"));
  EXPECT_EQ(asked.at("usage", "").at("prompt_tokens", "").integer(""), 4);
}

// Row 26: what a template raises, Gemma's rule among it, is the client's mistake.
TEST_F(ApiTest, ATemplateThatRaisesIsABadRequest) {
  tokenizer_.converse(
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}"
      "{% endif %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<model>");
  start();
  load();
  const std::string one = R"({"role": "user", "content": "a"})";
  const Answer twice = chat("{\"messages\": [" + one + ", " + one + "]}");
  EXPECT_EQ(twice.status, 400);
  EXPECT_EQ(json(twice).at("error", "").at("param", "").text(""), "messages");
  EXPECT_NE(twice.body.find("Conversation roles must alternate user/assistant/user/assistant/..."),
            std::string::npos)
      << twice.body;
  EXPECT_EQ(chat("{\"max_tokens\": 1, \"messages\": [" + one + "]}").status, 200);
  const Answer empty = chat(R"({"messages": []})");
  EXPECT_EQ(empty.status, 400);
}

// Row 27: the logarithms of what was masked are numbers.
TEST_F(ApiTest, LogprobsOfWhatIsMaskedAreNumbers) {
  start();
  load();
  for (const char* mask :
       {R"("top_k": 1)", R"("top_p": 1e-9)", R"("logit_bias": {"101": -100, "102": 100})"}) {
    const Answer answer =
        complete(R"({"prompt": "a>", "temperature": 1, "max_tokens": 3, "logprobs": 20, )" +
                 std::string(mask) + "}");
    ASSERT_EQ(answer.status, 200) << answer.body;
    for (const char* word : {"nan", "inf", "NaN", "Infinity"})
      EXPECT_EQ(answer.body.find(word), std::string::npos) << answer.body;
    const Json whole = json(answer);
    const Json& logprobs = choice(whole).at("logprobs", "");
    for (const Json& value : logprobs.at("token_logprobs", "").array(""))
      EXPECT_GE(value.number(""), -9999);
    const Answer talk = chat(R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 2, )"
                             R"("logprobs": true, "top_logprobs": 20, )" +
                             std::string(mask) + "}");
    const Json said = json(talk);
    for (const Json& token : choice(said).at("logprobs", "").at("content", "").array("")) {
      ASSERT_EQ(token.at("top_logprobs", "").array("").size(), 20u);
      for (const Json& top : token.at("top_logprobs", "").array(""))
        EXPECT_GE(top.at("logprob", "").number(""), -9999);
    }
  }
}

// Row 32: a client's own id is no key of anything.
TEST_F(ApiTest, TheSameRequestIdTwiceHarmsNobody) {
  start();
  load();
  close_gate();
  Client first(port_), second(port_);
  const std::string id = "X-Request-Id: same\r\n";
  first.send(post("/v1/completions", R"({"prompt": "a>", "temperature": 0, "max_tokens": 3})", id));
  second.send(post("/v1/completions", R"({"prompt": "b>he", "temperature": 0})", id));
  eventually([&] { return metric("trireme:answers_submitted_total{model_name=\"stub\"}") == 2; },
             "both are there");
  open_gate();
  EXPECT_EQ(choice(json(first.answer().value_or(Answer{}))).at("text", "").text(""), "hel");
  EXPECT_EQ(choice(json(second.answer().value_or(Answer{}))).at("text", "").text(""), "llo");
}

// A prompt that takes long to be made tokens of stalls neither others' answers nor small requests
// of the loop; what waits behind it comes in order, and who leaves meanwhile is not answered.
TEST_F(ApiTest, ALongPromptIsReadBesideTheLoop) {
  start({.pages = 80'000, .context = 1'200'000});
  load();
  Client streams(port_);
  streams.send(post("/v1/completions",
                    R"({"prompt": "Lxy", "stream": true, "max_tokens": 600, "temperature": 0})"));
  ASSERT_TRUE(streams.until("data: "));
  Client heavy(port_), leaves(port_), behind(port_);
  heavy.send(post("/tokenize", "{\"prompt\": \"" + std::string(3'000'000, 'x') + "\"}"));
  leaves.send(post("/v1/completions", R"({"prompt": "a>", "max_tokens": 1})"));
  leaves.close();
  behind.send(post("/v1/completions", R"({"prompt": "a>", "temperature": 0})"));
  EXPECT_EQ(ask(port_, get("/health")).status, 200);
  const Answer tokens = heavy.answer().value_or(Answer{});
  EXPECT_EQ(tokens.status, 200);
  EXPECT_TRUE(tokens.body.starts_with(R"({"count": 3000000,)")) << tokens.body.substr(0, 100);
  EXPECT_EQ(choice(json(behind.answer().value_or(Answer{}))).at("text", "").text(""), "hello");
  EXPECT_TRUE(streams.until("[DONE]"));
}

TEST_F(ApiTest, RequestsThatWaitToBeReadHaveALimit) {
  start({.api = {.reading = 2}});
  load();
  const std::string big =
      post("/tokenize", "{\"prompt\": \"" + std::string(2'000'000, 'x') + "\"}");
  std::vector<std::unique_ptr<Client>> all;
  for (int i = 0; i < 12; ++i) {
    all.push_back(std::make_unique<Client>(port_));
    all.back()->send(big);
  }
  int read = 0, refused = 0;
  for (const auto& client : all) {
    const Answer answer = client->answer().value_or(Answer{});
    ASSERT_TRUE(answer.status == 200 || answer.status == 429) << answer.status;
    ++(answer.status == 200 ? read : refused);
    if (answer.status == 429) {
      EXPECT_NE(answer.head.find("Retry-After: "), std::string::npos);
    }
  }
  EXPECT_GE(read, 2);
  EXPECT_EQ(read + refused, 12);
  EXPECT_EQ(complete(R"({"prompt": "a>"})").status, 200);
}

std::string listed(const std::string& text, int times) {
  std::string all;
  all.reserve((text.size() + 1) * static_cast<std::size_t>(times));
  for (int i = 0; i < times; ++i) all += (i > 0 ? "," : "") + text;
  return all;
}

std::int64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::atoll(line.c_str() + 8) << 10;
  return 0;
}

// R27: each is refused, by its name where JSON has one, and the next request is answered. Twice, so
// that what the first round leaves behind in the allocator is not counted as a leak.
TEST_F(ApiTest, BombsAreRefusedByNameWithoutMemory) {
  start();
  load();
  const std::string deep(100'000, '['), prompt = R"({"prompt": "a>", )";
  std::string biases;
  for (int i = 0; i < 100'000; ++i) biases += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
  const std::string message = R"({"role":"user","content":"a"})";
  const std::string part = R"({"type":"text","text":"a"})";
  const std::vector<std::pair<std::string, std::string>> completions = {
      {"n", prompt + R"("n": 1000000})"},
      {"best_of", prompt + R"("best_of": 1000000})"},
      {"logprobs", prompt + R"("echo": true, "logprobs": 21})"},
      {"max_tokens", prompt + R"("max_tokens": 9223372036854775808})"},
      {"stop", prompt + "\"stop\": [" + listed("\"s\"", 100'000) + "]}"},
      {"stop", prompt + "\"stop\": \"" + std::string(1'000'000, 's') + "\"}"},
      {"stop", prompt + R"("stop": ""})"},
      {"logit_bias", prompt + "\"logit_bias\": {" + biases + "}}"},
      {"", prompt + "\"stop\": " + deep + "}"},
      {"", prompt + "\"seed\": " + std::string(1'000'000, '7') + "}"},
      {"", prompt + R"("temperature": 1e999})"},
      {"", prompt + R"("temperature": NaN})"},
      {"", R"({"prompt": "\ud800"})"},
      {"", std::string("{\"prompt\": \"a\0b\"}", 17)},
      {"", R"({"prompt": "a", "prompt": "b"})"}};
  const std::vector<std::pair<std::string, std::string>> chats = {
      {"top_logprobs",
       "{\"messages\": [" + message + R"(], "logprobs": true, "top_logprobs": 21})"},
      {"messages", "{\"messages\": [" + listed(message, 30'000) + "]}"},
      {"messages[0].content",
       R"({"messages": [{"role": "user", "content": [)" + listed(part, 30'000) + "]}]}"},
      {"chat_template_kwargs",
       "{\"messages\": [" + message +
           R"(], "chat_template_kwargs": {"messages": [], "add_generation_prompt": false}})"},
      {"messages[0].content",
       R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/"}}]}]})"}};
  std::int64_t before = 0;
  for (int round = 0; round < 2; ++round) {
    const auto expect_refused = [&](const char* path, const auto& bombs) {
      for (const auto& [field, body] : bombs) {
        const Answer answer = ask(port_, post(path, body));
        ASSERT_EQ(answer.status, 400) << body.substr(0, 80) << answer.body.substr(0, 200);
        const Json param = json(answer).at("error", "").at("param", "");
        if (!field.empty()) {
          EXPECT_EQ(param.text("param"), field) << answer.body;
        }
        EXPECT_LT(answer.body.size(), 1000u);
        EXPECT_EQ(complete(R"({"prompt": "a>", "max_tokens": 1})").status, 200);
      }
    };
    expect_refused("/v1/completions", completions);
    expect_refused("/v1/chat/completions", chats);
    if (round == 0) before = anonymous_bytes();
  }
  EXPECT_LT(anonymous_bytes() - before, 8 << 20);
}

}  // namespace
}  // namespace trireme::test
