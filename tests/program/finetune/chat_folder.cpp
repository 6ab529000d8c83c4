#include "tests/program/finetune/chat_folder.h"

#include <gtest/gtest.h>

namespace trireme::testing {

namespace {

constexpr char kTemplate[] =
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + "
    "'\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

}  // namespace

ChatFolder::ChatFolder() {
  talks_ = {{"How many oars?", "One hundred and seventy."},
            {"Who rows?", "Free men, in three banks."},
            {"Where to?", "Salamis <|im_end|> by dawn."},
            {"And then?", "We wait."}};
  make_tokenizer();
  std::string lines;
  for (int i = 0; i < 24; ++i) {
    const auto& [question, answer] = talks_[static_cast<std::size_t>(i) % talks_.size()];
    lines += nlohmann::json{{"messages",
                             {{{"role", "user"}, {"content", question}},
                              {{"role", "assistant"}, {"content", answer}}}}}
                 .dump() +
             "\n";
  }
  write_file(chat(), lines);
  // Weights of a run that learned nothing.
  const ProgramEnd made = run_to_end(
      {program(), "train", "--model.family=llama", "--model.layers=2", "--model.hidden=32",
       "--model.heads=4", "--model.kv_heads=2", "--model.ffn=64", "--data.text=" + run_.text(),
       "--data.tokenizer=" + (run_ / "tokenizer"), "--batch.global=2", "--batch.micro=2",
       "--batch.sequence=64", "--precision.compute=f32", "--train.steps=1",
       "--train.checkpoint_every=1", "--train.folder=" + (run_ / "made"), "--optimizer.lr=1e-300"});
  EXPECT_EQ(made.code, 0) << made.err;
  const ProgramEnd out = run_to_end({program(), "checkpoint", "export", run_ / "made", base()});
  EXPECT_EQ(out.code, 0) << out.err;
  write_file(base() + "/generation_config.json",
             "{\"eos_token_id\": " + std::to_string(eos_) + ", \"temperature\": 0.6}");
}

void ChatFolder::make_tokenizer() {
  const std::string folder = run_ / "tokenizer";
  const ProgramEnd made = run_to_end(
      {program(), "tokenizer", "train", folder, "--data.text=" + run_.text(), "--vocab", "270"});
  EXPECT_EQ(made.code, 0) << made.err;
  auto tokenizer = nlohmann::json::parse(text_of_file(folder + "/tokenizer.json"));
  auto& added = tokenizer["added_tokens"];
  nlohmann::json token = added[0];
  eos_ = token["id"];
  int id = 270;
  for (const char* content : {"<|im_start|>", "<|im_end|>"}) {
    token["content"] = content;
    token["id"] = id++;
    added.push_back(token);
  }
  end_ = id - 1;
  write_file(folder + "/tokenizer.json", tokenizer.dump());
  auto config = nlohmann::json::parse(text_of_file(folder + "/tokenizer_config.json"));
  config["chat_template"] = kTemplate;
  write_file(folder + "/tokenizer_config.json", config.dump());
}

ProgramEnd ChatFolder::tune(const Words& flags) const {
  return run_to_end(Words{program(), "train", "--model.from=" + base(), "--data.text=" + chat(),
                          "--precision.compute=f32", "--batch.global=4", "--batch.micro=2",
                          "--batch.sequence=64", "--data.validation=0", "--optimizer.lr=1e-2",
                          "--optimizer.warmup=5", "--parallel.threads=1", "--train.folder=" + run(),
                          "--train.restart=true", "--train.checkpoint_every=1000"} +
                    flags);
}

nlohmann::json ChatFolder::answer(const std::string& folder, const std::string& message,
                                  const Words& flags) const {
  const ProgramEnd end = run_to_end(Words{program(), "generate", folder, "--chat", "--prompt",
                                          message, "--temperature", "0", "--tokens", "64", "--json",
                                          "--precision.compute=f32", "--parallel.threads=1"} +
                                    flags);
  EXPECT_EQ(end.code, 0) << end.err;
  return nlohmann::json::parse(end.out);
}

}  // namespace trireme::testing
