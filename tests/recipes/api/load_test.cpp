// Many clients at a time on a stub of a model: sums match, and memory does not grow. A short form;
// bench/serve_soak.sh runs the long one through TRIREME_SOAK_REQUESTS.
#include <fstream>
#include <random>

#include "tests/recipes/api/api_fixture.h"

namespace trireme::test {
namespace {

constexpr int kClients = 64;
// Far more than a client may leave unread. On a busy machine the stub may have said all of it
// before the loop hears of the first piece: such an answer ends instead of pausing.
constexpr const char* kUnread =
    R"({"prompt": "Lxyz", "stream": true, "max_tokens": 4000, "logprobs": 20, "temperature": 0})";

std::int64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::atoll(line.c_str() + 8) << 10;
  return 0;
}

class LoadTest : public ApiTest {
 protected:
  struct Sums {
    std::atomic<std::int64_t> answered{0}, left{0}, bad{0}, wrong{0}, tokens{0};
    std::mutex lock;
    std::string first_wrong;
    void is_wrong(const std::optional<Answer>& answer, const char* what) {
      ++wrong;
      const std::scoped_lock guard(lock);
      if (!first_wrong.empty()) return;
      first_wrong = std::string(what) + ": " +
                    (answer ? std::to_string(answer->status) + " " + answer->body.substr(0, 300)
                            : "no answer");
    }
  };
  // 85 % are answered, 10 % leave, 5 % ask for what there is not.
  void client(std::uint64_t seed, int requests, Sums& sums) {
    std::mt19937_64 random(seed);
    auto line = std::make_unique<Client>(port_);
    for (int i = 0; i < requests; ++i) {
      const std::uint64_t kind = random() % 100;
      if (kind < 10) {
        Client leaves(port_);
        const bool streams = random() % 2 == 0;
        leaves.send(post("/v1/completions",
                         streams ? R"({"prompt": "Lq", "max_tokens": 200, "stream": true})"
                                 : R"({"prompt": "Lq", "max_tokens": 200})"));
        if (streams) leaves.until("data: ");
        ++sums.left;
      } else if (kind < 15) {
        line->send(post("/v1/completions", R"({"prompt": "a>", "top_p": 2})"));
        const auto answer = line->answer();
        if (answer && answer->status == 400)
          ++sums.bad;
        else
          sums.is_wrong(answer, "a bad request");
      } else {
        // Prompts share pages, now and then; the answer's length tells whether it is one's own.
        const auto most = static_cast<std::size_t>(1 + random() % 5);
        const std::string prompt(1 + random() % 60, static_cast<char>('a' + random() % 3));
        const bool streams = random() % 3 == 0;
        line->send(post("/v1/completions",
                        "{\"prompt\": \"" + prompt + ">\", \"temperature\": 0, \"max_tokens\": " +
                            std::to_string(most) + (streams ? ", \"stream\": true}" : "}")));
        const auto answer = line->answer();
        std::string text;
        if (answer && streams) {
          for (const std::string& event : events(answer->body))
            if (event != "[DONE]")
              text +=
                  parse_json(event, "event").at("choices", "").array("")[0].at("text", "").text("");
        } else if (answer && answer->status == 200) {
          text = json(*answer).at("choices", "").array("")[0].at("text", "").text("");
        }
        const bool right =
            answer && answer->status == 200 && text == std::string("hello").substr(0, most);
        if (!right) {
          sums.is_wrong(answer, streams ? "a stream" : "an answer");
          continue;
        }
        ++sums.answered;
        sums.tokens += static_cast<std::int64_t>(most);
      }
    }
  }
  void storm(int requests, std::uint64_t seed, Sums& sums) {
    std::vector<std::thread> clients;
    for (int c = 0; c < kClients; ++c)
      clients.emplace_back([&, c] {
        client(seed + static_cast<std::uint64_t>(c),
               requests / kClients + (c < requests % kClients ? 1 : 0), sums);
      });
    for (std::thread& one : clients) one.join();
  }
  double ended(const std::string& reason) {
    return metric("vllm:request_success_total{model_name=\"stub\",finished_reason=\"" + reason +
                  "\"}");
  }
};

TEST_F(LoadTest, SumsMatchAndMemoryIsFlat) {
  const char* wanted = std::getenv("TRIREME_SOAK_REQUESTS");
  const int requests = wanted ? std::atoi(wanted) : 2000;
  // Room for connections whose ends nobody has seen yet, those of the first round among them.
  start({.api = {.reading = 4 * kClients},
         .http = {.connections = 16 * kClients},
         .engine = {.sequences = 16, .queue = 4 * kClients}});
  model_->keeps_rows = false;
  load();
  Sums sums;
  storm(requests / 4, 1, sums);  // what is kept for good is there
  const std::int64_t before = anonymous_bytes();
  storm(requests - requests / 4, 1000, sums);
  eventually(
      [&] {
        return metric("vllm:num_requests_running{model_name=\"stub\"}") == 0 &&
               metric("vllm:num_requests_waiting{model_name=\"stub\"}") == 0;
      },
      "nothing runs");
  eventually([&] { return metric("trireme:http_connections{model_name=\"stub\"}") == 1; },
             "nobody is connected but who asks, without a clock that moves");
  const std::int64_t grown = anonymous_bytes() - before;
  EXPECT_EQ(sums.wrong, 0) << sums.first_wrong;
  EXPECT_EQ(sums.answered + sums.bad + sums.left, requests);
  EXPECT_GT(sums.left, requests / 20);
  const double submitted = metric("trireme:answers_submitted_total{model_name=\"stub\"}");
  const double stop = ended("stop"), length = ended("length"), abort = ended("abort");
  EXPECT_EQ(stop + length + abort + ended("error"), submitted);
  EXPECT_EQ(ended("error"), 0);
  EXPECT_LE(abort, sums.left);  // who left before it was read was never submitted
  EXPECT_GE(stop + length, sums.answered);
  EXPECT_LE(submitted, sums.answered + sums.left);
  EXPECT_GE(metric("vllm:generation_tokens_total{model_name=\"stub\"}"), sums.tokens);
  EXPECT_EQ(metric("vllm:e2e_request_latency_seconds_count{model_name=\"stub\"}"), stop + length);
  EXPECT_EQ(metric("vllm:kv_cache_usage_perc{model_name=\"stub\"}"), 0);
  EXPECT_LT(grown, 6 << 20);
  std::printf(
      "[ load     ] %d requests: %lld answered, %lld left, %lld refused; RssAnon %+lld KiB\n",
      requests, static_cast<long long>(sums.answered), static_cast<long long>(sums.left),
      static_cast<long long>(sums.bad), static_cast<long long>(grown >> 10));
}

// R29: heads that never end, streams that nobody reads, more than the queue takes: good requests
// are answered among them, and the counts add up.
TEST_F(LoadTest, StalledClientsHarmNobodyElse) {
  start({.http = {.connections = 300},
         .engine = {.sequences = 2, .queue = 4},
         .pages = 300,
         .context = 4096});
  load();
  std::vector<std::unique_ptr<Client>> heads, unread, good;
  for (int i = 0; i < 200; ++i) {
    heads.push_back(std::make_unique<Client>(port_));
    heads.back()->send("POST /v1/completions HTTP/1.1\r\nHo");
  }
  const auto number = [&](const std::string& name) {
    return metric(name + "{model_name=\"stub\"}");
  };
  for (int i = 1; i <= 50; ++i) {
    unread.push_back(std::make_unique<Client>(port_, 4096));
    unread.back()->send(post("/v1/completions", kUnread));
    eventually([&] { return number("vllm:num_requests_waiting") + ended("length") == i; },
               "it pauses");
  }
  const double paused = number("vllm:num_requests_waiting");
  EXPECT_GT(paused, 0);
  EXPECT_EQ(number("vllm:num_requests_running"), 0);
  EXPECT_EQ(number("vllm:kv_cache_usage_perc"), 0);
  close_gate();
  const int before = passes_seen_;
  for (int i = 0; i < 5; ++i) {  // the first one runs, four wait
    good.push_back(std::make_unique<Client>(port_));
    good.back()->send(post("/v1/completions", R"({"prompt": "a>", "temperature": 0})"));
    eventually(
        [&] {
          return number("trireme:answers_submitted_total") == 51 + i && passes_seen_ > before;
        },
        "it is taken");
  }
  for (int i = 0; i < 20; ++i) {
    const Answer over = complete(R"({"prompt": "a>"})");
    EXPECT_EQ(over.status, 429);
    EXPECT_NE(over.head.find("Retry-After: "), std::string::npos);
  }
  open_gate();
  const auto expect_right = [&](const Answer& a) {
    ASSERT_EQ(a.status, 200) << a.body;
    EXPECT_EQ(json(a).at("choices", "").array("")[0].at("text", "").text(""), "hello");
  };
  for (const auto& one : good) expect_right(one->answer().value_or(Answer{}));
  for (int i = 0; i < 3; ++i) expect_right(complete(R"({"prompt": "a>", "temperature": 0})"));
  clock_ = clock_ + 11;
  for (const auto& head : heads) EXPECT_EQ(head->answer().value_or(Answer{}).status, 408);
  EXPECT_EQ(number("trireme:http_refused_total"), 200);
  EXPECT_EQ(number("trireme:http_gone_total"), 0);
  clock_ = clock_ + 20;
  eventually([&] { return number("trireme:http_gone_total") == paused; }, "they are let go");
  eventually([&] { return ended("abort") == paused; }, "their answers have ended");
  EXPECT_EQ(ended("length"), 50 - paused);
  EXPECT_EQ(ended("stop"), 8);
  EXPECT_EQ(number("trireme:answers_submitted_total"), 58);
  EXPECT_EQ(number("vllm:kv_cache_usage_perc"), 0);
}

// Who was only slow has all of it in the end.
TEST_F(LoadTest, ASlowReaderGetsItsWholeAnswer) {
  start({.engine = {.sequences = 1}, .pages = 300, .context = 4096});
  load();
  Client slow(port_, 4096);
  slow.send(post("/v1/completions", kUnread));
  const auto waiting = [&] { return metric("vllm:num_requests_waiting{model_name=\"stub\"}"); };
  eventually([&] { return waiting() + ended("length") == 1; }, "it pauses");
  const Answer whole =
      complete(R"({"prompt": "Lxyz", "max_tokens": 4000, "temperature": 0, "echo": false})");
  const auto told = slow.answer();
  ASSERT_TRUE(told);
  std::string text;
  const std::vector<std::string> all = events(told->body);
  ASSERT_EQ(all.back(), "[DONE]");
  for (std::size_t i = 0; i + 1 < all.size(); ++i)
    text += parse_json(all[i], "event").at("choices", "").array("")[0].at("text", "").text("");
  EXPECT_EQ(text, json(whole).at("choices", "").array("")[0].at("text", "").text(""));
  EXPECT_EQ(text.size(), 4000u);
}

}  // namespace
}  // namespace trireme::test
