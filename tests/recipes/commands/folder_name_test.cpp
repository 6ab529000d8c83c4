// What a model is called: the last part of its path, however that is written.
#include <gtest/gtest.h>

#include <filesystem>

#include "recipes/commands/text_engine.h"

namespace trireme::test {
namespace {

TEST(FolderName, IsTheLastPartOfThePath) {
  for (const char* path : {"/models/fleet", "/models/fleet/", "models/fleet//", "fleet", "./fleet/",
                           "/models/other/../fleet", "/models/fleet/."})
    EXPECT_EQ(folder_name(path), "fleet") << path;
  EXPECT_EQ(folder_name("/models/a b é/"), "a b é");
  EXPECT_EQ(folder_name("/"), "/");
}

TEST(FolderName, OfWhereOneIs) {
  const std::filesystem::path here = std::filesystem::current_path();
  for (const char* path : {".", "./", "././"}) EXPECT_EQ(folder_name(path), here.filename());
  EXPECT_EQ(folder_name(".."), here.parent_path().filename());
}

}  // namespace
}  // namespace trireme::test
