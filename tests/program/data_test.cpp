// Conversations from outside: shown, counted, trained on, resumed, under layouts.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/program/harness/program_run.h"

namespace trireme::testing {
namespace {

using Words = std::vector<std::string>;

class ChatRun : public ::testing::Test {
 protected:
  // A tokenizer made of the run's text, with a template that speaks ChatML.
  void SetUp() override {
    const ProgramEnd made = run_to_end({program(), "tokenizer", "train", tokenizer_,
                                        "--data.text=" + run_.text(), "--vocab", "270"});
    ASSERT_EQ(made.code, 0) << made.err;
    nlohmann::json config =
        nlohmann::json::parse(text_of_file(tokenizer_ + "/tokenizer_config.json"));
    config["chat_template"] =
        "{% for m in messages %}{{ '<' + m.role + '>' + m.content }}<|endoftext|>{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    write_file(tokenizer_ + "/tokenizer_config.json", config.dump());
    std::string lines;
    for (int i = 0; i < 60; ++i)
      lines += nlohmann::json{{"messages",
                               {{{"role", "user"}, {"content", "ask " + std::to_string(i)}},
                                {{"role", "assistant"}, {"content", "answer <|endoftext|>"}}}}}
                   .dump() +
               "\n";
    write_file(chat_, lines);
  }

