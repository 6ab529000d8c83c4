// Answers in the shapes that OpenAI's clients read. Numbers of rows are those of the list of
// pitfalls.
#include "framework/data/tokenizers/utf8.h"
#include "tests/recipes/api/api_fixture.h"

namespace trireme::test {
namespace {

std::string text_of(const Json& json, const char* name) { return json.at(name, "").text(name); }
const Json& choice(const Json& answer, std::size_t i = 0) {
  return answer.at("choices", "").array("choices").at(i);
}

TEST_F(ApiTest, ACompletionHasItsShape) {
  start();
  load();
  const Answer answer =
      complete(R"({"model": "stub", "prompt": "say>", "max_tokens": 9, "temperature": 0})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  const Json json = this->json(answer);
  EXPECT_TRUE(text_of(json, "id").starts_with("cmpl-"));
  EXPECT_EQ(text_of(json, "object"), "text_completion");
  EXPECT_EQ(text_of(json, "model"), "stub");
  EXPECT_EQ(json.at("created", "").integer(""), 1700000000);
  EXPECT_EQ(text_of(choice(json), "text"), "hello");
  EXPECT_EQ(text_of(choice(json), "finish_reason"), "stop");
  EXPECT_TRUE(choice(json).at("logprobs", "").is_null());
  EXPECT_EQ(to_text(json.at("usage", "")),
            R"({"prompt_tokens": 4, "completion_tokens": 5, "total_tokens": 9, )"
            R"("prompt_tokens_details": {"cached_tokens": 0}})");
  const Json cut = this->json(complete(R"({"prompt": "say>", "max_tokens": 2, "top_k": 1})"));
  EXPECT_EQ(text_of(choice(cut), "text"), "he");
  EXPECT_EQ(text_of(choice(cut), "finish_reason"), "length");
}

TEST_F(ApiTest, AChatAnswerHasItsShape) {
  start();
  load();
  const Json json = this->json(chat(
      R"({"model": "stub", "temperature": 0, "logprobs": true, "top_logprobs": 2, "messages": [)"
      R"({"role": "system", "content": "be brief"},)"
      R"({"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]}]})"));
  EXPECT_TRUE(text_of(json, "id").starts_with("chatcmpl-"));
  EXPECT_EQ(text_of(json, "object"), "chat.completion");
  EXPECT_EQ(to_text(choice(json).at("message", "")),
            R"({"role": "assistant", "content": "hello"})");
  const auto& tokens = choice(json).at("logprobs", "").at("content", "").array("");
  ASSERT_EQ(tokens.size(), 5u);
  EXPECT_EQ(text_of(tokens[1], "token"), "e");
  EXPECT_EQ(to_text(tokens[1].at("bytes", "")), "[101]");
  EXPECT_EQ(tokens[1].at("top_logprobs", "").array("").size(), 2u);
  EXPECT_LT(tokens[1].at("logprob", "").number(""), 0);
  const std::string asked = "<system>be brief\n<user>hi\n<assistant>";
  EXPECT_EQ(json.at("usage", "").at("prompt_tokens", "").integer(""), std::ssize(asked));
}

