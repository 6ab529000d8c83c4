// A chat on a stub of a model: what is said, what commands do, what does not fit, Ctrl-C.
#include <gtest/gtest.h>

#include <csignal>
#include <deque>
#include <sstream>

#include "framework/base/error.h"
#include "recipes/chat/chat_session.h"
#include "recipes/report/printable.h"
#include "tests/recipes/api/api_fixture.h"
#include "tests/support/faulty_files.h"

namespace trireme::test {
namespace {

class Script final : public LineInput {
 public:
  explicit Script(std::deque<InputRead> reads) : reads_(std::move(reads)) {}
  InputRead read(const std::string& prompt, const std::string& first) override {
    prompts.push_back(prompt);
    firsts.push_back(first);
    if (reads_.empty()) return {};
    InputRead next = std::move(reads_.front());
    reads_.pop_front();
    return next;
  }
  void remember(const std::string& message) override { remembered.push_back(message); }
  std::vector<std::string> prompts, firsts, remembered;

 private:
  std::deque<InputRead> reads_;
};

struct Talked {
  int code = 0;
  std::string out, notes;
  std::vector<std::string> said;  // lines of out
};

class ChatTest : public ::testing::Test {
 protected:
  // Printable bytes that depend on all of the text.
  static std::int32_t some(const Ids& text) { return 'a' + mixed(text, 26); }

  void make(std::int64_t context = 512, NextToken next = some) {
    model_ = std::make_unique<StubModel>(256, 64, context, std::move(next));
    engine_ = std::make_unique<ServeEngine>(*model_, tokenizer_, ServeOptions{});
    served_ = std::make_unique<ServedModel>(
        ServedModel{.name = "stub",
                    .tokenizer = tokenizer_,
                    .vocab = 256,
                    .context = context,
                    .ends = {0},
                    .answer_ends = {0},
                    .chat = std::make_shared<ConversationEncoder>(tokenizer_, LossOn::kAll)});
  }
  static InputRead line(const std::string& text) {
    return {.kind = InputRead::Kind::kLine, .text = text};
  }
  static InputRead interrupt() { return {.kind = InputRead::Kind::kInterrupt}; }
  Talked talk(const std::vector<std::string>& lines, ChatOptions options = {}) {
    std::deque<InputRead> reads;
    for (const std::string& text : lines) reads.push_back(line(text));
    return hear(std::move(reads), std::move(options));
  }
  Talked hear(std::deque<InputRead> reads, ChatOptions options = {}) {
    if (!model_) make();
    if (options.settings.tokens == 0) options.settings.tokens = 12;
    Script input(std::move(reads));
    std::ostringstream out, notes;
    ChatSession session({.engine = *engine_,
                         .model = *served_,
                         .input = input,
                         .interrupts = interrupts_,
                         .out = out,
                         .notes = notes,
                         .files = *files_,
                         .edit = edit_},
                        options);
    Talked t{.code = session.run()};
    t.out = out.str();
    t.notes = notes.str();
    std::istringstream whole(t.out);
    for (std::string one; std::getline(whole, one);) t.said.push_back(one);
    EXPECT_EQ(engine_->stats().running + engine_->stats().waiting, 0);
    firsts_ = input.firsts;
    return t;
  }
  // What the server would say to these messages.
  std::string server_says(const std::string& messages, std::int64_t seed = 1) {
    const auto encoder = tokenizer_.encoder();
    const Json body = parse_json("{\"messages\": " + messages +
                                     ", \"max_tokens\": 12, \"temperature\": 0.8, \"top_k\": 40, "
                                     "\"seed\": " +
                                     std::to_string(seed) + "}",
                                 "body");
    ApiRequest request = read_chat(body, *served_, {}, *encoder, 0);
    std::string text;
    bool last = false;
    engine_->submit(request.prompts[0], [&](GenerationEvent&& event) {
      text += event.text;
      last = event.last;
    });
    while (!last) engine_->step();
    return printable(text);
  }

