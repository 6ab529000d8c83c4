// The parts of a chat that are values: lines to messages, commands, settings, the log, the history.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "framework/base/error.h"
#include "recipes/chat/answer_run.h"
#include "recipes/chat/answer_settings.h"
#include "recipes/chat/chat_commands.h"
#include "recipes/chat/chat_history.h"
#include "recipes/chat/chat_log.h"
#include "recipes/chat/completion.h"
#include "recipes/chat/message_reader.h"
#include "tests/support/faulty_files.h"

namespace trireme::test {
namespace {

std::vector<std::string> messages_of(const std::vector<std::string>& lines) {
  MessageReader reader;
  std::vector<std::string> all;
  const auto put = [&](const std::optional<ChatMessage>& message) {
    if (message) all.push_back((message->verbatim ? "v:" : "") + message->text);
  };
  for (const std::string& line : lines) put(reader.line(line));
  put(reader.end());
  EXPECT_FALSE(reader.open());
  return all;
}

TEST(MessageReader, LinesAreMessages) {
  using All = std::vector<std::string>;
  EXPECT_EQ(messages_of({"a", "", "b c\r"}), (All{"a", "", "b c"}));
  EXPECT_EQ(messages_of({"a\\", "b\\", "c", "d"}), (All{"a\nb\nc", "d"}));
  EXPECT_EQ(messages_of({"a\\"}), (All{"a\n"}));
  EXPECT_EQ(messages_of({"\"\"\"", "/quit", "x\\", "\"\"\""}), (All{"v:/quit\nx\\"}));
  EXPECT_EQ(messages_of({"\"\"\"one line\"\"\"", "b"}), (All{"v:one line", "b"}));
  EXPECT_EQ(messages_of({"\"\"\"first", "last\"\"\""}), (All{"v:first\nlast"}));
  EXPECT_EQ(messages_of({"\"\"\"open", "still"}), (All{"v:open\nstill"}));
  EXPECT_EQ(messages_of({"pasted\nin one piece"}), (All{"pasted\nin one piece"}));
}

TEST(ChatCommands, AreWordsBehindASlash) {
  ASSERT_TRUE(chat_words("/set top_k 3"));
  EXPECT_EQ(chat_words("/set  top_k 3 ")->name, "set");
  EXPECT_EQ(chat_words("/set  top_k 3 ")->rest, "top_k 3");
  EXPECT_EQ(chat_words("/new")->rest, "");
  for (const char* none : {"", "/", "//", "/ new", "/1", " /new", "new"})
    EXPECT_FALSE(chat_words(none)) << none;
  EXPECT_EQ(unknown_command("sytem"), "there is no command /sytem; nearest: /system");
  EXPECT_EQ(unknown_command("qiut"), "there is no command /qiut; nearest: /quit");
  EXPECT_NE(unknown_command("zzzzzzzz").find("/help"), std::string::npos);
  for (const ChatCommand& c : chat_commands())
    EXPECT_NE(chat_help().find("/" + std::string(c.name)), std::string::npos) << c.name;
}

TEST(AnswerSettings, AreReadOrRefusedByName) {
  AnswerSettings s;
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"temperature", "0.5"},
                                                        {"top_k", "7"},
                                                        {"top_p", "0.9"},
                                                        {"min_p", "0.05"},
                                                        {"repetition_penalty", "1.1"},
                                                        {"presence_penalty", "-2"},
                                                        {"frequency_penalty", "2"},
                                                        {"seed", "9"},
                                                        {"tokens", "12"}}) {
    EXPECT_EQ(set_answer(s, name, value), "") << name;
    EXPECT_EQ(setting_text(s, name), value);
  }
  EXPECT_EQ(set_answer(s, "stop", "a\"b"), "");
  EXPECT_EQ(set_answer(s, "stop", "c"), "");
  EXPECT_EQ(setting_text(s, "stop"), "\"a\\\"b\", \"c\"");
  EXPECT_EQ(set_answer(s, "stop", ""), "");
  EXPECT_EQ(setting_text(s, "stop"), "none");
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"temperature", "-1"},
                                                        {"temperature", "x"},
                                                        {"temperature", "1001"},
                                                        {"top_k", "-1"},
                                                        {"top_k", "1.5"},
                                                        {"top_p", "0"},
                                                        {"top_p", "1.01"},
                                                        {"min_p", "2"},
                                                        {"repetition_penalty", "0"},
                                                        {"presence_penalty", "2.1"},
                                                        {"frequency_penalty", "-3"},
                                                        {"seed", "-1"},
                                                        {"tokens", "0"}}) {
    const AnswerSettings before = s;
    EXPECT_EQ(set_answer(s, name, value).find(name + " = " + value + ": expected "), 0u) << name;
    EXPECT_EQ(setting_text(s, name), setting_text(before, name));
  }
  EXPECT_EQ(set_answer(s, "temprature", "1"),
            "there is no setting \"temprature\"; nearest: temperature");
}