TEST_F(ApiTest, AStreamSaysTheSame) {
  start();
  load();
  const Answer answer =
      chat(R"({"stream": true, "stream_options": {"include_usage": true}, "temperature": 0,)"
           R"( "messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_NE(answer.head.find("Content-Type: text/event-stream"), std::string::npos);
  const std::vector<std::string> all = events(answer.body);
  ASSERT_GE(all.size(), 4u);
  EXPECT_EQ(all.back(), "[DONE]");
  const Json first = parse_json(all[0], "first"), usage = parse_json(all[all.size() - 2], "usage"),
             end = parse_json(all[all.size() - 3], "end");
  EXPECT_EQ(text_of(first, "object"), "chat.completion.chunk");
  EXPECT_EQ(text_of(choice(first).at("delta", ""), "role"), "assistant");
  EXPECT_TRUE(choice(first).at("finish_reason", "").is_null());
  EXPECT_EQ(to_text(choice(end).at("delta", "")), "{}");
  EXPECT_EQ(text_of(choice(end), "finish_reason"), "stop");
  EXPECT_EQ(to_text(usage.at("choices", "")), "[]");
  EXPECT_EQ(usage.at("usage", "").at("completion_tokens", "").integer(""), 5);
  std::string text;
  for (std::size_t i = 1; i + 3 < all.size(); ++i)
    text += text_of(choice(parse_json(all[i], "piece")).at("delta", ""), "content");
  EXPECT_EQ(text, "hello");
}

std::vector<std::string> streamed(const std::vector<std::string>& events) {
  std::vector<std::string> pieces;
  for (const std::string& event : events)
    if (event != "[DONE]") pieces.push_back(text_of(choice(parse_json(event, "event")), "text"));
  return pieces;
}

// Row 1.
TEST_F(ApiTest, CharactersAreNeverCut) {
  const std::string text = "日本語😀 ε";
  says(text);
  start();
  load();
  std::string joined;
  for (const std::string& piece : streamed(
           events(complete(R"({"prompt": ">", "stream": true, "temperature": 0, "max_tokens": 99})")
                      .body))) {
    EXPECT_EQ(piece.find("\xEF\xBF\xBD"), std::string::npos) << piece;
    EXPECT_TRUE(is_utf8(piece));
    joined += piece;
  }
  EXPECT_EQ(joined, text);
  const std::string one = text_of(
      choice(json(complete(R"({"prompt": ">", "temperature": 0, "max_tokens": 1})"))), "text");
  EXPECT_TRUE(one.empty() || one == "\xEF\xBF\xBD") << one;
  const Json named =
      json(complete(R"({"prompt": ">", "temperature": 0, "max_tokens": 3, "logprobs": 0})"));
  EXPECT_EQ(to_text(choice(named).at("logprobs", "").at("tokens", "")),
            R"(["bytes:\\xe6", "bytes:\\x97", "bytes:\\xa5"])");
}

TEST_F(ApiTest, StopStringsNeverLeak) {
  says("one STO two STOP three");
  start();
  load();
  for (const char* stop : {R"("STOP")", R"(["nothing", "STOP three", "STOP"])", R"(["P"])"}) {
    const std::string fields =
        R"({"prompt": ">", "temperature": 0, "max_tokens": 99, "stop": )" + std::string(stop);
    std::string joined;
    for (const std::string& piece :
         streamed(events(complete(fields + R"(, "stream": true})").body))) {
      EXPECT_EQ(piece.find("STOP"), std::string::npos);
      joined += piece;
    }
    const Json whole = json(complete(fields + "}"));
    EXPECT_EQ(joined, text_of(choice(whole), "text"));
    EXPECT_EQ(joined, stop == std::string(R"(["P"])") ? "one STO two STO" : "one STO two ");
    EXPECT_EQ(text_of(choice(whole), "finish_reason"), "stop");
  }
  const Json kept =
      json(complete(R"({"prompt": ">", "temperature": 0, "max_tokens": 99, "stop": "two", )"
                    R"("include_stop_str_in_output": true})"));
  EXPECT_EQ(text_of(choice(kept), "text"), "one STO two");
  EXPECT_EQ(text_of(choice(kept), "stop_reason"), "two");
}

// As lm-eval scores: the prompt's own logprobs, and nothing more.
TEST_F(ApiTest, PromptsAreScored) {
  start();
  load();
  const Json json = this->json(complete(
      R"({"prompt": "a>h", "max_tokens": 0, "echo": true, "logprobs": 1, "temperature": 0})"));
  EXPECT_EQ(text_of(choice(json), "text"), "a>h");
  const Json& logprobs = choice(json).at("logprobs", "");
  EXPECT_EQ(to_text(logprobs.at("tokens", "")), R"(["a", ">", "h"])");
  EXPECT_EQ(to_text(logprobs.at("text_offset", "")), "[0, 1, 2]");
  const auto& values = logprobs.at("token_logprobs", "").array("");
  EXPECT_TRUE(values[0].is_null());
  EXPECT_GT(values[2].number(""), -2);  // the likeliest behind ">"
  EXPECT_LT(values[1].number(""), values[2].number(""));
  EXPECT_TRUE(logprobs.at("top_logprobs", "").array("")[2].find("h"));
  EXPECT_EQ(json.at("usage", "").at("completion_tokens", "").integer(""), 0);
  const Json more =
      this->json(complete(R"({"prompt": "a>", "max_tokens": 9, "echo": true, "temperature": 0})"));
  EXPECT_EQ(text_of(choice(more), "text"), "a>hello");
}

TEST_F(ApiTest, ManyPromptsAndChoicesKeepTheirPlaces) {
  start();
  load();
  const Json json = this->json(complete(
      R"({"prompt": ["a>", "b>h"], "n": 2, "echo": true, "max_tokens": 3, "temperature": 0})"));
  ASSERT_EQ(json.at("choices", "").array("").size(), 4u);
  const char* expected[] = {"a>hel", "a>hel", "b>hell", "b>hell"};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(choice(json, i).at("index", "").integer(""), static_cast<std::int64_t>(i));
    EXPECT_EQ(text_of(choice(json, i), "text"), expected[i]);
  }
  EXPECT_EQ(json.at("usage", "").at("prompt_tokens", "").integer(""), 5);
  EXPECT_EQ(text_of(choice(this->json(
                        complete(R"({"prompt": [97, 62], "max_tokens": 2, "temperature": 0})"))),
                    "text"),
            "he");
  // Row 12: choices differ, and come again with their seed.
  const std::string hot =
      R"({"prompt": "a>", "n": 4, "seed": 7, "temperature": 2, "max_tokens": 24})";
  const Json once = this->json(complete(hot)), again = this->json(complete(hot));
  EXPECT_NE(text_of(choice(once, 0), "text"), text_of(choice(once, 1), "text"));
  EXPECT_EQ(to_text(once.at("choices", "")), to_text(again.at("choices", "")));
}