  ChatBytes tokenizer_;
  Interrupts interrupts_;
  std::unique_ptr<Files> files_ = real_files();
  std::unique_ptr<StubModel> model_;
  std::unique_ptr<ServeEngine> engine_;
  std::unique_ptr<ServedModel> served_;
  std::function<std::optional<std::string>(const std::string&)> edit_;
  std::vector<std::string> firsts_;
};

TEST_F(ChatTest, SaysWhatTheServerSays) {
  const Talked t = talk({"Hi", "And?"}, {.system = "Brief."});
  EXPECT_EQ(t.code, 0);
  ASSERT_EQ(t.said.size(), 2u);
  EXPECT_EQ(t.said[0].size(), 12u);
  const std::string before =
      R"([{"role": "system", "content": "Brief."}, {"role": "user", "content": "Hi"})";
  EXPECT_EQ(t.said[0], server_says(before + "]"));
  EXPECT_EQ(t.said[1], server_says(before + R"(, {"role": "assistant", "content": ")" + t.said[0] +
                                   R"("}, {"role": "user", "content": "And?"}])"));
  EXPECT_NE(t.notes.find("reply 12 tok @ "), std::string::npos) << t.notes;
  EXPECT_NE(t.notes.find("/512, seed 1\n"), std::string::npos) << t.notes;
  EXPECT_NE(t.notes.find(" cached) @ "), std::string::npos) << t.notes;  // the second prompt
}

TEST_F(ChatTest, RetriesWithTheNextSeedOrTheSame) {
  const Talked t = talk({"Hi", "/retry", "/retry same", "/retry"});
  ASSERT_EQ(t.said.size(), 4u);
  const std::string hi = R"([{"role": "user", "content": "Hi"}])";
  EXPECT_EQ(t.said[0], server_says(hi, 1));
  EXPECT_EQ(t.said[1], server_says(hi, 2));
  EXPECT_EQ(t.said[2], t.said[1]);
  EXPECT_EQ(t.said[3], server_says(hi, 3));
  EXPECT_NE(t.said[0], t.said[1]);
}

TEST_F(ChatTest, UndoesEditsAndForgets) {
  const Talked t = talk({"Hi", "What?", "/undo", "What?", "/edit Who?", "/new", "Hi"});
  ASSERT_EQ(t.said.size(), 5u);
  EXPECT_EQ(t.said[1], t.said[2]);
  EXPECT_EQ(
      t.said[3],
      server_says(R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ")" +
                  t.said[0] + R"("}, {"role": "user", "content": "Who?"}])"));
  EXPECT_EQ(t.said[4], t.said[0]);
}

TEST_F(ChatTest, EditsInAnEditorOrInTheLine) {
  edit_ = [](const std::string& text) { return std::optional(text + " there"); };
  const Talked t = talk({"Hi", "/edit"});
  ASSERT_EQ(t.said.size(), 2u);
  EXPECT_EQ(t.said[1], server_says(R"([{"role": "user", "content": "Hi there"}])"));
  edit_ = [](const std::string&) { return std::optional<std::string>(); };
  EXPECT_NE(talk({"Hi", "/edit"}).notes.find("stays as it was"), std::string::npos);
  edit_ = {};
  const Talked typed = talk({"Hi", "/edit", "/you"}, {.live = true});
  EXPECT_EQ(firsts_[2], "Hi");
  ASSERT_EQ(typed.said.size(), 3u);  // the end is a line of its own
  EXPECT_EQ(typed.said[1], server_says(R"([{"role": "user", "content": "/you"}])"));
}

TEST_F(ChatTest, SavesAndLoads) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "chat.json";
  const Talked whole = talk({"Hi", "/set seed 5", "And?"});
  const Talked first = talk({"Hi", "/set seed 5", "/save " + path, "/save " + path});
  EXPECT_EQ(first.code, 0) << first.notes;
  const Talked second = talk({"/load " + path, "And?"});
  ASSERT_EQ(second.said.size(), 1u) << second.notes;
  EXPECT_EQ(second.said[0], whole.said[1]);
  const Talked other =
      talk({"/save " + path, "/load " + folder.path() + "/none", "/load", "/save"});
  EXPECT_EQ(other.code, 1);
  for (const char* part :
       {"is there already", "there is no file", "/load: a file", "/save: a file"})
    EXPECT_NE(other.notes.find(part), std::string::npos) << part << other.notes;
}

