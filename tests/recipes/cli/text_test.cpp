#include "recipes/cli/keys.h"
#include "recipes/cli/recipe_text.h"
#include "recipes/cli/validate.h"
#include "tests/recipes/cli/recipe_helpers.h"

namespace trireme::testing {
namespace {

void expect_round_trip(const Recipe& recipe) {
  std::string text = resolved_text(recipe);
  Recipe again = parse(text);
  EXPECT_TRUE(again == recipe) << text;
  EXPECT_EQ(resolved_text(again), text);
}

TEST(RecipeText, RoundTrip) {
  expect_round_trip(parse(""));
  expect_round_trip(
      parse("[model]\nfamily=llama\n[train]\nfolder = \"a # b\"\ntrace = 3:5\n"
            "[data]\ntext = ' x; \"y\" '\n[device]\nmemory = 1536\n"
            "[optimizer]\nlr = 0.1\neps = 1.0000000000000002e-9\nschedule=wsd\n"
            "[pipeline]\nschedule=interleaved\npartition=2,2,2,2\n"
            "[parallel]\npipeline=2\ntimeout=0.25\n"));
}

TEST(RecipeText, EveryKeyIsWritten) {
  std::string text = resolved_text(parse(""));
  for (const Key& key : keys())
    EXPECT_NE(text.find(join("\n", key.name, " =")), std::string::npos) << key.full_name();
  EXPECT_NE(text.find("kv_heads = 6\n"), std::string::npos);
  EXPECT_NE(text.find("launch = threads\n"), std::string::npos);
  EXPECT_NE(text.find("trace =\n"), std::string::npos);
}

TEST(RecipeText, DifferencesAreWhatWasChosen) {
  EXPECT_TRUE(differences_from_default(parse("")).empty());
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(differences_from_default(parse("[model]\nfamily = llama\nheads = 4\nkv_heads = 2\n"
                                           "[train]\nsteps = 1e3\nfolder = x\n")),
            (Pairs{{"model.family", "llama"},
                   {"model.heads", "4"},
                   {"model.kv_heads", "2"},
                   {"train.folder", "x"}}));
}

TEST(RecipeText, ResolvingTwiceChangesNothing) {
  Recipe once = parse("[model]\nfamily = llama\n");
  Recipe twice = once;
  resolve(twice);
  EXPECT_TRUE(once == twice);
}

}  // namespace
}  // namespace trireme::testing
