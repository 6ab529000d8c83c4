// A load on a server of this process whose answers are written by hand: what is counted, how many
// are under way, and how failures are told.
#include "recipes/load/load_run.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "framework/base/error.h"
#include "recipes/http/http_server.h"
#include "recipes/load/server_events.h"

namespace trireme::test {
namespace {

TEST(SendTimes, AreScaledToTheRate) {
  for (const std::optional<double> burstiness : {std::optional<double>(), std::optional(1.0)}) {
    const auto times = send_times(50, 10.0, burstiness, 3);
    ASSERT_EQ(times.size(), 50u);
    EXPECT_NEAR(times.back(), 5, 1e-9);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  }
  EXPECT_NEAR(send_times(50, 10.0, std::nullopt, 3)[9], 1, 1e-9);
  EXPECT_EQ(send_times(50, 10.0, 1.0, 3), send_times(50, 10.0, 1.0, 3));
  EXPECT_NE(send_times(50, 10.0, 1.0, 3), send_times(50, 10.0, 1.0, 4));
  EXPECT_EQ(send_times(3, std::nullopt, 1.0, 3), std::vector<double>(3));
}

TEST(ServerEvents, ComeInAnyPieces) {
  const std::string text =
      ": hello\n\ndata: {\"a\": 1}\n\ndata: x\r\ndata: y\r\n\r\ndata: [DONE]\n\n";
  const std::vector<std::string> expected{"{\"a\": 1}", "x\ny", "[DONE]"};
  for (std::size_t size = 1; size <= text.size(); ++size) {
    ServerEvents events;
    std::vector<std::string> all;
    for (std::size_t at = 0; at < text.size(); at += size)
      for (std::string& data : events.push(std::string_view(text).substr(at, size)))
        all.push_back(std::move(data));
    EXPECT_EQ(all, expected) << size;
  }
}

TEST(MetricOf, SumsSamples) {
  const std::string text =
      "# TYPE a counter\na{model_name=\"x y\"} 3\na{model_name=\"z\"} 4.5\nab 9\n";
  EXPECT_EQ(metric_of(text, "a"), 7.5);
  EXPECT_EQ(metric_of(text, "ab"), 9);
  EXPECT_EQ(metric_of(text, "b"), std::nullopt);
}

TEST(HttpPlace, IsReadOrRefused) {
  const HttpPlace place = http_place_of("http://localhost:8000/models/a/");
  EXPECT_EQ(place.host + "|" + place.port + "|" + place.prefix, "localhost|8000|/models/a");
  EXPECT_EQ(http_place_of("http://[::1]:80").host, "::1");
  EXPECT_EQ(http_place_of("http://a").port, "80");
  for (const char* bad : {"https://a", "a:80", "http://", "http://:80", "http://a:x",
                          "http://a:123456", "http://a b", "http://u@a", "http://a/?q"})
    EXPECT_THROW(http_place_of(bad), Error) << bad;
}

class LoadTest : public ::testing::Test {
 protected:
  using Answer = std::function<void(const HttpRequest&, const std::shared_ptr<HttpReply>&)>;
  void start(Answer answer) {
    server_ = std::make_unique<HttpServer>(HttpOptions{}, std::move(answer));
    loop_ = std::thread([this] { server_->run(); });
    client_ = std::make_unique<HttpClient>(
        HttpPlace{.host = "127.0.0.1", .port = std::to_string(server_->port())});
  }
  void TearDown() override {
    client_.reset();
    if (!server_) return;
    server_->post([this] { server_->finish(); });
    loop_.join();
  }
  std::vector<LoadOutcome> run(const LoadPlan& plan) {
    LoadRun load(*client_, plan, {1, 2, 3}, {}, {});
    auto outcomes = load.run();
    EXPECT_GT(load.duration(), 0);
    return outcomes;
  }
  // Pieces "a", "b", ...; then the end and what it used.
  static void stream(const std::shared_ptr<HttpReply>& reply, int pieces, std::int64_t prompt) {
    reply->begin({.type = "text/event-stream"});
    for (int i = 0; i < pieces; ++i)
      reply->write(join("data: {\"choices\": [{\"text\": \"", static_cast<char>('a' + i),
                        "\", \"finish_reason\": null}]}\n\n"));
    reply->write("data: {\"choices\": [{\"text\": \"\", \"finish_reason\": \"length\"}]}\n\n");
    reply->write(join("data: {\"choices\": [], \"usage\": {\"prompt_tokens\": ", prompt,
                      ", \"completion_tokens\": ", pieces, "}}\n\ndata: [DONE]\n\n"));
    reply->end();
  }

  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<HttpClient> client_;
  std::thread loop_;
};

TEST_F(LoadTest, CountsWhatComes) {
  std::vector<std::string> bodies;
  std::string key;
  start([&](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
    bodies.push_back(request.body);
    key = request.field("authorization");
    stream(reply, 3, 6);
  });
  const auto outcomes = run({.model = "m",
                             .key = "secret",
                             .prompts = 5,
                             .input = 6,
                             .output = 3,
                             .ignore_eos = true,
                             .temperature = 0.5,
                             .seed = 7});
  ASSERT_EQ(outcomes.size(), 5u);
  for (const LoadOutcome& o : outcomes) {
    EXPECT_TRUE(o.success) << o.error;
    EXPECT_EQ(o.text, "abc");
    EXPECT_EQ(o.output_tokens, 3);
    EXPECT_EQ(o.input_tokens, 6);
    EXPECT_EQ(o.itl.size(), 2u);
    EXPECT_GT(o.ttft, 0);
    EXPECT_NEAR(o.latency, o.ttft + o.itl[0] + o.itl[1], 1e-9);
  }
  EXPECT_EQ(key, "Bearer secret");
  std::map<std::string, int> prompts;
  for (const std::string& text : bodies) {
    const Json body = parse_json(text, "body");
    EXPECT_EQ(body.at("prompt", "b").array("b").size(), 6u);
    EXPECT_EQ(body.at("max_tokens", "b").integer("b"), 3);
    EXPECT_TRUE(body.at("ignore_eos", "b").boolean("b"));
    EXPECT_EQ(body.at("temperature", "b").number("b"), 0.5);
    ++prompts[to_text(body.at("prompt", "b"))];
  }
  EXPECT_GT(prompts.size(), 1u);  // not all the same
}

TEST_F(LoadTest, KeepsToItsConcurrency) {
  // Answers wait until three are asked for, or none can be: three never wait for a fourth.
  std::vector<std::shared_ptr<HttpReply>> waiting;
  std::size_t most = 0, asked = 0;
  start([&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
    waiting.push_back(reply);
    most = std::max(most, waiting.size());
    if (++asked % 3 != 0) return;
    for (const auto& one : waiting) stream(one, 1, 1);
    waiting.clear();
  });
  const auto outcomes =
      run({.model = "m", .prompts = 9, .input = 1, .output = 1, .concurrency = 3});
  EXPECT_EQ(measure_load(outcomes, 1, {}).completed, 9);
  EXPECT_EQ(most, 3u);
}

TEST_F(LoadTest, TellsWhyItFailed) {
  int asked = 0;
  start([&](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) {
    switch (asked++) {
      case 0:
        return reply->send({.status = 429, .body = R"({"error": {"message": "busy"}})"});
      case 1:
        reply->begin({.type = "text/event-stream"});
        reply->write("data: {\"choices\": [{\"text\": \"a\"}]}\n\n");
        reply->write("data: {\"error\": {\"message\": \"a rank died\"}}\n\n");
        return reply->end();
      case 2:
        reply->begin({.type = "text/event-stream"});
        return reply->end();
      default:
        return reply->send({.status = 500, .type = "text/plain", .body = "oops"});
    }
  });
  const auto outcomes =
      run({.model = "m", .prompts = 4, .input = 1, .output = 1, .concurrency = 1});
  ASSERT_EQ(outcomes.size(), 4u);
  for (const LoadOutcome& o : outcomes) EXPECT_FALSE(o.success);
  EXPECT_EQ(outcomes[0].error, "429: busy");
  EXPECT_EQ(outcomes[1].error, "a rank died");
  EXPECT_EQ(outcomes[2].error, "the stream ended without [DONE]");
  EXPECT_EQ(outcomes[3].error, "500: oops");
}

TEST_F(LoadTest, DoesNotWaitForever) {
  start([](const HttpRequest&, const std::shared_ptr<HttpReply>&) {});
  const auto outcomes = run({.model = "m", .prompts = 2, .input = 1, .output = 1, .timeout = 0.2});
  ASSERT_EQ(outcomes.size(), 2u);
  for (const LoadOutcome& o : outcomes) EXPECT_EQ(o.error, "no end after 0.2 s");
}

TEST_F(LoadTest, AServerThatIsNotThereIsTold) {
  start([](const HttpRequest&, const std::shared_ptr<HttpReply>& reply) { reply->send({}); });
  server_->post([this] { server_->finish(); });
  loop_.join();
  const int port = server_->port();
  server_.reset();
  HttpClient client({.host = "127.0.0.1", .port = std::to_string(port)});
  const ServerAnswer answer = ask_server(client, "", "GET", "/health");
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(answer.problem, "Connection refused");
}

TEST_F(LoadTest, LetsGoWhenItIsStopped) {
  start([](const HttpRequest&, const std::shared_ptr<HttpReply>&) {});
  int looks = 0;
  const LoadPlan plan{.model = "m", .prompts = 3, .input = 1, .output = 1};
  LoadRun load(*client_, plan, {1}, {}, [&] { return ++looks > 1; });
  load.run();
  EXPECT_TRUE(load.stopped());
}

}  // namespace
}  // namespace trireme::test