TEST_F(ChatTest, ReadsAFileBeforeTheMessage) {
  const testing::TemporaryFolder folder;
  write_whole_atomically(*files_, folder / "a.txt", "abc");
  write_whole_atomically(*files_, folder / "b.bin", "\xff\xfe");
  const Talked t = talk({"/read " + (folder / "a.txt"), "Hi"});
  ASSERT_EQ(t.said.size(), 1u);
  EXPECT_EQ(t.said[0], server_says(R"([{"role": "user", "content": "abc\nHi"}])"));
  const Talked bad = talk({"/read " + (folder / "b.bin"), "/read nowhere"});
  EXPECT_NE(bad.notes.find("no text in UTF-8"), std::string::npos) << bad.notes;
  EXPECT_NE(bad.notes.find("there is no file nowhere"), std::string::npos) << bad.notes;
}

TEST_F(ChatTest, TellsAndRefusesCommands) {
  EXPECT_NE(talk({"/?"}).notes.find("/retry [same]"), std::string::npos);
  const Talked t =
      talk({"/help", "/save /nowhere/a.json", "/set top_p 0.5", "/set top_p 2", "/set",
            "/set tpo_k 3", "/show", "/tokens ab", "/sytem x", "/undo", "/retry", "/retry now",
            "/system", "/system Hm", "\"\"\"/quit\"\"\"", "/quit", "never"});
  EXPECT_EQ(t.code, 1);  // something was refused
  ASSERT_EQ(t.said.size(), 1u);
  for (const char* part :
       {"/retry [same]", "/save: there is no folder /nowhere", "top_p = 0.5", "top_p = 2: expected",
        "/set temperature 0.7", "nearest: top_k", "seed = 1", "context = 0/512",
        "2 tokens: 97 \"a\" 98 \"b\"", "there is no command /sytem; nearest: /system",
        "/undo: nothing was said", "/retry: nothing was said", "expected nothing or same",
        "no system message"})
    EXPECT_NE(t.notes.find(part), std::string::npos) << part << " is not in\n" << t.notes;
}

TEST_F(ChatTest, AFullContextIsSaid) {
  make(64);
  const Talked full = talk({"Hello there", "Hello again", "/undo", "Hi"});
  EXPECT_EQ(full.code, 1);
  EXPECT_NE(full.notes.find("[context full: "), std::string::npos) << full.notes;
  EXPECT_NE(full.notes.find("--overflow=slide"), std::string::npos) << full.notes;
  const Talked cut = talk({"Hello there"}, {.settings = {.tokens = 60}});
  ASSERT_EQ(cut.said.size(), 1u);
  EXPECT_NE(cut.notes.find("[context full: 64 of 64 tokens; the answer is cut off"),
            std::string::npos)
      << cut.notes;
  const Talked slid = talk({"Hello there", "Hello again", "And again"}, {.slides = true});
  EXPECT_EQ(slid.code, 0) << slid.notes;
  ASSERT_EQ(slid.said.size(), 3u);
  EXPECT_NE(slid.notes.find("the oldest 1 exchange is forgotten]"), std::string::npos)
      << slid.notes;
  EXPECT_EQ(slid.said[2].size(), 12u);
}

