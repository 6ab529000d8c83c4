// trireme generate from an argument, a file, a pipe and JSON lines: the same text wherever the
// prompt comes from, one by one and many at a time, and from the server.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "recipes/report/printable.h"
#include "tests/program/finetune/chat_folder.h"
#include "tests/program/harness/served_program.h"

namespace trireme::testing {
namespace {

using nlohmann::json;
using ordered = nlohmann::ordered_json;

class Generate : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { folder_ = new ChatFolder; }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static ProgramEnd call(const Words& words, const ProgramOptions& options = {}) {
    return run_to_end(Words{program(), "generate", folder_->base(), "--precision.compute=f32",
                            "--parallel.threads=1"} +
                          words,
                      options);
  }
  static json told(const Words& words, const ProgramOptions& options = {}) {
    const ProgramEnd end = call(words + Words{"--json"}, options);
    EXPECT_EQ(end.code, 0) << end.err;
    return end.code == 0 ? json::parse(end.out) : json();
  }
  static std::vector<ordered> lines(const std::string& text) {
    std::vector<ordered> all;
    for (const std::string& line : lines_of(text)) all.push_back(ordered::parse(line));
    return all;
  }
  static std::string text_of(const ordered& line) {
    return printable(line["generated"]["text"].get<std::string>());
  }
  // Of all kinds, for 8 tokens each.
  static std::string asked() {
    const ordered all[] = {
        {{"id", 1.50},
         {"prompt", "the oars"},
         {"note", {{"kept", json::array({1, "x", nullptr})}}}},
        {{"prompt", "of the"}, {"seed", 7}, {"temperature", 1.2}},
        {{"messages", {{{"role", "user"}, {"content", "Who rows?"}}}}, {"temperature", 0}},
        {{"prompt", "trireme "}, {"max_tokens", 3}},
        {{"prompt", "the oars"}, {"top_p", 0.5}, {"id", "same again"}},
        {{"messages", {{{"role", "user"}, {"content", "How many?"}}}}, {"seed", 3}}};
    std::string text;
    for (const ordered& one : all) text += one.dump() + "\n";
    return text;
  }