TEST(LastTokens, LeaveRoomBehind) {
  using Ids = std::vector<std::int32_t>;
  const Ids ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  EXPECT_EQ(last_tokens(ids, 8, 100), (Ids{6, 7, 8, 9}));  // half of the context
  EXPECT_EQ(last_tokens(ids, 8, 2), (Ids{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(last_tokens(ids, 8, 100, 1), (Ids{0, 7, 8, 9}));
  EXPECT_EQ(last_tokens(ids, 12, 2), ids);
  EXPECT_EQ(last_tokens(ids, 1, 5), (Ids{9}));
}

TEST(ChatLog, IsItsOwnInverse) {
  ChatLog log;
  log.system = "Be brief.";
  log.ask("a");
  log.answer("b");
  log.ask("c");
  EXPECT_EQ(
      to_text(log.messages()),
      "[{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", \"content\": "
      "\"a\"}, {\"role\": \"assistant\", \"content\": \"b\"}, {\"role\": \"user\", "
      "\"content\": \"c\"}]");
  EXPECT_EQ(log.text(), "abc");
  ChatLog other;
  other.take(log.messages(), "f");
  EXPECT_EQ(other.messages(), log.messages());
  for (const char* bad :
       {"[{\"role\": \"assistant\", \"content\": \"x\"}]",
        "[{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"user\", \"content\": \"x\"}]",
        "[{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"system\", \"content\": \"x\"}]",
        "[{\"role\": \"user\", \"content\": 3}]", "[{\"role\": \"user\"}]", "{}"})
    EXPECT_THROW(other.take(parse_json(bad, "bad"), "f"), Error) << bad;
  EXPECT_EQ(other.messages(), log.messages());
}

TEST(ChatHistory, IsItsOwnersOnlyAndKeepsTheNewest) {
  const testing::TemporaryFolder folder;
  const auto files = real_files();
  const std::string path = folder / "deep/trireme/chat_history";
  {
    ChatHistory history(*files, path);
    EXPECT_TRUE(history.earlier().empty());
    history.add("one");
    history.add("two\nlines \"quoted\"");
  }
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(ChatHistory(*files, path).earlier(),
            (std::vector<std::string>{"one", "two\nlines \"quoted\""}));
  {
    ChatHistory history(*files, path);
    for (std::size_t i = 0; i < 2 * ChatHistory::kKept + 5; ++i) history.add(std::to_string(i));
  }
  const ChatHistory history(*files, path);
  EXPECT_EQ(history.earlier().size(), ChatHistory::kKept);
  EXPECT_EQ(history.earlier().back(), std::to_string(2 * ChatHistory::kKept + 4));
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  const std::string text = read_whole(*files, path);
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')),
            ChatHistory::kKept);
}

TEST(ChatHistory, PassesOverWhatIsNone) {
  const testing::TemporaryFolder folder;
  const auto files = real_files();
  const std::string path = folder / "h";
  write_whole_atomically(*files, path, "\"a\"\nnot json\n3\n\"b\"\n\"cut");
  EXPECT_EQ(ChatHistory(*files, path).earlier(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(ChatHistory(*files, "").earlier().empty());
}

TEST(Completion, CommandsSettingsAndFiles) {
  const testing::TemporaryFolder folder;
  const auto files = real_files();
  for (const char* name : {"notes.txt", "notes.md", "other", ".hidden", "caf\u00e9", "caf\u00e8"})
    write_whole_atomically(*files, folder / name, "x");
  write_whole_atomically(*files, folder / "bad\nname", "x");
  files->make_directories(folder / "sub");
  write_whole_atomically(*files, folder / "sub/inner file", "x");
  using All = std::vector<std::string>;
  const auto text = [&](const std::string& line) { return complete_line(line, *files).text; };
  const auto choices = [&](const std::string& line) { return complete_line(line, *files).choices; };
  EXPECT_EQ(text("/sy"), "stem ");
  EXPECT_EQ(text("/system"), " ");
  EXPECT_EQ(text("/q"), "uit");
  EXPECT_EQ(text("/t"), "okens ");
  EXPECT_EQ(choices("/re"), (All{"read", "retry"}));
  EXPECT_EQ(choices("/").size(), chat_commands().size());
  EXPECT_EQ(text("/zz"), "");
  EXPECT_EQ(text("sy"), "");
  EXPECT_EQ(text(""), "");
  EXPECT_EQ(text("a message of /re"), "");
  EXPECT_EQ(text("/set temp"), "erature ");
  EXPECT_EQ(choices("/set top_"), (All{"top_k", "top_p"}));
  EXPECT_EQ(text("/set temperature 0."), "");
  EXPECT_EQ(text("/retry s"), "ame");
  EXPECT_EQ(text("/system x"), "");
  const std::string here = folder.path() + "/";
  for (const char* command : {"/read ", "/save ", "/load "}) {
    EXPECT_EQ(text(command + here + "n"), "otes.");
    EXPECT_EQ(choices(command + here + "notes."), (All{"notes.md", "notes.txt"}));
    EXPECT_EQ(text(command + here + "o"), "ther");
    EXPECT_EQ(text(command + here + "s"), "ub/");
    EXPECT_EQ(text(command + here + "sub/inner "), "file");
    EXPECT_EQ(text(command + here + "caf"), "") << "half a character";
    EXPECT_EQ(choices(command + here + "caf").size(), 2u);
    EXPECT_EQ(text(command + here + "b"), "") << "a name that would end the line";
    EXPECT_EQ(choices(command + here).size(), 6u) << "no hidden ones";
    EXPECT_EQ(text(command + here + ".h"), "idden");
    EXPECT_EQ(text(command + here + "nowhere/x"), "");
  }
}

}  // namespace
}  // namespace trireme::test
