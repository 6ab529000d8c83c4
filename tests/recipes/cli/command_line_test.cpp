#include "recipes/cli/command_line.h"

#include "recipes/cli/help.h"
#include "recipes/cli/keys.h"
#include "tests/recipes/cli/recipe_helpers.h"

namespace trireme::testing {
namespace {

std::string command_refusal(const std::string& name) {
  try {
    find_command(name);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

std::string help_refusal(const std::string& topic) {
  try {
    help_text(topic);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

std::size_t lines_with(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(CommandLine, IsCutIntoItsParts) {
  CommandLine line = split_command_line(
      {"train", "--train.steps", "3", "a.cfg", "--parallel.sequence", "b.cfg", "--json", "--prompt",
       "In the", "--data.shuffle", "off", "--model.from=", "--", "--x"},
      {{"json"}, {"prompt", true}});
  EXPECT_EQ(line.command, "train");
  EXPECT_EQ(line.names, (std::vector<std::string>{"a.cfg", "b.cfg", "--x"}));
  ASSERT_EQ(line.flags.size(), 4u);
  EXPECT_EQ(line.flags[0].value, "3");
  EXPECT_FALSE(line.flags[1].value);
  EXPECT_EQ(line.flags[2].value, "off");
  EXPECT_EQ(line.flags[3].value, "");
  EXPECT_TRUE(line.options.contains("json"));
  EXPECT_EQ(line.options.at("prompt"), "In the");
}

TEST(CommandLine, NegativeNumbersAreValues) {
  EXPECT_EQ(split_command_line({"train", "--optimizer.lr", "-1"}).flags.at(0).value, "-1");
}

TEST(CommandLine, HelpTakesATopic) {
  EXPECT_TRUE(split_command_line({"--help"}).help);
  EXPECT_EQ(split_command_line({"train", "--help", "optimizer"}).help_topic, "optimizer");
  EXPECT_EQ(split_command_line({"train", "--help=lr"}).help_topic, "lr");
  EXPECT_TRUE(split_command_line({"-h"}).help);
}

TEST(CommandLine, OptionsWithoutTheirValueAreRefused) {
  EXPECT_THROW(split_command_line({"x", "--prompt"}, {{"prompt", true}}), UsageError);
  EXPECT_THROW(split_command_line({"x", "--json=1"}, {{"json"}}), UsageError);
  try {
    split_command_line({"x", "--prompt", "--- he said"}, {{"prompt", true}});
    FAIL() << "a flag is no value";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "--prompt needs a value; one that begins with -- is given as --prompt=VALUE");
  }
}

// Other names of an option, and of a recipe key; a list may be given in parts.
TEST(CommandLine, OptionsHaveOtherNames) {
  const std::vector<Option> options{
      {.name = "pp", .takes_value = true, .also = "p n-prompt", .list = true},
      {.name = "threads", .takes_value = true, .also = "t", .key = "parallel.threads"},
      {.name = "o", .takes_value = true, .also = "output"}};
  const CommandLine line =
      split_command_line({"bench", "-p", "5,6", "folder", "--n-prompt=7", "-t", "2", "--output",
                          "md", "--output", "csv", "--threads=3", "--=x"},
                         options);
  EXPECT_EQ(line.names, std::vector<std::string>{"folder"});
  EXPECT_EQ(line.options.at("pp"), "5,6,7");
  EXPECT_EQ(line.options.at("o"), "csv");
  EXPECT_EQ(line.options.size(), 2u);
  ASSERT_EQ(line.flags.size(), 3u);
  EXPECT_EQ(line.flags[0].name, "parallel.threads");
  EXPECT_EQ(line.flags[0].value, "2");
  EXPECT_EQ(line.flags[1].value, "3");
  EXPECT_EQ(line.flags[2].name, "");
  try {
    split_command_line({"bench", "-o"}, options);
    FAIL() << "-o without a value";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "-o needs a value");
  }
}

TEST(CommandLine, UnknownOptionsAreToldWithTheOtherProblems) {
  EXPECT_EQ(refusal("[train]\nsteps = x\n", {"--jsn"}),
            "a.cfg:2: train.steps = x: expected a whole number, 1 or more (steps)\n"
            "flag --jsn: unknown key \"jsn\"; trireme train --help lists the keys");
}

TEST(Commands, KnownAndUnknownOnes) {
  EXPECT_EQ(find_command("train").name, "train");
  EXPECT_EQ(command_refusal("trian"), "unknown subcommand \"trian\"; nearest: train");
  EXPECT_EQ(command_refusal("zzzzzzzz"),
            "unknown subcommand \"zzzzzzzz\"; trireme --help lists them");
  for (auto name : {"train", "tokenize", "generate", "evaluate", "chat", "serve", "bench-serve",
                    "memory", "report", "checkpoint", "data", "tokenizer", "bench", "doctor"})
    EXPECT_EQ(command_refusal(name), "") << name;
}

TEST(Help, ShowsTheCommonKeys) {
  std::string text = help_text();
  EXPECT_EQ(lines_with(text, "\n  --"), 25u) << text;
  for (const Key& key : keys())
    EXPECT_EQ(key.common, text.find("  --" + key.full_name() + "=") != std::string::npos);
  for (const Command& command : commands())
    EXPECT_NE(text.find("\n  " + std::string(command.usage)), std::string::npos) << command.name;
}

TEST(Help, CommonKeysHaveDefaultUnitAndRange) {
  EXPECT_NE(help_text().find("  --parallel.data=1             Ranks that see different samples. "
                             "[ranks, 1 to 65536]\n"),
            std::string::npos)
      << help_text();
}

TEST(Help, LinesFit) {
  for (std::string topic : {"", "model", "optimizer", "offload", "parallel"}) {
    std::string text = help_text(topic);
    for (std::size_t begin = 0; begin < text.size();) {
      auto end = text.find('\n', begin);
      EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
      begin = end + 1;
    }
  }
}

TEST(Help, OfASectionAndAKey) {
  std::string text = help_text("pipeline");
  EXPECT_EQ(lines_with(text, "  --pipeline."), 3u);
  EXPECT_EQ(lines_with(text, "  --parallel."), 0u);
  EXPECT_EQ(help_text("optimizer.warmup"),
            "  --optimizer.warmup\n"
            "      Steps in which the learning rate rises from zero.\n"
            "      default 0; unit steps; values 0 or more\n"
            "      environment TRIREME_OPTIMIZER_WARMUP\n");
}

TEST(Help, SearchesNamesAndText) {
  std::string text = help_text("Perfetto");
  EXPECT_EQ(lines_with(text, "  --"), 1u);
  EXPECT_NE(text.find("--train.trace"), std::string::npos);
  EXPECT_NE(help_text("interleaved").find("--pipeline.schedule"), std::string::npos);
  EXPECT_EQ(help_refusal("optimzer"), "help: no key speaks of \"optimzer\"; nearest: optimizer");
}

}  // namespace
}  // namespace trireme::testing
