// R16, its half of serving: the k-th request for memory fails while a conversation is answered
// beside another request, for every k. One of the two may be refused with a sentence
// (503, or the event of an error where a stream has begun), or find its connection closed where
// there was no memory even for that; the other one is answered as ever, no page is lost, and the
// next request is answered.
#include "tests/faults_memory/allocations.h"
#include "tests/recipes/api/api_fixture.h"
#include "tests/support/fault_count.h"

namespace trireme::test {
namespace {

// A pass needs memory of its own, and survives that there is none; the stub itself is spared.
class FrailModel final : public ModelRunner {
 public:
  explicit FrailModel(ModelRunner& model) : model_(model) {}
  std::int64_t vocab() const override { return model_.vocab(); }
  std::int64_t pages() const override { return model_.pages(); }
  std::int64_t context() const override { return model_.context(); }
  void start(std::span<const InferenceRows> passes) override {
    try {
      const std::vector<std::int64_t> workspace(64);
    } catch (const std::bad_alloc&) {
      broken = planted_bug;
      throw;
    }
    const Spared spared;
    model_.start(passes);
  }
  std::span<PassAnswer> finish() override {
    const Spared spared;
    return model_.finish();
  }
  bool survives() const override { return true; }

  bool planted_bug = false;          // it is not what it was when memory has ended ...
  std::atomic<bool> broken = false;  // ... from now on

 private:
  ModelRunner& model_;
};

enum class End { kRight, kRefused, kClosed, kWrong };

class ChatMemory : public ::testing::Test {
 protected:
  ChatMemory() {
    engine_ = std::make_unique<ServeEngine>(frail_, tokenizer_, ServeOptions{.sequences = 4});
    server_ = std::make_unique<ApiServer>(
        HttpOptions{},
        ApiOptions{.seed = 1, .now = 1, .asked_to_end = [this] { return ends_.load(); }});
    port_ = server_->port();
    loop_ = std::thread([this] { server_->run(); });
    server_->serve(served_, *engine_);
    passes_ = std::thread([this] {
      engine_->run(server_->stop());
      server_->withdraw();
      server_->finish();
    });
  }
  ~ChatMemory() override {
    ends_ = true;
    passes_.join();
    loop_.join();
    EXPECT_EQ(engine_->stats().free_pages, engine_->stats().pages);
  }
  std::int32_t next(const Ids& text) const {
    const std::string said = frail_.broken ? "hullo" : "hello";
    const auto mark = std::find(text.rbegin(), text.rend(), '>');
    const auto at = static_cast<std::size_t>(mark - text.rbegin());
    return at < said.size() ? said[at] : 0;
  }

  // Nothing of a connection, or what it said.
  End end_of(Client& client, bool streams) {
    if (!client.until("\r\n\r\n")) return End::kClosed;
    const std::string all = client.rest();
    const bool error = all.find("\"code\": \"no_memory\"") != std::string::npos ||
                       all.find("out of memory") != std::string::npos;
    if (all.starts_with("HTTP/1.1 503 ")) return error ? End::kRefused : End::kWrong;
    if (!all.starts_with("HTTP/1.1 200 ")) return End::kWrong;
    if (!streams)
      return all.find(R"("content": "hello")") != std::string::npos ? End::kRight : End::kClosed;
    std::string text;
    for (const std::string& event : ApiTestEvents(all)) {
      if (event == "[DONE]") return text == "hello" ? End::kRight : End::kWrong;
      const Json json = parse_json(event, "event");
      if (json.find("error")) return error ? End::kRefused : End::kWrong;
      text += json.at("choices", "").array("")[0].at("text", "").text("");
    }
    return std::string("hello").starts_with(text) ? End::kClosed : End::kWrong;
  }
  static std::vector<std::string> ApiTestEvents(const std::string& body) {
    std::vector<std::string> all;
    for (std::size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
      const std::size_t end = body.find("\n\n", at);
      if (end == std::string::npos) break;
      all.push_back(body.substr(at + 6, end - at - 6));
      at = end;
    }
    return all;
  }