  Words flags(const Words& more = {}) const {
    Words all{"--data.text=" + chat_, "--data.tokenizer=" + tokenizer_, "--model.vocab=auto"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  ProgramEnd train(const Words& more = {}) const { return run_to_end(run_.train(flags(more))); }

  const TinyRun run_;
  const std::string tokenizer_ = run_ / "tokenizer", chat_ = run_ / "chat.jsonl";
};

TEST_F(ChatRun, IsShownAndCounted) {
  ProgramEnd end = run_to_end({program(), "data", "show", "--data.text=" + chat_,
                               "--data.tokenizer=" + tokenizer_, "-n", "1", "--batch.sequence=60"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.out.find("<user>ask 0<|endoftext|><assistant>"
                         "[[answer <|endoftext|><|endoftext|>]]<user>"),
            std::string::npos)
      << end.out;
  EXPECT_NE(end.out.find("chat (messages), 60 conversations, roles user/assistant"),
            std::string::npos)
      << end.out;
  end = run_to_end({program(), "data", "info", chat_, "--data.tokenizer=" + tokenizer_, "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto info = nlohmann::json::parse(end.out);
  EXPECT_EQ(info["documents"], 60);
  EXPECT_EQ(info["duplicates"], 0);
  EXPECT_EQ(info["turns"], 120);
  EXPECT_EQ(info["longest"].size(), 3u);
  EXPECT_GE(info["longest"][0]["line"], 11);  // two digits
  end = run_to_end({program(), "tokenize", chat_, run_ / "c.h5", "--data.tokenizer=" + tokenizer_});
  ASSERT_EQ(end.code, 0) << end.err;
  end = run_to_end({program(), "data", "info", run_ / "c.h5", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const auto again = nlohmann::json::parse(end.out);
  for (const char* key :
       {"tokens", "trained", "documents", "about", "lengths", "duplicates", "longer_than_sequence"})
    EXPECT_EQ(info[key], again[key]) << key;
  EXPECT_LT(info["trained"], info["tokens"]);
  const std::string texts = run_ / "texts";
  std::filesystem::create_directory(texts);
  write_file(texts + "/b.txt", "two");
  write_file(texts + "/a.txt", "one");
  end = run_to_end({program(), "data", "show", "--data.text=" + texts,
                    "--data.tokenizer=" + tokenizer_, "--batch.sequence=60"});
  EXPECT_NE(end.out.find("one<|endoftext|>two<|endoftext|>"), std::string::npos) << end.out;
  EXPECT_NE(end.err.find(": 2 files, " + texts + "/a.txt to "), std::string::npos) << end.err;
  EXPECT_EQ(run_to_end({program(), "data"}).code, 2);
  EXPECT_EQ(run_to_end({program(), "data", "show", "-n", "x"}).code, 2);
}

TEST_F(ChatRun, LengthsDuplicatesAndWhatIsTooLongAreTold) {
  std::string lines;
  for (const int words : {1, 3, 3, 40, 3}) {
    std::string text;
    for (int i = 0; i < words; ++i) text += "xyz ";
    lines += nlohmann::json{{"text", text}}.dump() + "\n";
  }
  write_file(run_ / "t.jsonl", lines);
  const Words info{
      program(), "data", "info", run_ / "t.jsonl", "--data.tokenizer=bytes", "--batch.sequence=20"};
  Words json = info;
  json.push_back("--json");
  const ProgramEnd end = run_to_end(json);
  ASSERT_EQ(end.code, 0) << end.err;
  const auto told = nlohmann::json::parse(end.out);
  EXPECT_EQ(told["duplicates"], 2);
  EXPECT_EQ(told["longer_than_sequence"], 1);
  EXPECT_EQ(told["longest"][0]["line"], 4);
  EXPECT_EQ(told["longest"][0]["tokens"], 160);
  EXPECT_EQ(told["lengths"][0]["from"], 4);
  EXPECT_EQ(told["lengths"][1]["documents"], 3);
  const ProgramEnd text = run_to_end(info);
  EXPECT_NE(text.out.find("duplicates 2 equal an earlier one (40"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("longest    160 tokens (line 4)"), std::string::npos) << text.out;
}

TEST_F(ChatRun, ThreeAndThreeAreSixAndLayoutsAgree) {
  const Words steady{"--train.checkpoint_every=3", "--optimizer.schedule=constant"};
  const auto with = [&](Words words) {
    words.insert(words.end(), steady.begin(), steady.end());
    return words;
  };
  const ProgramEnd quiet = train(with({"--train.steps=6"}));
  ASSERT_EQ(quiet.code, 0) << quiet.err;
  EXPECT_NE(quiet.err.find("tokens are learned, as here [[...]]"), std::string::npos) << quiet.err;
  EXPECT_NE(quiet.err.find("[["), std::string::npos);
  const Words six = column(run_.folder(), "loss");
  ASSERT_EQ(six.size(), 6u);
  const std::string in = "--train.folder=" + (run_ / "parts");
  ASSERT_EQ(train(with({"--train.steps=3", in})).code, 0);
  const ProgramEnd resumed = train(with({"--train.steps=6", in, "--resume"}));
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(column(run_ / "parts", "loss"), six);

  const std::string moved = run_ / "moved";
  const ProgramEnd end = train(with(
      {"--train.steps=6", "--train.folder=" + moved, "--parallel.data=2", "--parallel.tensor=2"}));
  ASSERT_EQ(end.code, 0) << end.err;
  const Words losses = column(moved, "loss");
  ASSERT_EQ(losses.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_NEAR(std::stod(losses[i]), std::stod(six[i]), 1e-12 * std::stod(six[i]));
  EXPECT_EQ(column(moved, "tokens"), column(run_.folder(), "tokens"));

  // What is learned is a part of what a run is.
  const ProgramEnd other = train(with({"--train.steps=9", in, "--resume", "--data.loss_on=all"}));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("data.loss_on = all, the checkpoint has auto"), std::string::npos)
      << other.err;
}

// Documents that do not see each other: a run, the same under layouts, and another one than
// without.
TEST_F(ChatRun, DocumentsMayBeApart) {
  const Words plain{"--train.steps=4", "--optimizer.schedule=constant", "--data.loss_on=all"};
  Words apart = plain;
  apart.push_back("--data.reset_attention_mask=true");
  const auto losses = [&](const std::string& folder, const Words& more) {
    Words words{"--train.folder=" + (run_ / folder)};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramEnd end = train(words);
    EXPECT_EQ(end.code, 0) << end.err;
    return column(run_ / folder, "loss");
  };
  const Words serial = losses("apart", apart);
  Words cut = apart;
  cut.insert(cut.end(), {"--parallel.data=2", "--parallel.tensor=2"});
  const Words moved = losses("moved", cut);
  const Words whole = losses("whole", plain);
  ASSERT_EQ(serial.size(), 4u);
  ASSERT_EQ(moved.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    const double loss = std::stod(serial[i]);
    EXPECT_NEAR(std::stod(moved[i]), loss, 1e-12 * loss);
  }
  EXPECT_NE(whole, serial);  // steps whose samples are of one document each are equal
  const ProgramEnd bytes = run_to_end(run_.train({"--data.reset_attention_mask=true"}));
  EXPECT_EQ(bytes.code, 2);
  EXPECT_NE(bytes.err.find("plain text needs a tokenizer with an end-of-text token"),
            std::string::npos)
      << bytes.err;
}

// Of conversations `evaluate` scores what training learns: the loss of the first step, whose batch
// is the whole file, is that of the model that it leaves as it is.
TEST_F(ChatRun, IsEvaluatedAsItIsTrainedOn) {
  const auto tokens_of = [&] {
    const ProgramEnd end =
        run_to_end({program(), "data", "info", chat_, "--data.tokenizer=" + tokenizer_, "--json"});
    EXPECT_EQ(end.code, 0) << end.err;
    return nlohmann::json::parse(end.out)["tokens"].get<int>();
  };
  int samples = 0, sequence = 0;
  while (samples == 0) {  // one token more than samples of 8 to 40 tokens
    const int tokens = tokens_of();
    for (sequence = 40; sequence > 8 && (tokens - 1) % sequence != 0; --sequence) {
    }
    if ((tokens - 1) % sequence == 0) samples = (tokens - 1) / sequence;
    if (samples == 0)
      write_file(chat_, text_of_file(chat_) +
                            R"({"messages": [{"role": "user", "content": "more"}]})"
                            "\n");
  }
  const Words whole{"--batch.global=" + std::to_string(samples),
                    "--batch.micro=" + std::to_string(samples),
                    "--batch.sequence=" + std::to_string(sequence),
                    "--model.dropout=0",
                    "--optimizer.label_smoothing=0",
                    "--data.validation=0",
                    "--train.steps=1",
                    "--optimizer.lr=1e-300",
                    "--optimizer.weight_decay=0",
                    "--train.checkpoint_every=1"};
  for (const Words& more :
       std::vector<Words>{{}, {"--data.loss_on=last"}, {"--data.reset_attention_mask=true"}}) {
    Words flags = whole;
    flags.insert(flags.end(), more.begin(), more.end());
    const ProgramEnd trained = train(flags);
    ASSERT_EQ(trained.code, 0) << trained.err;
    for (const Words& layout : std::vector<Words>{{}, {"--parallel.data=2", "--zero.stage=3"}}) {
      Words words{program(), "evaluate", run_.folder(), "--data.text=" + chat_, "--json"};
      words.insert(words.end(), layout.begin(), layout.end());
      const ProgramEnd end = run_to_end(words);
      ASSERT_EQ(end.code, 0) << end.err;
      const auto told = nlohmann::json::parse(end.out);
      const double loss = std::stod(column(run_.folder(), "loss")[0]);
      EXPECT_NEAR(told["loss"].get<double>(), loss, 1e-9 * loss);
      EXPECT_EQ(told["windows"], samples);
      EXPECT_LT(told["tokens_scored"], told["tokens"]);
    }
  }
  const Words tokens{program(), "tokenize", chat_, run_ / "c.h5", "--data.tokenizer=" + tokenizer_};
  ASSERT_EQ(run_to_end(tokens).code, 0);
  const auto scored = [&](const std::string& flag) {
    const ProgramEnd end = run_to_end({program(), "evaluate", run_.folder(), flag, "--json"});
    EXPECT_EQ(end.code, 0) << end.err;
    return nlohmann::json::parse(end.out)["loss"];
  };
  EXPECT_EQ(scored("--data.tokens=" + (run_ / "c.h5")), scored("--data.text=" + chat_));
  write_file(chat_, R"({"messages": [{"role": "user", "content": "only a question"}]})");
  const ProgramEnd none =
      run_to_end({program(), "evaluate", run_.folder(), "--data.text=" + chat_});
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("is learned, so there is nothing to score"), std::string::npos)
      << none.err;
}

TEST_F(ChatRun, NothingToLearnIsRefused) {
  std::string lines;
  for (int i = 0; i < 60; ++i)
    lines += R"({"messages": [{"role": "user", "content": "only questions"}]})"
             "\n";
  write_file(chat_, lines);
  const ProgramEnd end = train();
  EXPECT_EQ(end.code, 2);
  EXPECT_NE(end.err.find("no token of chat (messages), 60 conversations, roles user is learned"),
            std::string::npos)
      << end.err;
  EXPECT_EQ(train({"--data.loss_on=all", "--train.steps=1"}).code, 0);
}

TEST_F(ChatRun, BadLinesAreSentences) {
  write_file(chat_, text_of_file(chat_) + "{\"messages\": 3}\n");
  ProgramEnd end = train();
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.err.find(chat_ + ":61:1: "), std::string::npos) << end.err;
  EXPECT_NE(end.err.find("data.skip_bad = true passes over such lines"), std::string::npos);
  for (const Words& reads :
       std::vector<Words>{{"tokenize", chat_, run_ / "bad.h5"}, {"data", "info", chat_}}) {
    Words words{program()};
    words.insert(words.end(), reads.begin(), reads.end());
    words.insert(words.end(), {"--data.tokenizer=" + tokenizer_, "--skip-bad"});
    end = run_to_end(words);
    EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_NE((end.out + end.err).find("1 bad line passed over"), std::string::npos) << end.out;
  }
  end = train({"--skip-bad", "--train.steps=1"});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.err.find("1 bad line passed over"), std::string::npos) << end.err;
  EXPECT_NE(end.err.find("the first line passed over: " + chat_ + ":61:1"), std::string::npos);
  end = run_to_end(run_.train({"--data.text=" + chat_}));
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.err.find("has no chat template"), std::string::npos) << end.err;
}

}  // namespace
}  // namespace trireme::testing
