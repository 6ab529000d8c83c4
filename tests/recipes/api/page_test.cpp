// The chat page as it is served, and the routes that were made for it. What it does in a browser is
// tests/page's.
#include <regex>

#include "recipes/page/chat_page.h"
#include "tests/recipes/api/api_fixture.h"

namespace trireme::test {
namespace {

constexpr char kKey[] = "0123456789abcdef";

std::string field_of(const Answer& answer, const std::string& name) {
  const std::size_t at = answer.head.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size() + 4;
  return answer.head.substr(begin, answer.head.find("\r\n", begin) - begin);
}

TEST_F(ApiTest, ThePageIsOneSmallFile) {
  start();
  const Answer page = ask(port_, get("/"));  // a model is not needed for it
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, chat_page());
  EXPECT_LT(page.body.size(), 150'000u);
  EXPECT_TRUE(page.body.starts_with("<!doctype html>"));
  EXPECT_TRUE(page.body.ends_with("</html>\n"));
  EXPECT_EQ(field_of(page, "Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(field_of(page, "X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(field_of(page, "Referrer-Policy"), "no-referrer");
  Client client(port_);
  client.send("HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const Answer head{.head = client.rest()};
  EXPECT_TRUE(head.head.starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(head.head.ends_with("\r\n\r\n")) << "a body follows";
  EXPECT_EQ(field_of(head, "Content-Length"), std::to_string(page.body.size()));
  EXPECT_EQ(ask(port_, post("/", "{}")).status, 405);
}

TEST_F(ApiTest, ThePageMayRunItsOwnScriptAlone) {
  start();
  const std::string policy = field_of(ask(port_, get("/")), "Content-Security-Policy");
  for (const char* part :
       {"default-src 'none';", "connect-src 'self';", "frame-ancestors 'none';", "base-uri 'none';",
        "form-action 'none';", "require-trusted-types-for 'script';", "trusted-types 'none'"})
    EXPECT_NE(policy.find(part), std::string::npos) << part << " is not in " << policy;
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  const std::regex hashes(
      "script-src 'sha256-[A-Za-z0-9+/]{43}='; style-src "
      "'sha256-[A-Za-z0-9+/]{43}=';");
  EXPECT_TRUE(std::regex_search(policy, hashes)) << policy;
}

// Addresses of elsewhere are in it as names of namespaces alone; nothing is built from markup.
TEST_F(ApiTest, ThePageNamesNothingFromElsewhere) {
  std::string page(chat_page());
  for (const std::string name :
       {"http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"})
    for (std::size_t at; (at = page.find(name)) != std::string::npos;) page.erase(at, name.size());
  const std::regex address("(https?:|wss?:)?//[A-Za-z0-9-]+\\.[A-Za-z]");
  EXPECT_FALSE(std::regex_search(page, address));
  for (const char* word :
       {"innerHTML =", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
        " src=", "@import", "url(", " style=", " onclick="})
    EXPECT_EQ(page.find(word), std::string::npos) << word;
}

TEST_F(ApiTest, ThePageNeedsNoKeyAndWhatItAsksDoes) {
  Setup setup;
  setup.api.keys = {kKey};
  setup.api.hosts = {"localhost"};
  start(setup);
  load();
  EXPECT_EQ(ask(port_, get("/")).status, 200);
  EXPECT_EQ(ask(port_, get("/props")).status, 401);
  EXPECT_EQ(ask(port_, get("/props", std::string("Authorization: Bearer ") + kKey + "\r\n")).status,
            200);
  EXPECT_EQ(ask(port_, "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").status,
            403);
}

TEST_F(ApiTest, PropsTellTheModelAndItsMemory) {
  start();
  EXPECT_EQ(ask(port_, get("/props")).status, 503);
  MemoryLedger ledger;
  ledger.add(Tier::kDevice, MemoryKind::kParameters, 1000);
  ledger.add(Tier::kDevice, MemoryKind::kKvCache, 256 * 64);
  ledger.add(Tier::kDisk, MemoryKind::kParameters, 5000);
  served_->memory = {.ledger = &ledger,
                     .ranks = 2,
                     .page_tokens = 16,
                     .page_bytes = 64,
                     .limit = 20000,
                     .limit_source = "a test"};
  load();
  eventually([&] { return ask(port_, get("/props")).status == 200; }, "ready");
  const Json props = json(ask(port_, get("/props")));
  EXPECT_EQ(props.at("model", "").text(""), "stub");
  EXPECT_EQ(props.at("max_model_len", "").integer(""), 1024);
  EXPECT_TRUE(props.at("chat_template", "").boolean(""));
  EXPECT_EQ(props.at("sampling_defaults", "").at("temperature", "").number(""), 1);
  const Json& memory = props.at("memory", "");
  EXPECT_EQ(memory.at("ranks", "").integer(""), 2);
  const Json& bytes = memory.at("bytes", "");
  EXPECT_EQ(bytes.at("device", "").at("parameters", "").integer(""), 1000);
  EXPECT_EQ(bytes.at("disk", "").at("parameters", "").integer(""), 5000);
  EXPECT_EQ(bytes.at("device", "").find("gradients"), nullptr);
  EXPECT_EQ(memory.at("cache", "").at("tokens", "").integer(""), 256 * 16);
  EXPECT_EQ(memory.at("cache", "").at("used_tokens", "").integer(""), 0);
  EXPECT_EQ(memory.at("cache", "").at("bytes", "").integer(""), 256 * 64);
  EXPECT_EQ(memory.at("free", "").integer(""), 20000 - 1000 - 256 * 64);
  EXPECT_EQ(memory.at("limit_source", "").text(""), "a test");
}

// "<user>q\n<assistant>" and what was said: the model hears no end of it in between.
TEST_F(ApiTest, AnAnswerGoesOn) {
  start();
  load();
  const auto chat_of = [&](const std::string& more) {
    return chat(
        R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "he"}],)"
        R"( "temperature": 0)" +
        more + "}");
  };
  const Answer on = chat_of(R"(, "continue_final_message": true, "add_generation_prompt": false)");
  ASSERT_EQ(on.status, 200) << on.body;
  EXPECT_EQ(json(on).at("choices", "").array("")[0].at("message", "").at("content", "").text(""),
            "llo");
  EXPECT_EQ(json(on).at("usage", "").at("prompt_tokens", "").integer(""),
            std::ssize(std::string("<user>q\n<assistant>he")));
  const Answer anew = chat_of(R"(, "add_generation_prompt": true)");
  EXPECT_EQ(json(anew).at("choices", "").array("")[0].at("message", "").at("content", "").text(""),
            "hello");
  EXPECT_EQ(chat_of(R"(, "continue_final_message": true, "add_generation_prompt": true)").status,
            400);
  EXPECT_EQ(chat_of(R"(, "add_generation_prompt": false)").status, 400);
  for (const char* messages :
       {R"([{"role": "user", "content": "q"}])", R"([{"role": "assistant", "content": "q"}])",
        R"([{"role": "user", "content": "q"}, {"role": "user", "content": "q"}])", "[]", "1"})
    EXPECT_EQ(chat(std::string(R"({"continue_final_message": true, "messages": )") + messages + "}")
                  .status,
              400)
        << messages;
}

}  // namespace
}  // namespace trireme::test