  // The conversation's end and its neighbour's.
  std::pair<End, End> talk(std::int64_t k, MemoryCount& count) {
    const Spared spared;
    const std::string close = "Connection: close\r\n";
    begin_failing({.at = k});
    Client chat(port_), other(port_);
    other.send(post("/v1/completions",
                    R"({"prompt": "abc>", "temperature": 0, "stream": true, "logprobs": 2})",
                    close));
    chat.send(post("/v1/chat/completions",
                   R"({"messages": [{"role": "user", "content": "hi"}], "temperature": 0, "n": 2})",
                   close));
    const End second = end_of(other, true), first = end_of(chat, false);
    count = end_failing();
    return {first, second};
  }

  // At most one was harmed, with a sentence, and the next ones are not.
  bool is_whole(End chat, End other) {
    const bool one = (chat == End::kRight || other == End::kRight) && chat != End::kWrong &&
                     other != End::kWrong;
    if (chat == End::kRight && other == End::kRight) return true;
    MemoryCount none;
    return one && talk(0, none) == std::make_pair(End::kRight, End::kRight);
  }

  ChatBytes tokenizer_;
  StubModel model_{256, 64, 512, [this](const Ids& text) { return next(text); }};
  FrailModel frail_{model_};
  ServedModel served_{.name = "stub",
                      .created = 1,
                      .tokenizer = tokenizer_,
                      .vocab = 256,
                      .context = 512,
                      .ends = {0},
                      .answer_ends = {0},
                      .chat = std::make_shared<ConversationEncoder>(tokenizer_, LossOn::kAll)};
  std::unique_ptr<ServeEngine> engine_;
  std::unique_ptr<ApiServer> server_;
  std::atomic<bool> ends_{false};
  std::thread loop_, passes_;
  int port_ = 0;
};

TEST_F(ChatMemory, EndsOneRequestWithASentence) {
  MemoryCount quiet;
  for (int i = 0; i < 3; ++i)  // what is made once is made
    EXPECT_EQ(talk(0, quiet), std::make_pair(End::kRight, End::kRight));
  ASSERT_GT(quiet.requests, 300);
  FaultCount count{.row = "R16", .what = "memory of a conversation that is served"};
  std::int64_t refused = 0, closed = 0;
  for (std::int64_t k = 1; k <= quiet.requests; ++k) {
    MemoryCount memory;
    const auto [chat, other] = talk(k, memory);
    ++count.runs;
    count.injected += memory.failed;
    for (const End end : {chat, other}) {
      refused += end == End::kRefused;
      closed += end == End::kClosed;
    }
    const bool whole = is_whole(chat, other);
    count.lost += !whole;
    EXPECT_TRUE(whole) << "request " << k << " of " << quiet.requests << ": "
                       << static_cast<int>(chat) << " " << static_cast<int>(other);
    if (count.lost > 3) break;
  }
  std::printf("[ memory   ] %lld requests for memory; %lld refused, %lld closed\n",
              static_cast<long long>(quiet.requests), static_cast<long long>(refused),
              static_cast<long long>(closed));
  EXPECT_GT(refused, 50);
  EXPECT_LT(closed, refused);
  tell(count);
}

// A model that is not what it was when its memory has ended is found.
TEST_F(ChatMemory, ThePlantedBugIsFound) {
  frail_.planted_bug = true;
  MemoryCount quiet;
  EXPECT_EQ(talk(0, quiet), std::make_pair(End::kRight, End::kRight));
  bool found = false;
  for (std::int64_t k = 1; k <= 2 * quiet.requests && !found; ++k) {
    MemoryCount memory;
    const auto [chat, other] = talk(k, memory);
    found = !is_whole(chat, other);
  }
  EXPECT_TRUE(found);
  EXPECT_TRUE(frail_.broken);
}

}  // namespace
}  // namespace trireme::test
