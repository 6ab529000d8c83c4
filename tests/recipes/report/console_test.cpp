#include "recipes/report/console.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/faulty_files.h"

namespace trireme::testing {
namespace {

TEST(Console, PlainOffATerminal) {
  for (TerminalTraits traits :
       {TerminalTraits{false, false, "xterm", 80}, TerminalTraits{true, false, "dumb", 80}}) {
    std::ostringstream out;
    {
      Console console(out, traits, nullptr);
      console.bar(1, 10, "eta 3s");
      console.line("step 1");
      console.aside("In the beginning\nGod");
      console.bar(2, 10, "");
      console.line("step 2");
    }
    EXPECT_EQ(out.str(), "step 1\nIn the beginning\nGod\nstep 2\n");
  }
}

TEST(Console, LiveBarStaysBelowTheLines) {
  std::ostringstream out;
  {
    Console console(out, {true, false, "xterm", 40}, nullptr);
    console.bar(0, 4, "eta 4s");
    console.line("step 1");
    console.bar(1, 4, "eta 3s");
  }
  std::string first = bar_text(0, 4, "eta 4s", 40), second = bar_text(1, 4, "eta 3s", 40);
  EXPECT_EQ(out.str(),
            "\r\x1b[K" + first + "\r\x1b[Kstep 1\n" + first + "\r\x1b[K" + second + "\r\x1b[K");
}

TEST(Console, TheBarFollowsTheWindow) {
  int columns = 60;
  std::ostringstream out;
  Console console(
      out, {.is_terminal = true, .term = "xterm", .columns_now = [&] { return columns; }}, nullptr);
  console.bar(1, 4, "");
  columns = 20;
  console.bar(1, 4, "");
  EXPECT_EQ(out.str(), "\r\x1b[K" + bar_text(1, 4, "", 60) + "\r\x1b[K" + bar_text(1, 4, "", 20));
}

TEST(Console, AnUnchangedBarIsNotDrawnAgain) {
  std::ostringstream out;
  Console console(out, {true, false, "xterm", 40}, nullptr);
  console.bar(1, 4, "");
  auto length = out.str().size();
  console.bar(1, 4, "");
  EXPECT_EQ(out.str().size(), length);
}

TEST(Console, ColourOnlyWhereWanted) {
  std::ostringstream with, without;
  Console(with, {true, false, "xterm", 80}, nullptr).aside("text");
  Console(without, {true, true, "xterm", 80}, nullptr).aside("text");
  EXPECT_EQ(with.str(), "\x1b[2mtext\x1b[0m\n");
  EXPECT_EQ(without.str(), "text\n");
}

TEST(Console, TheLogIsPlain) {
  TemporaryFolder folder;
  auto files = real_files();
  std::ostringstream out;
  {
    LineFile log(*files, folder / "log.txt", LineStart::kFresh);
    Console console(out, {true, false, "xterm", 80}, &log);
    console.bar(1, 2, "");
    console.line("a\nb\n");
    console.aside("c");
  }
  EXPECT_EQ(read_whole(*files, folder / "log.txt"), "a\nb\nc\n");
}

TEST(Bar, FitsAndShowsTheShare) {
  EXPECT_EQ(bar_text(1, 2, "eta 3s", 29), "[=======>       ] 50% eta 3s");
  EXPECT_EQ(bar_text(2, 2, "", 18), "[==========] 100%");
  EXPECT_EQ(bar_text(1, 2, "eta 3s", 12), "50% eta 3s");
  for (int columns = 0; columns < 200; ++columns)
    EXPECT_LT(static_cast<int>(bar_text(3, 7, "eta 1h02m", columns).size()), std::max(columns, 1));
}

}  // namespace
}  // namespace trireme::testing
