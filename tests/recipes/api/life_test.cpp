// Clients that leave, a full queue, errors of the model, the end: nothing leaks, sums match.
#include "tests/recipes/api/api_fixture.h"

namespace trireme::test {
namespace {

constexpr const char* kEndless =
    R"({"prompt": "Lxyz", "stream": true, "temperature": 0, "max_tokens": 900})";

// Row 17: while it waits, in its prompt, in its answer.
TEST_F(ApiTest, WhoLeavesFreesTheSlot) {
  start({.engine = {.sequences = 1}});
  load();
  const auto events_of = [](const std::string& got) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = got.find("data: ", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  for (int round = 0; round < 5; ++round) {
    Client reading(port_), waiting(port_);
    close_gate();
    reading.send(post("/v1/completions", kEndless));
    waiting.send(post("/v1/completions", kEndless));
    ASSERT_TRUE(waiting.until("\r\n\r\n"));
    if (round % 2 == 0) {
      open_gate();
      ASSERT_TRUE(reading.until([&](const std::string& got) { return events_of(got) >= 2; }));
    }
    reading.close();
    waiting.close();
    open_gate();
    const Answer next = complete(R"({"prompt": "a>", "temperature": 0})");
    EXPECT_EQ(next.status, 200);
    EXPECT_NE(next.body.find("\"text\": \"hello\""), std::string::npos) << next.body;
  }
  eventually([&] { return metric("vllm:num_requests_running{model_name=\"stub\"}") == 0; },
             "nothing runs");
}

TEST_F(ApiTest, SumsMatch) {
  start({.engine = {.sequences = 4}});
  load();
  int asked = 0, left = 0;
  for (int i = 0; i < 60; ++i) {
    if (i % 10 == 0) {
      close_gate();  // or it could be answered before it is seen to leave
      Client leaves(port_);
      leaves.send(post("/v1/completions", kEndless));
      ASSERT_TRUE(leaves.until("\r\n\r\n"));
      leaves.close();
      ++asked;
      ++left;
      eventually([&] { return metric("trireme:http_gone_total{model_name=\"stub\"}") == left; },
                 "it is seen to leave");
      open_gate();
      continue;
    }
    const int n = 1 + i % 3;
    asked += n;
    EXPECT_EQ(complete(R"({"prompt": "a>", "temperature": 0, "n": )" + std::to_string(n) +
                       (i % 2 == 0 ? R"(, "max_tokens": 2})" : "}"))
                  .status,
              200);
  }
  const auto ended = [&](const std::string& reason) {
    return metric("vllm:request_success_total{model_name=\"stub\",finished_reason=\"" + reason +
                  "\"}");
  };
  EXPECT_EQ(metric("trireme:answers_submitted_total{model_name=\"stub\"}"), asked);
  eventually([&] { return ended("abort") == 6; }, "all that left have ended");
  EXPECT_EQ(ended("stop") + ended("length") + ended("abort") + ended("error"), asked);
  EXPECT_EQ(metric("vllm:e2e_request_latency_seconds_count{model_name=\"stub\"}"), asked - 6);
}

// Row 41: some are told to come back, the others are answered.
TEST_F(ApiTest, AFullQueueIsSaid) {
  start({.engine = {.sequences = 1, .queue = 2}});
  load();
  close_gate();
  Client running(port_);
  running.send(post("/v1/completions", kEndless));
  eventually([&] { return passes_seen_ > 0; }, "it runs");
  std::vector<std::unique_ptr<Client>> others;
  for (int i = 0; i < 2; ++i) {
    others.push_back(std::make_unique<Client>(port_));
    others.back()->send(post("/v1/completions", R"({"prompt": "a>", "temperature": 0})"));
  }
  const auto full = [&] { return complete(R"({"prompt": "b>"})"); };
  Client probe(port_);
  eventually([&] { return metric("trireme:answers_submitted_total{model_name=\"stub\"}") == 3; },
             "they wait");
  const Answer refused = full();
  EXPECT_EQ(refused.status, 429);
  EXPECT_NE(refused.head.find("Retry-After: "), std::string::npos);
  EXPECT_EQ(json(refused).at("error", "").at("type", "").text(""), "rate_limit_error");
  // All prompts of a request, or none.
  EXPECT_EQ(complete(R"({"prompt": ["b>", "c>", "d>"]})").status, 429);
  running.close();
  open_gate();
  for (const auto& other : others) EXPECT_EQ(other->answer().value_or(Answer{}).status, 200);
  EXPECT_EQ(full().status, 200);
}

// Row 41, its own numbers: ten at once on a queue of two, in one shape on both routes.
TEST_F(ApiTest, TenAtOnceOnAQueueOfTwo) {
  start({.engine = {.sequences = 1, .queue = 2}});
  load();
  close_gate();
  std::atomic<int> refused{0}, answered{0};
  std::vector<std::thread> all;
  for (int i = 0; i < 10; ++i)
    all.emplace_back([&, i] {
      const Answer answer = i % 2 == 0
                                ? complete(R"({"prompt": "a>", "temperature": 0})")
                                : chat(R"({"messages": [{"role": "user", "content": "a>"}], )"
                                       R"("temperature": 0})");
      if (answer.status == 200) {
        EXPECT_NE(answer.body.find("\"hello\""), std::string::npos) << answer.body;
        ++answered;
        return;
      }
      EXPECT_EQ(answer.status, 429) << answer.body;
      EXPECT_NE(answer.head.find("Retry-After: "), std::string::npos);
      const Json told = json(answer);
      const Json& error = told.at("error", "");
      EXPECT_EQ(error.at("type", "").text(""), "rate_limit_error");
      EXPECT_TRUE(error.find("message") && error.find("param") && error.find("code"));
      ++refused;
    });
  eventually([&] { return refused >= 7; }, "those that have no place hear so at once");
  open_gate();
  for (std::thread& one : all) one.join();
  EXPECT_LE(refused, 8);  // 7 if the first one was admitted before the fourth came
  EXPECT_EQ(answered, 10 - refused);
}

// Row 20: that request ends with an error, the others go on.
TEST_F(ApiTest, AnErrorOfTheModelEndsOneRequest) {
  start();
  load();
  Client good(port_);
  good.send(post("/v1/completions", kEndless));
  ASSERT_TRUE(good.until("data: "));
  const Answer bad = complete(R"({"prompt": "N", "max_tokens": 3})");
  EXPECT_EQ(bad.status, 500);
  EXPECT_EQ(json(bad).at("error", "").at("type", "").text(""), "server_error");
  const std::vector<std::string> told =
      events(complete(R"({"prompt": "N", "max_tokens": 3, "stream": true})").body);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(parse_json(told[0], "event").find("error"));
  EXPECT_TRUE(good.until("[DONE]"));
}

// Row 39: what runs is answered, nothing new is taken, and then it ends.
TEST_F(ApiTest, TheEndWaitsForAnswers) {
  std::promise<DrainBegin> told;
  start({.api = {.drains = [&](const DrainBegin& begin) { told.set_value(begin); }},
         .engine = {.sequences = 1}});
  load();
  close_gate();
  Client running(port_), waiting(port_), leaving(port_);
  running.send(post("/v1/completions", kEndless));
  ASSERT_TRUE(running.until("\r\n\r\n"));
  eventually([&] { return passes_seen_ > 0; }, "it runs");
  waiting.send(
      post("/v1/completions", R"({"prompt": "a>", "temperature": 0, "n": 2, "stream": true})"));
  ASSERT_TRUE(waiting.until("\r\n\r\n"));
  leaving.send(post("/v1/completions", kEndless));
  ASSERT_TRUE(leaving.until("\r\n\r\n"));
  ending_ = true;
  const DrainBegin begin = told.get_future().get();
  EXPECT_EQ(begin.running, 1);
  EXPECT_EQ(begin.waiting, 3);
  EXPECT_EQ(begin.reading, 0);
  EXPECT_EQ(ask(port_, get("/ready")).status, 503);
  EXPECT_EQ(complete(R"({"prompt": "a>"})").status, 503);
  EXPECT_EQ(ask(port_, get("/health")).status, 200);
  leaving.close();
  eventually([&] { return metric("trireme:http_gone_total{model_name=\"stub\"}") == 1; },
             "it is seen to leave");
  open_gate();
  EXPECT_TRUE(running.until("[DONE]"));
  EXPECT_TRUE(waiting.until("[DONE]"));
  passes_.join();
  EXPECT_EQ(running.rest().find("\"error\""), std::string::npos);
  loop_.join();
  EXPECT_EQ(server_->drained().finished, 3);
  EXPECT_EQ(server_->drained().cut, 0);
  EXPECT_EQ(server_->drained().left, 1);
}

TEST(Drain, IsToldInSentences) {
  EXPECT_EQ(drain_text(DrainBegin{}, 30), "ending: nothing is under way");
  EXPECT_EQ(drain_text({.running = 1}, 30),
            "ending: 1 answer is being written, 0 wait; they have 30 s");
  EXPECT_EQ(
      drain_text({.running = 3, .waiting = 1, .reading = 2}, 5),
      "ending: 3 answers are being written, 1 waits, 2 requests are being read; they have 5 s");
  EXPECT_EQ(drain_text(DrainEnd{}), "ended: nothing was cut off");
  EXPECT_EQ(drain_text({.finished = 1, .cut = 1, .left = 2}),
            "ended: 1 answer was finished, 1 was cut off, 2 were left by the client");
}

TEST_F(ApiTest, TheEndDoesNotWaitForEver) {
  start({.api = {.drain_seconds = 30}, .engine = {.sequences = 1}});
  load();
  close_gate();
  Client running(port_);
  running.send(post("/v1/completions", kEndless));
  ASSERT_TRUE(running.until("\r\n\r\n"));
  eventually([&] { return passes_seen_ > 0; }, "it runs");
  ending_ = true;
  eventually([&] { return ask(port_, get("/ready")).status == 503; }, "it drains");
  clock_ = 100;
  eventually([&] { return server_->stop().load(); }, "the deadline is seen");
  open_gate();
  const std::string rest = running.rest();
  EXPECT_NE(rest.find("shutting_down"), std::string::npos) << rest.substr(rest.size() - 300);
  EXPECT_EQ(rest.find("[DONE]"), std::string::npos);
  passes_.join();
  loop_.join();
  EXPECT_EQ(server_->drained().cut, 1);
  EXPECT_EQ(server_->drained().finished, 0);
}

// Each line of the text format: a comment, or a name with labels and a number.
TEST_F(ApiTest, MetricsAreInTheirFormat) {
  start();
  load();
  complete(R"({"prompt": "a>", "temperature": 0})");
  const Answer answer = ask(port_, get("/metrics"));
  EXPECT_NE(answer.head.find("Content-Type: text/plain; version=0.0.4"), std::string::npos);
  std::size_t lines = 0;
  for (std::size_t at = 0; at < answer.body.size(); ++lines) {
    const std::size_t end = answer.body.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    const std::string line = answer.body.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) continue;
    const std::size_t open = line.find("{model_name=\"stub\""), close = line.find("} ");
    ASSERT_NE(open, std::string::npos) << line;
    ASSERT_NE(close, std::string::npos) << line;
    char* rest = nullptr;
    std::strtod(line.c_str() + close + 2, &rest);
    EXPECT_EQ(*rest, 0) << line;
  }
  EXPECT_GT(lines, 100u);
}

}  // namespace
}  // namespace trireme::test
