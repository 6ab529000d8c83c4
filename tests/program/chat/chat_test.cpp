// trireme chat on a terminal and in a pipe: what is shown, what is kept, and that the terminal is
// as it was, however the chat ends.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "tests/program/finetune/chat_folder.h"
#include "tests/program/harness/terminal_program.h"

namespace trireme::testing {
namespace {

class Chat : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ChatFolder;
    run_ = new TinyRun;
    const ProgramEnd end =
        run_to_end(run_->train({"--train.steps=2", "--train.checkpoint_every=2"}));
    ASSERT_EQ(end.code, 0) << end.err;
  }
  static void TearDownTestSuite() {
    delete folder_;
    delete run_;
    folder_ = nullptr;
    run_ = nullptr;
  }
  // A model with a template, a few tokens an answer.
  static Words model(const Words& more = {}) {
    return Words{program(),
                 "chat",
                 folder_->base(),
                 "--precision.compute=f32",
                 "--parallel.threads=1",
                 "--tokens=6"} +
           more;
  }
  // A base model that never ends by itself.
  static Words endless(const Words& more = {}) {
    return Words{program(),     "chat", run_->folder(), "--overflow=slide", "--tokens=1000000000",
                 "--no-history"} +
           more;
  }
  std::map<std::string, std::string> environment() const {
    return {
        {"XDG_STATE_HOME", state_ / "state"}, {"TERM", "xterm"}, {"EDITOR", ""}, {"VISUAL", ""}};
  }
  std::string history() const { return state_ / "state/trireme/chat_history"; }
  static int count(const std::string& text, const std::string& part) {
    int n = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
      ++n;
    return n;
  }

  const TemporaryFolder state_;
  static inline ChatFolder* folder_ = nullptr;
  static inline TinyRun* run_ = nullptr;
};

