// The recipes that come with the program are ones that it takes, and do what their comments say.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/program/harness/program_run.h"

namespace trireme::testing {
namespace {

std::vector<std::string> recipes() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(TRIREME_RECIPES))
    if (entry.path().extension() == ".cfg") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// `memory` reads and checks all keys as `train` does, and needs neither data nor time. 1: does not
// fit this machine. A recipe that begins with a model needs one.
TEST(Recipes, AreTaken) {
  const std::vector<std::string> all = recipes();
  ASSERT_GE(all.size(), 6u);
  for (const std::string& recipe : all) {
    std::vector<std::string> words = {program(), "memory", recipe};
    if (text_of_file(recipe).find("\nfrom = FOLDER\n") != std::string::npos) {
      EXPECT_EQ(run_to_end(words).code, 2) << recipe;
      const std::string folder = TRIREME_RECIPES "/../tests/golden/huggingface/llama";
      words.insert(words.end(), {"--model.from=" + folder, "--batch.sequence=32"});
    }
    const ProgramEnd end = run_to_end(words);
    EXPECT_TRUE(end.code == 0 || end.code == 1) << recipe << "\n" << end.err;
    EXPECT_NE(end.out.find("FIT"), std::string::npos) << recipe << "\n" << end.out;
  }
}

TEST(Recipes, SayTheirMachineAndTime) {
  for (const std::string& recipe : recipes()) {
    const std::string text = text_of_file(recipe);
    EXPECT_NE(text.find("# Machine: "), std::string::npos) << recipe;
    EXPECT_NE(text.find(". Time: "), std::string::npos) << recipe;
  }
}

}  // namespace
}  // namespace trireme::testing