TEST_F(ApiTest, BiasIsAdded) {
  start();
  load();
  const Json json = this->json(complete(
      R"({"prompt": "a>", "temperature": 0, "max_tokens": 2, "logit_bias": {"90": 100}})"));
  EXPECT_EQ(text_of(choice(json), "text"), "ZZ");
}

TEST_F(ApiTest, IgnoredEndsAreTheModelsOwn) {
  start();
  load();
  const auto said = [&](const std::string& more) {
    return text_of(choice(json(complete(R"({"prompt": "a>", "temperature": 0, )" + more + "}"))),
                   "text");
  };
  EXPECT_EQ(said(R"("max_tokens": 9)"), "hello");
  EXPECT_EQ(said(R"("max_tokens": 9, "ignore_eos": true)").size(), 9u);
  EXPECT_EQ(said(R"("max_tokens": 9, "ignore_eos": true, "stop_token_ids": [108])"), "he");
  const Json at_l =
      json(complete(R"({"prompt": "a>", "temperature": 0, "stop_token_ids": [108]})"));
  EXPECT_EQ(text_of(choice(at_l), "finish_reason"), "stop");
  EXPECT_EQ(choice(at_l).at("stop_reason", "").integer(""), 108);
  const Json at_end =
      json(complete(R"({"prompt": "a>", "temperature": 0, "stop_token_ids": [1]})"));
  EXPECT_TRUE(choice(at_end).at("stop_reason", "").is_null());
  // Neither they nor a stop string end an answer sooner than is asked for.
  EXPECT_EQ(said(R"("max_tokens": 9, "stop": "l")"), "he");
  EXPECT_EQ(said(R"("max_tokens": 9, "stop": "l", "min_tokens": 3)"), "hel");
  EXPECT_EQ(said(R"("max_tokens": 9, "stop": "l", "min_tokens": 4)"), "hello");
}

TEST_F(ApiTest, AModelsNameMayBeSpelledInAPath) {
  start({.name = "fleet/Große %41"});
  load();
  for (const char* spelled :
       {"fleet/Gro%C3%9Fe%20%2541", "fleet%2FGro%c3%9fe%20%2541", "%66leet%2fGro%C3%9Fe%20%2541"})
    EXPECT_EQ(ask(port_, get(std::string("/v1/models/") + spelled)).status, 200) << spelled;
  for (const char* other : {"fleet%2FGro%C3%9Fe%20%41", "fleet%2", "%", "%zz", "%FF", "%00", ""})
    EXPECT_EQ(ask(port_, get(std::string("/v1/models/") + other)).status, 404) << other;
}

TEST_F(ApiTest, TokensAndBack) {
  start();
  load();
  EXPECT_EQ(ask(port_, post("/tokenize", R"({"prompt": "hé"})")).body,
            R"({"count": 3, "max_model_len": 1024, "tokens": [104, 195, 169], "token_strs": null})"
            "\n");
  EXPECT_EQ(ask(port_, post("/detokenize", R"({"tokens": [104, 195, 169]})")).body,
            "{\"prompt\": \"hé\"}\n");
  const Json asked =
      json(ask(port_, post("/tokenize", R"({"messages": [{"role": "user", "content": "a"}]})")));
  EXPECT_EQ(asked.at("count", "").integer(""), std::ssize(std::string("<user>a\n<assistant>")));
}

TEST_F(ApiTest, WhatIsThereIsTold) {
  start();
  EXPECT_EQ(ask(port_, get("/health")).status, 503);  // loading
  EXPECT_EQ(json(ask(port_, get("/health"))).at("error", "").at("code", "").text(""), "loading");
  EXPECT_EQ(ask(port_, get("/ready")).status, 503);
  EXPECT_EQ(complete(R"({"prompt": "a"})").status, 503);
  load();
  EXPECT_EQ(ask(port_, get("/health")).body, "{\"status\": \"ok\"}\n");
  EXPECT_EQ(ask(port_, get("/ready")).status, 200);
  EXPECT_EQ(ask(port_, get("/v1/models")).body,
            R"({"object": "list", "data": [{"id": "stub", "object": "model", "created": )"
            R"(1700000000, "owned_by": "trireme", "root": "stub", "parent": null, )"
            R"("max_model_len": 1024}]})"
            "\n");
  EXPECT_NE(ask(port_, get("/v1/models/stub")).body.find(R"({"id": "stub", "object")"),
            std::string::npos);
  const Answer other = ask(port_, get("/v1/models/other"));
  EXPECT_EQ(other.status, 404);
  EXPECT_NE(other.body.find("model_not_found"), std::string::npos) << other.body;
  EXPECT_EQ(ask(port_, get("/nowhere")).status, 404);
  const Answer wrong = ask(port_, get("/v1/completions"));
  EXPECT_EQ(wrong.status, 405);
  EXPECT_NE(wrong.head.find("Allow: POST"), std::string::npos);
}

}  // namespace
}  // namespace trireme::test