TEST_F(Chat, OnATerminal) {
  TerminalProgram chat(model(), environment());
  ASSERT_TRUE(chat.until("/help tells the commands")) << chat.shown();
  ASSERT_TRUE(chat.until("> "));
  chat.type("How many oars?\r");
  ASSERT_TRUE(chat.until("reply ")) << chat.shown();
  ASSERT_TRUE(chat.until("/64, seed 1"));
  ASSERT_TRUE(chat.until("> "));
  chat.type("/sytem x\r");
  ASSERT_TRUE(chat.until("nearest: /system")) << chat.shown();
  ASSERT_TRUE(chat.until("> "));
  chat.type("/set tokens 3\r");
  ASSERT_TRUE(chat.until("tokens = 3"));
  chat.type("/new\r");
  ASSERT_TRUE(chat.until("begins anew"));
  ASSERT_TRUE(chat.until("> "));
  // Three lines of a paste, and one of them a command, are one message.
  const int before = count(chat.shown(), "reply ");
  chat.type("\033[200~one\r/quit\rtwo\033[201~");
  ASSERT_TRUE(chat.until("two"));
  chat.type("\r");
  ASSERT_TRUE(chat.until("reply 3 tok")) << chat.shown();
  EXPECT_EQ(count(chat.shown(), "reply "), before + 1);
  ASSERT_TRUE(chat.until("> "));
  chat.type("/new\r");
  ASSERT_TRUE(chat.until("begins anew"));
  ASSERT_TRUE(chat.until("> "));
  chat.type("a\\\r");
  ASSERT_TRUE(chat.until("... "));
  chat.type("b\r");
  ASSERT_TRUE(chat.until("reply 3 tok")) << chat.shown();
  ASSERT_TRUE(chat.until("> "));
  EXPECT_TRUE(chat.takes_the_terminal());  // the editor reads: it can tell
  chat.type("/quit\r");
  EXPECT_EQ(chat.end(), 0) << chat.shown();
  EXPECT_TRUE(chat.modes_are_as_before());
  EXPECT_NE(chat.shown().find("\033[?2004l"), std::string::npos);
  struct stat status {};
  ASSERT_EQ(::stat(history().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_NE(text_of_file(history()).find("\"one\\n/quit\\ntwo\"\n"), std::string::npos)
      << text_of_file(history());
}

TEST_F(Chat, HistoryComesBackUnlessItIsNotWanted) {
  {
    TerminalProgram chat(model(), environment());
    ASSERT_TRUE(chat.until("> "));
    chat.type("/tokens oars\r");
    ASSERT_TRUE(chat.until(" token"));
    ASSERT_TRUE(chat.until("> "));
    chat.type("\004");  // Ctrl-D
    EXPECT_EQ(chat.end(), 0) << chat.shown();
    EXPECT_TRUE(chat.modes_are_as_before());
  }
  TerminalProgram chat(model(), environment());
  ASSERT_TRUE(chat.until("> "));
  chat.type("\033[A\r");  // the arrow up
  ASSERT_TRUE(chat.until(" token")) << chat.shown();
  ASSERT_TRUE(chat.until("> "));
  ASSERT_TRUE(chat.takes_the_terminal());
  chat.type("/quit\r");
  EXPECT_EQ(chat.end(), 0);
  std::filesystem::remove(history());
  TerminalProgram silent(model({"--no-history"}), environment());
  ASSERT_TRUE(silent.until("> "));
  silent.type("/show\r");
  ASSERT_TRUE(silent.until("context = 0/64"));
  silent.type("/quit\r");
  EXPECT_EQ(silent.end(), 0);
  EXPECT_FALSE(std::filesystem::exists(history()));
}

TEST_F(Chat, CtrlCStopsAnAnswerAndThenEnds) {
  TerminalProgram chat(endless(), environment());
  ASSERT_TRUE(chat.until("base model, continuing text")) << chat.shown();
  ASSERT_TRUE(chat.until("> "));
  chat.type("the oars\r");
  ASSERT_TRUE(chat.until("are forgotten]")) << chat.shown();  // it has said more than its context
  chat.type("\003");
  ASSERT_TRUE(chat.until("[stopped]")) << chat.shown();
  ASSERT_TRUE(chat.until("> "));
  chat.type("/set tokens 4\r");
  ASSERT_TRUE(chat.until("tokens = 4"));
  chat.type("and\r");
  ASSERT_TRUE(chat.until("reply 4 tok"));
  ASSERT_TRUE(chat.until("> "));
  chat.type("typed");  // read before the signal, which empties the terminal's queue
  ASSERT_TRUE(chat.until("typed"));
  chat.type("\003");
  ASSERT_TRUE(chat.until("Ctrl-C once more"));
  ASSERT_TRUE(chat.until("> "));
  chat.type("\003");
  EXPECT_EQ(chat.end(), 130) << chat.shown();
  EXPECT_TRUE(chat.modes_are_as_before());
}

TEST_F(Chat, SignalsLeaveTheTerminalAsItWas) {
  for (const int number : {SIGTERM, SIGHUP, SIGQUIT}) {
    TerminalProgram waiting(endless(), environment());
    ASSERT_TRUE(waiting.until("> "));
    ASSERT_TRUE(waiting.takes_the_terminal());
    waiting.type("half a mess");
    ASSERT_TRUE(waiting.until("mess"));
    waiting.signal(number);
    EXPECT_EQ(waiting.end(), 128 + number) << waiting.shown();
    EXPECT_TRUE(waiting.modes_are_as_before());
  }
  TerminalProgram talking(endless({"--parallel.tensor=2"}), environment());
  ASSERT_TRUE(talking.until("> "));
  talking.type("the oars\r");
  ASSERT_TRUE(talking.until("are forgotten]"));
  talking.signal(SIGTERM);
  EXPECT_EQ(talking.end(), 128 + SIGTERM);
  EXPECT_TRUE(talking.modes_are_as_before());
}

TEST_F(Chat, CtrlZLeavesTheTerminalAndComesBack) {
  TerminalProgram chat(model(), environment());
  ASSERT_TRUE(chat.until("> "));
  chat.type("/tokens oars");
  ASSERT_TRUE(chat.until("oars"));
  chat.signal(SIGTSTP);
  ASSERT_TRUE(chat.stopped());
  EXPECT_TRUE(chat.modes_are_as_before());
  chat.signal(SIGCONT);
  ASSERT_TRUE(chat.until("oars")) << chat.shown();  // what was typed is shown again
  EXPECT_TRUE(chat.takes_the_terminal());
  chat.type("\r");
  ASSERT_TRUE(chat.until(" token")) << chat.shown();
  chat.type("/quit\r");
  EXPECT_EQ(chat.end(), 0);
  EXPECT_TRUE(chat.modes_are_as_before());
}

// Keys that come before anybody asks for them, from the program's first moment on.
TEST_F(Chat, NothingThatIsTypedAheadIsLost) {
  {
    TerminalProgram early(model(), environment());
    early.type("/tokens oars\r/set tokens 3\r\004");
    EXPECT_EQ(early.end(), 0) << early.shown();
    EXPECT_NE(early.shown().find(" token"), std::string::npos) << early.shown();
    EXPECT_NE(early.shown().find("tokens = 3"), std::string::npos) << early.shown();
    EXPECT_TRUE(early.modes_are_as_before());
  }
  TerminalProgram chat(endless(), environment());
  ASSERT_TRUE(chat.until("> "));
  chat.type("the oars\r");
  ASSERT_TRUE(chat.until("are forgotten]")) << chat.shown();
  const std::size_t answer = chat.shown().size();
  chat.type("/set tokens 4\r\033[200~one\r/quit\rtwo\033[201~\r/show\r\004");
  chat.signal(SIGINT);  // of the keyboard it would throw away what is typed ahead
  ASSERT_TRUE(chat.until("[stopped]")) << chat.shown();
  const std::string said = chat.shown().substr(answer, chat.shown().find("[stopped]") - answer);
  EXPECT_EQ(said.find("/set tokens"), std::string::npos) << "shown in the middle of the answer";
  ASSERT_TRUE(chat.until("tokens = 4")) << chat.shown();
  ASSERT_TRUE(chat.until("reply 4 tok")) << chat.shown();
  ASSERT_TRUE(chat.until("context = ")) << chat.shown();
  EXPECT_EQ(chat.end(), 0) << chat.shown();
  EXPECT_TRUE(chat.modes_are_as_before());
}

TEST_F(Chat, WhatIsBehindTheEndIsTheNextPrograms) {
  TerminalProgram chat(model(), environment());
  ASSERT_TRUE(chat.until("> "));
  chat.type("/quit\rls -l\r");
  EXPECT_EQ(chat.end(), 0) << chat.shown();
  EXPECT_EQ(chat.left(), "ls -l\n");
}

TEST_F(Chat, AStopInAnAnswerGivesTheTerminalBackMeanwhile) {
  TerminalProgram chat(endless(), environment());
  ASSERT_TRUE(chat.until("> "));
  chat.type("the oars\r");
  ASSERT_TRUE(chat.until("are forgotten]")) << chat.shown();
  EXPECT_FALSE(chat.modes_are_as_before());
  chat.signal(SIGTSTP);
  ASSERT_TRUE(chat.stopped());
  EXPECT_TRUE(chat.modes_are_as_before());
  chat.signal(SIGCONT);
  ASSERT_TRUE(chat.takes_the_terminal());
  ASSERT_TRUE(chat.until("are forgotten]")) << chat.shown();  // it goes on
  chat.type("\003");
  ASSERT_TRUE(chat.until("[stopped]")) << chat.shown();
  chat.type("\004");
  EXPECT_EQ(chat.end(), 0) << chat.shown();
  EXPECT_TRUE(chat.modes_are_as_before());
}

// Its keys are its own: those that were typed ahead, and Ctrl-C, however often.
TEST_F(Chat, TheEditorHasTheTerminal) {
  const std::string script = state_ / "editor.sh";
  write_file(script,
             "trap '' INT QUIT\n"
             "stty -a > $1.modes\n"
             "read first\necho asks; read second\nprintf '%s' \"$first $second\" > $1\n"
             "grep -q ' icanon' $1.modes && grep -q ' echo ' $1.modes && rm $1.modes\n");
  auto with_editor = environment();
  with_editor["EDITOR"] = "sh " + script;
  TerminalProgram chat(model(), with_editor);
  ASSERT_TRUE(chat.until("> "));
  chat.type("How many oars?\r");
  ASSERT_TRUE(chat.until("seed 1"));
  chat.type("/edit\rHow many\r");
  ASSERT_TRUE(chat.until("asks")) << chat.shown();
  for (int i = 0; i < 3; ++i) chat.signal_all(SIGINT);
  chat.signal_all(SIGQUIT);
  chat.type("ships?\r");
  ASSERT_TRUE(chat.until("seed 1")) << chat.shown();
  const std::string saved = state_ / "saved.json";
  chat.type("/save " + saved + "\r\004");
  EXPECT_EQ(chat.end(), 0) << chat.shown();
  EXPECT_EQ(nlohmann::json::parse(text_of_file(saved))["messages"][0]["content"],
            "How many ships?");
}

TEST_F(Chat, TabCompletes) {
  write_file(state_ / "a file.txt", "oars");
  TerminalProgram chat(model(), environment());
  chat.type("/rea\t" + (state_ / "a f") + "\t\r");
  ASSERT_TRUE(chat.until("stand before the next message")) << chat.shown();
  chat.type("/re\t");
  ASSERT_TRUE(chat.until("read  retry")) << chat.shown();
  chat.type("\025/set tok\t3\r");
  ASSERT_TRUE(chat.until("tokens = 3")) << chat.shown();
  chat.type("\004");
  EXPECT_EQ(chat.end(), 0) << chat.shown();
}

TEST_F(Chat, EditsInTheUsersEditor) {
  auto with_editor = environment();
  with_editor["EDITOR"] = "sed -i s/oars/ships/";
  TerminalProgram chat(model(), with_editor);
  ASSERT_TRUE(chat.until("> "));
  chat.type("How many oars?\r");
  ASSERT_TRUE(chat.until("seed 1"));
  ASSERT_TRUE(chat.until("> "));
  chat.type("/edit\r");
  ASSERT_TRUE(chat.until("seed 1")) << chat.shown();
  ASSERT_TRUE(chat.until("> "));
  const std::string saved = state_ / "saved.json";
  chat.type("/save " + saved + "\r");
  ASSERT_TRUE(chat.until("written to"));
  chat.type("/quit\r");
  EXPECT_EQ(chat.end(), 0);
  EXPECT_EQ(nlohmann::json::parse(text_of_file(saved))["messages"][0]["content"],
            "How many ships?");
}

TEST_F(Chat, InAPipeOnlyTextIsOnStandardOutput) {
  const std::string input = state_ / "messages";
  write_file(input,
             "How many oars?\n/new\n\"\"\"\nWho\nrows?\n\"\"\"\n/new\n/set tokens 2\nAnd then?\n");
  const Words greedy = model({"--temperature=0"});
  const ProgramEnd end = run_to_end(greedy, {.input = input});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(count(end.err, "reply "), 3) << end.err;
  EXPECT_EQ(end.out.find("> "), std::string::npos);
  EXPECT_EQ(end.out.find('\033'), std::string::npos);
  const std::string first =
      run_to_end(Words{program(), "generate", folder_->base(), "--chat", "--prompt",
                       "How many oars?", "--tokens=6", "--temperature=0", "--precision.compute=f32",
                       "--parallel.threads=1"})
          .out;
  EXPECT_EQ(end.out.rfind(first, 0), 0u) << end.out << first;
  for (const Words& layout : {Words{"--parallel.tensor=2"}, Words{"--parallel.pipeline=2"},
                              Words{"--parallel.data=2", "--zero.stage=3"}}) {
    const ProgramEnd other = run_to_end(greedy + layout, {.input = input});
    EXPECT_EQ(other.code, 0) << other.err;
    EXPECT_EQ(other.out, end.out) << layout[0];
  }
  write_file(input, "/nonsense\nHi\n");
  const ProgramEnd bad = run_to_end(greedy, {.input = input});
  EXPECT_EQ(bad.code, 1);
  EXPECT_NE(bad.err.find("there is no command /nonsense"), std::string::npos) << bad.err;
}

TEST_F(Chat, RefusesWhatItShould) {
  const std::pair<Words, std::string> cases[] = {
      {{folder_->base(), "--overflow=never"}, "--overflow = never: expected error or slide"},
      {{folder_->base(), "--temperature=x"}, "--temperature = x"},
      {{folder_->base(), "--max-model-len=100000"}, "--max-model-len = 100000"},
      {{folder_->base(), "--max-model-len=0"}, "--max-model-len = 0"},
      {{folder_->base(), "--kv-cache=0"}, "--kv-cache = 0"},
      {{folder_->base(), "--json"}, "no table for --json"},
      {{run_->folder(), "--system=x"}, "--system: this is a base model"},
      {{}, "chat: needs the folder"}};
  for (const auto& [words, sentence] : cases) {
    const ProgramEnd end = run_to_end(Words{program(), "chat"} + words);
    EXPECT_EQ(end.code, 2) << sentence << "\n" << end.err;
    EXPECT_NE(end.err.find(sentence), std::string::npos) << end.err;
  }
  EXPECT_EQ(run_to_end({program(), "chat", "/nowhere"}).code, 1);
}

}  // namespace
}  // namespace trireme::testing