// What was said before a message that cannot be answered is still there.
TEST_F(ChatTest, AMessageThatIsNotTakenLosesNothing) {
  make(64);
  const testing::TemporaryFolder folder;
  const std::string path = folder / "long.txt", longer(80, 'x');
  write_whole_atomically(*files_, path, longer);
  const Talked t = talk(
      {"Hi", "/edit " + longer, "/retry same", "/read " + path, "And?", "/retry same", "/show"});
  EXPECT_EQ(t.code, 1);
  ASSERT_EQ(t.said.size(), 3u) << t.notes;
  EXPECT_EQ(t.said[1], t.said[0]);
  EXPECT_EQ(t.said[2], t.said[0]);
  EXPECT_NE(t.notes.find("what /read read went with the message"), std::string::npos) << t.notes;
  EXPECT_NE(t.notes.find("messages = 1\n"), std::string::npos) << t.notes;
  // Nor what the template refuses, with a word of what helps.
  tokenizer_.converse(
      "{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}"
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
  make();
  const Talked refused =
      talk({"Hi", "/system Brief.", "And?", "/retry", "/system", "/retry same", "/show"});
  ASSERT_EQ(refused.said.size(), 2u) << refused.notes;
  EXPECT_EQ(refused.said[1], refused.said[0]);
  EXPECT_NE(refused.notes.find("no system here; /system alone takes"), std::string::npos)
      << refused.notes;
  EXPECT_NE(refused.notes.find("seed = 1\n"), std::string::npos) << refused.notes;
  // Nor what the model fails at.
  make(512, [](const Ids& text) {
    return std::find(text.begin(), text.end(), 'N') == text.end() ? some(text) : -1;
  });
  const Talked failed = talk({"Hi", "/edit No numbers", "/retry same", "No", "/retry same"});
  ASSERT_EQ(failed.said.size(), 5u) << failed.notes;
  EXPECT_EQ(failed.said[2], failed.said[0]);
  EXPECT_EQ(failed.said[4], failed.said[0]);
}

TEST_F(ChatTest, ABaseModelContinuesText) {
  make(64);
  served_->chat = nullptr;
  const Talked t = talk({"once ", "upon", "/system x"}, {.settings = {.tokens = 5}});
  EXPECT_NE(t.notes.find("base model, continuing text"), std::string::npos);
  EXPECT_NE(t.notes.find("it has no system message"), std::string::npos);
  ASSERT_EQ(t.said.size(), 2u);
  const Talked more = talk({"once " + t.said[0] + "upon"}, {.settings = {.tokens = 5}});
  EXPECT_EQ(more.said[0], t.said[1]);
  ChatOptions endless{.settings = {.tokens = 150}, .slides = true};
  endless.settings.sampling.temperature = 0;
  const Talked slid = talk({"once "}, endless);
  EXPECT_EQ(slid.said[0].size(), 150u);
  EXPECT_NE(slid.notes.find("are forgotten]"), std::string::npos) << slid.notes;
}

TEST_F(ChatTest, CtrlCKeepsWhatWasSaid) {
  int tokens = 0;
  make(512, [&](const Ids& text) {
    if (++tokens == 4) {
      ::kill(::getpid(), SIGINT);
      while (!interrupts_.pending()) std::this_thread::yield();
    }
    return some(text);
  });
  interrupts_.begin({});
  const Talked t = hear({line("Hi"), line("/show"), line("And?")}, {.live = true});
  EXPECT_EQ(t.code, 0);
  ASSERT_GE(t.said.size(), 2u);
  EXPECT_EQ(t.said[0].size(), 4u);
  EXPECT_NE(t.notes.find("[stopped]"), std::string::npos);
  EXPECT_EQ(
      t.said[1],
      server_says(R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ")" +
                  t.said[0] + R"("}, {"role": "user", "content": "And?"}])"));
}

TEST_F(ChatTest, CtrlCTwiceEnds) {
  EXPECT_EQ(hear({interrupt(), interrupt(), line("Hi")}, {.live = true}).code, 130);
  const Talked t = hear({interrupt(), line("Hi"), interrupt(), line("Hi")}, {.live = true});
  EXPECT_EQ(t.code, 0);
  EXPECT_NE(t.notes.find("Ctrl-C once more"), std::string::npos);
  EXPECT_EQ(hear({interrupt(), line("Hi")}).code, 130);  // a pipe has no second
}

TEST_F(ChatTest, NumbersThatAreNoneAreTold) {
  make(512, [](const Ids&) { return -1; });
  const Talked t = talk({"Hi"});
  EXPECT_EQ(t.code, 1);
  EXPECT_NE(t.notes.find("not finite"), std::string::npos) << t.notes;
}

}  // namespace
}  // namespace trireme::test