  static inline ChatFolder* folder_ = nullptr;
};

TEST_F(Generate, AnswersWhereverThePromptComesFrom) {
  const std::string file = *folder_ / "prompt.txt";
  write_file(file, "the oars\nof");
  const Words few{"--tokens=8", "--seed=3"};
  const json argument = told(few + Words{"--prompt", "the oars\nof"});
  EXPECT_EQ(argument["tokens"].size(), 8u);
  EXPECT_EQ(argument["seed"], 3);
  EXPECT_EQ(told(few + Words{"--prompt-file", file}), argument);
  EXPECT_EQ(told(few + Words{"-"}, {.input = file}), argument);
  EXPECT_EQ(told(few + Words{"--prompt-file=-"}, {.input = file}), argument);
  const ProgramEnd said = call(few + Words{"-"}, {.input = file});
  EXPECT_EQ(said.out, "the oars\nof" + argument["text"].get<std::string>() + "\n");
  EXPECT_EQ(said.err, "");
}

TEST_F(Generate, LinesAreAnsweredInOrderAsOneByOne) {
  const std::string in = *folder_ / "in.jsonl", out = *folder_ / "out.jsonl";
  write_file(in, asked());
  const ProgramEnd end = call({"--input", in, "--output", out, "--tokens=8"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(end.out, "");
  EXPECT_NE(end.err.find("6 answers"), std::string::npos) << end.err;
  EXPECT_NE(end.err.find("tokens/s"), std::string::npos) << end.err;
  EXPECT_FALSE(std::filesystem::exists(out + ".partial"));
  const auto questions = lines(asked()), answers = lines(text_of_file(out));
  ASSERT_EQ(answers.size(), questions.size());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    ordered kept = answers[i];
    kept.erase("generated");
    EXPECT_EQ(kept, questions[i]);
    write_file(in, questions[i].dump() + "\n");
    const ProgramEnd one = call({"--input", in, "--tokens=8"});
    ASSERT_EQ(one.code, 0) << one.err;
    EXPECT_EQ(lines(one.out).at(0), answers[i]);
  }
  EXPECT_EQ(answers[3]["generated"]["completion_tokens"], 3);
  EXPECT_EQ(answers[3]["generated"]["finish_reason"], "length");
  EXPECT_EQ(answers[1]["generated"]["seed"], 7);
  const auto single = [](const Words& words) {
    return told(words + Words{"--tokens=8"})["text"].get<std::string>();
  };
  EXPECT_EQ(text_of(answers[0]), single({"--prompt=the oars"}));
  EXPECT_EQ(text_of(answers[1]), single({"--prompt=of the", "--seed=7", "--temperature=1.2"}));
  EXPECT_EQ(text_of(answers[2]), single({"--prompt=Who rows?", "--chat", "--temperature=0"}));
  EXPECT_EQ(text_of(answers[4]), single({"--prompt=the oars", "--top_p=0.5"}));
  EXPECT_EQ(text_of(answers[5]), single({"--prompt=How many?", "--chat", "--seed=3"}));
  // Under another layout, and fewer at a time.
  write_file(in, asked());
  const ProgramEnd other =
      call({"--input", in, "--tokens=8", "--temperature=0", "--max-num-seqs=2"});
  const ProgramEnd spread = call({"--input", in, "--tokens=8", "--temperature=0",
                                  "--parallel.pipeline=2", "--parallel.tensor=2"});
  ASSERT_EQ(spread.code, 0) << spread.err;
  const auto a = lines(other.out), b = lines(spread.out);
  for (const std::size_t greedy : {0, 2, 3, 4}) EXPECT_EQ(a.at(greedy), b.at(greedy)) << greedy;
}

TEST_F(Generate, TheServerSaysTheSame) {
  const std::string in = *folder_ / "in.jsonl";
  write_file(in, asked());
  const auto answers = lines(call({"--input", in, "--tokens=8"}).out);
  ASSERT_EQ(answers.size(), 6u);
  ServedProgram server(folder_->base(), {"--precision.compute=f32", "--parallel.threads=1"});
  ASSERT_TRUE(server.ready());
  for (const ordered& line : answers) {
    // The temperature is what the folder's generation_config.json says, for both.
    json body{{"top_k", 40}, {"seed", 1}, {"max_tokens", 8}};
    for (const char* name : {"prompt", "messages", "temperature", "top_p", "seed", "max_tokens"})
      if (line.contains(name)) body[name] = json::parse(line[name].dump());
    const bool chat = line.contains("messages");
    const json answer = server.post(chat ? "/v1/chat/completions" : "/v1/completions", body);
    const json& choice = answer["choices"][0];
    EXPECT_EQ(chat ? choice["message"]["content"] : choice["text"], line["generated"]["text"]);
    EXPECT_EQ(choice["finish_reason"], line["generated"]["finish_reason"]);
  }
}

TEST_F(Generate, BadLinesAreNamed) {
  const std::string in = *folder_ / "bad.jsonl", out = *folder_ / "bad-out.jsonl";
  write_file(in,
             "{\"prompt\": \"the\"}\n"
             "{\"prompt\": 3}\n"
             "\n"
             "{\"prompt\": \"a\", }\n"
             "{\"text\": \"a\"}\n"
             "{\"prompt\": \"a\", \"messages\": []}\n"
             "{\"prompt\": \"a\", \"temperature\": 3}\n"
             "{\"prompt\": \"a\", \"n\": 2}\n"
             "{\"prompt\": \"a\", \"generated\": 2}\n"
             "{\"prompt\": \"a\", \"max_tokens\": 100000}\n"
             "{\"messages\": [{\"role\": \"king\", \"content\": \"a\"}]}\n"
             "[1]\n"
             "{\"prompt\": \"oars\"}\n");
  const ProgramEnd first = call({"--input", in, "--output", out});
  EXPECT_EQ(first.code, 1);
  EXPECT_NE(first.err.find(in + ":2: prompt: a string is expected"), std::string::npos)
      << first.err;
  EXPECT_FALSE(std::filesystem::exists(out));
  const ProgramEnd rest = call({"--input", in, "--output", out, "--skip-bad", "--tokens=4"});
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(lines(text_of_file(out)).size(), 2u);
  EXPECT_NE(rest.err.find("2 answers, 10 bad lines passed over"), std::string::npos) << rest.err;
  const std::pair<int, const char*> sentences[] = {{2, "prompt: a string"},
                                                   {4, "column 17: "},
                                                   {5, "\"prompt\" or \"messages\""},
                                                   {6, "one of them"},
                                                   {7, "temperature: "},
                                                   {8, "\"n\" is not supported"},
                                                   {9, "\"generated\" is the answer's"},
                                                   {10, "maximum context length"},
                                                   {11, "messages[0].role"},
                                                   {12, "an object is expected"}};
  for (const auto& [line, sentence] : sentences) {
    const std::string place = in + ":" + std::to_string(line) + ": ";
    const std::size_t at = rest.err.find(place);
    ASSERT_NE(at, std::string::npos) << place << rest.err;
    const std::string told = rest.err.substr(at, rest.err.find('\n', at) - at);
    EXPECT_NE(told.find(sentence), std::string::npos) << told;
  }
}

TEST_F(Generate, GoesOnWhereItWasInterrupted) {
  const std::string in = *folder_ / "again.jsonl", out = *folder_ / "again-out.jsonl";
  write_file(in, asked());
  const Words words{"--input", in, "--output", out, "--tokens=8"};
  ASSERT_EQ(call(words).code, 0);
  const std::string whole = text_of_file(out);
  const ProgramEnd again = call(words);
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("--overwrite replaces it"), std::string::npos) << again.err;
  EXPECT_EQ(text_of_file(out), whole);
  // Two answers and a part of the third are there.
  std::filesystem::remove(out);
  const std::size_t third = whole.find('\n', whole.find('\n') + 1) + 1;
  write_file(out + ".partial", whole.substr(0, third + 20));
  const ProgramEnd left = call(words);
  EXPECT_EQ(left.code, 2);
  EXPECT_NE(left.err.find("--resume goes on"), std::string::npos) << left.err;
  const ProgramEnd on = call(words + Words{"--resume"});
  EXPECT_EQ(on.code, 0) << on.err;
  EXPECT_EQ(text_of_file(out), whole);
  EXPECT_EQ(call(words + Words{"--overwrite"}).code, 0);
  EXPECT_EQ(text_of_file(out), whole);
  // Of other input.
  std::filesystem::remove(out);
  write_file(out + ".partial", whole.substr(0, third));
  write_file(in, "{\"prompt\": \"other\"}\n" + asked());
  const ProgramEnd other = call(words + Words{"--resume"});
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("is it the same input?"), std::string::npos) << other.err;
}

