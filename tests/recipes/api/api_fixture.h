// A whole server on a stub of a model: sockets, both threads, the engine with its pages.
#pragma once

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "framework/base/json/json.h"
#include "recipes/api/api_server.h"
#include "tests/recipes/http/client.h"
#include "tests/recipes/serve/stub_model.h"

namespace trireme::test {

// Bytes with a chat template: "<role>content\n", and 0 as the end.
class ChatBytes final : public Tokenizer {
 public:
  ChatBytes() {
    settings_.eos = 0;
    converse(
        "{% for m in messages %}{% if m.role == 'system' and loop.index0 > 0 %}"
        "{{ raise_exception('the system speaks first') }}{% endif %}"
        "<{{ m.role }}>{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}");
  }
  // By another template, from the next start on.
  void converse(std::string by) { settings_.chat_templates = {{"default", std::move(by)}}; }
  std::string name() const override { return "chat-bytes"; }
  std::int64_t vocabulary() const override { return bytes_->vocabulary(); }
  std::unique_ptr<Encoder> encoder() const override { return bytes_->encoder(); }
  std::size_t cut_before(std::string_view text, std::size_t limit) const override {
    return bytes_->cut_before(text, limit);
  }
  std::string decode(const std::vector<std::int32_t>& ids, bool skip) const override {
    return bytes_->decode(ids, skip);
  }
  TokenPiece piece(std::int64_t id, bool first) const override { return bytes_->piece(id, first); }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    return bytes_->id_of(token);
  }
  std::string token_of(std::int64_t id) const override { return bytes_->token_of(id); }
  bool is_special(std::int64_t id) const override { return bytes_->is_special(id); }
  const TokenizerSettings& settings() const override { return settings_; }

 private:
  std::unique_ptr<Tokenizer> bytes_ = byte_tokenizer();
  TokenizerSettings settings_;
};

class ApiTest : public ::testing::Test {
 protected:
  struct Setup {
    ApiOptions api = {};
    HttpOptions http = {};
    ServeOptions engine = {};
    std::int64_t pages = 256, context = 1024;
    std::string name = "stub";
  };
  // The model's text: behind any prompt, byte by byte, then the end.
  void says(const std::string& text) {
    std::scoped_lock lock(gate_);
    said_ = text;
  }
  void start() { start(Setup{}); }
  void start(Setup setup) {
    setup.api.seed = 1;
    setup.api.now = 1700000000;
    const auto asked = [this] { return ending_.load(); };
    setup.api.asked_to_end = asked;
    setup.http.clock = [this] { return clock_.load(); };
    setup.engine.clock = setup.http.clock;
    model_ = std::make_unique<StubModel>(256, setup.pages, setup.context,
                                         [this](const Ids& text) { return next(text); });
    engine_ = std::make_unique<ServeEngine>(*model_, tokenizer_, setup.engine);
    served_ = std::make_unique<ServedModel>(
        ServedModel{.name = setup.name,
                    .created = 1700000000,
                    .tokenizer = tokenizer_,
                    .vocab = 256,
                    .context = setup.context,
                    .ends = {0},
                    .answer_ends = {0},
                    .chat = std::make_shared<ConversationEncoder>(tokenizer_, LossOn::kAll)});
    server_ = std::make_unique<ApiServer>(setup.http, setup.api);
    port_ = server_->port();
    loop_ = std::thread([this] { server_->run(); });
  }
  void load() {
    server_->serve(*served_, *engine_);
    passes_ = std::thread([this] {
      engine_->run(server_->stop());
      server_->withdraw();
      served_.reset();
      server_->finish();
    });
  }
  void TearDown() override {
    if (!server_) return;
    open_gate();
    ending_ = true;
    if (passes_.joinable())
      passes_.join();
    else if (loop_.joinable())
      server_->finish();
    if (loop_.joinable()) loop_.join();
    EXPECT_EQ(engine_->stats().free_pages, engine_->stats().pages);
    EXPECT_EQ(engine_->stats().running + engine_->stats().waiting, 0);
  }

  // The model waits before its next token while the gate is closed.
  void close_gate() {
    std::scoped_lock lock(gate_);
    closed_ = true;
  }
  void open_gate() {
    std::scoped_lock lock(gate_);
    closed_ = false;
    opened_.notify_all();
  }
  std::int32_t next(const Ids& text) {
    std::unique_lock lock(gate_);
    ++passes_seen_;
    opened_.wait(lock, [&] { return !closed_; });
    if (text[0] == 'N') return -1;                                                 // no numbers
    if (text[0] == 'L') return 'a' + static_cast<std::int32_t>(text.size() % 26);  // without end
    const auto mark = std::find(text.rbegin(), text.rend(), '>');
    const auto at = static_cast<std::size_t>(mark - text.rbegin());
    return at < said_.size() ? static_cast<unsigned char>(said_[at]) : 0;
  }

  Json json(const Answer& answer) { return parse_json(answer.body, "answer"); }
  Answer complete(const std::string& body) { return ask(port_, post("/v1/completions", body)); }
  Answer chat(const std::string& body) { return ask(port_, post("/v1/chat/completions", body)); }
  // The `data:` of each event of a stream, [DONE] included.
  static std::vector<std::string> events(const std::string& body) {
    std::vector<std::string> all;
    for (std::size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
      const std::size_t end = body.find("\n\n", at);
      all.push_back(body.substr(at + 6, end - at - 6));
      at = end;
    }
    return all;
  }
  double metric(const std::string& line) {
    const std::string all = ask(port_, get("/metrics", key_field_)).body;
    const std::size_t at = all.find("\n" + line + " ");
    EXPECT_NE(at, std::string::npos) << line << " is not in\n" << all;
    return at == std::string::npos ? -1 : std::atof(all.c_str() + at + line.size() + 2);
  }
  void eventually(const std::function<bool()>& holds, const char* what) {
    for (int i = 0; i < 6000 && !holds(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(holds()) << what;
  }

  ChatBytes tokenizer_;
  std::mutex gate_;
  std::condition_variable opened_;
  bool closed_ = false;
  std::string said_ = "hello";
  std::string key_field_;
  std::atomic<int> passes_seen_{0};
  std::atomic<double> clock_{1};
  std::atomic<bool> ending_{false};
  std::unique_ptr<StubModel> model_;
  std::unique_ptr<ServeEngine> engine_;
  std::unique_ptr<ServedModel> served_;
  std::unique_ptr<ApiServer> server_;
  std::thread loop_, passes_;
  int port_ = 0;
};

}  // namespace trireme::test