TEST_F(Generate, RefusesWhatItShould) {
  const std::string in = *folder_ / "in.jsonl";
  write_file(in, asked());
  const std::pair<Words, std::string> cases[] = {
      {{"--prompt=a", "-"}, "one prompt"},
      {{"a", "b"}, "generate: needs"},
      {{"--prompt-file=/nowhere"}, "there is no file /nowhere"},
      {{"-"}, "standard input is empty"},
      {{"--top_p=0"}, "--top_p = 0: expected"},
      {{"--stop="}, "--stop is empty"},
      {{"--kv-cache=much"}, "--kv-cache = much"},
      {{"--output=x"}, "--output: only with --input"},
      {{"--skip-bad"}, "--skip-bad: only with --input"},
      {{"--input=/nowhere"}, "there is no file /nowhere"},
      {{"--input", in, "--prompt=a"}, "--prompt: the lines of --input"},
      {{"--input", in, "--json"}, "--json: the lines of --input"},
      {{"--input", in, "--resume"}, "need --output FILE"},
      {{"--input", in, "--resume", "--overwrite", "--output=x"}, "give one of them"},
      {{"--input", in, "--output", *folder_ / "none/a.jsonl"}, "there is no folder"},
      {{"--input", in, "--overwrite", "--output", *folder_ / "."}, "is a folder"},
      {{"--input", in, "--max-num-seqs=0"}, "--max-num-seqs = 0"}};
  for (const auto& [words, sentence] : cases) {
    const ProgramEnd end = call(words);
    EXPECT_EQ(end.code, 2) << sentence << "\n" << end.err;
    EXPECT_NE(end.err.find(sentence), std::string::npos) << end.err;
  }
}

// Beyond the context the older half is forgotten; what stands before it is what it would be anyhow.
TEST_F(Generate, GoesOnBeyondTheContext) {
  const json few = told({"--prompt=the oars", "--tokens=20", "--temperature=0"});
  const json many = told({"--prompt=the oars", "--tokens=200", "--temperature=0"});
  ASSERT_GE(many["tokens"].size(), few["tokens"].size());
  for (std::size_t i = 0; i < few["tokens"].size(); ++i)
    EXPECT_EQ(many["tokens"][i], few["tokens"][i]);
  if (many["ended"] == false) {
    EXPECT_EQ(many["tokens"].size(), 200u);
  }
  const json spread = told({"--prompt=the oars", "--tokens=200", "--temperature=0",
                            "--parallel.data=2", "--parallel.pipeline=2", "--zero.stage=3"});
  EXPECT_EQ(spread["tokens"], many["tokens"]);
}

}  // namespace
}  // namespace trireme::testing
