// trireme serve, as a user calls it: a run is served under three layouts with the words of
// generate, ends with 0 by a signal, and refuses what it should before it loads anything.
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/program/harness/served_program.h"
#include "tests/program/harness/trained_run.h"

namespace trireme::testing {
namespace {

using Words = std::vector<std::string>;
using test::ask;

Words command(Words words) {
  words.insert(words.begin(), program());
  return words;
}

class ServeProgram : public TrainedRun {};

TEST_F(ServeProgram, SaysWhatGenerateSaysUnderEveryLayout) {
  const ProgramEnd said = run_to_end(command(
      {"generate", run_->folder(), "--prompt=ab", "--tokens=6", "--temperature=0", "--json"}));
  ASSERT_EQ(said.code, 0) << said.err;
  const std::string expected = nlohmann::json::parse(said.out)["text"];
  for (const Words& layout :
       {Words{}, Words{"--parallel.tensor=2"}, Words{"--parallel.data=2"},
        Words{"--parallel.data=2", "--parallel.pipeline=2", "--zero.stage=3"}}) {
    ServedProgram server(run_->folder(), layout);
    ASSERT_TRUE(server.ready()) << server.end().err;
    const int port = server.port();
    const test::Answer answer = ask(
        port,
        test::post("/v1/completions", R"({"prompt": "ab", "max_tokens": 6, "temperature": 0})"));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(nlohmann::json::parse(answer.body)["choices"][0]["text"], expected);
    const ProgramEnd second =
        run_to_end(command({"serve", run_->folder(), "--port", std::to_string(port)}));
    EXPECT_EQ(second.code, 1);
    EXPECT_NE(second.err.find("the port is in use"), std::string::npos) << second.err;
    const ProgramEnd end = server.end();
    EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_NE(end.err.find("ready in"), std::string::npos) << end.err;
    const std::string try_it = "try      curl http://127.0.0.1:" + std::to_string(port);
    EXPECT_NE(end.err.find(try_it + "/v1/completions -d '{"), std::string::npos) << end.err;
    EXPECT_NE(end.err.find("a page to chat at http://127.0.0.1:"), std::string::npos) << end.err;
  }
}

// The environment that the program gave itself, once it listens.
std::string environment_of(const Words& words, const std::map<std::string, std::string>& given) {
  StartedProgram server(command(words), {.environment = given});
  EXPECT_TRUE(server.wait_until([&] { return served_port(server.err_so_far()) > 0; }));
  const std::string all = text_of_file("/proc/" + std::to_string(server.pid()) + "/environ") + '\0';
  server.signal(SIGTERM);
  EXPECT_EQ(server.end().code, 0);
  return std::string(1, '\0') + all;
}

// Threads of a team that wait spin shortly, unless the user says how.
TEST_F(ServeProgram, WaitsThatSpinAreShort) {
  using namespace std::string_literals;
  const Words words = {"serve", run_->folder(), "--port=0"};
  const auto has = [](const std::string& all, const std::string& entry) {
    return all.find("\0"s + entry) != std::string::npos;
  };
  EXPECT_TRUE(has(environment_of(words, {}), "GOMP_SPINCOUNT=5000\0"s));
  EXPECT_TRUE(has(environment_of(words, {{"GOMP_SPINCOUNT", "7"}}), "GOMP_SPINCOUNT=7\0"s));
  EXPECT_FALSE(has(environment_of(words, {{"OMP_WAIT_POLICY", "active"}}), "GOMP_SPINCOUNT="));
}

// 64 clients at a time: nobody is refused, everybody hears the same.
TEST_F(ServeProgram, ManyClientsAreAllAnswered) {
  ServedProgram server(run_->folder(), {});
  ASSERT_TRUE(server.ready()) << server.end().err;
  const int port = server.port();
  std::mutex lock;
  std::map<std::string, int> heard;
  std::vector<std::thread> clients;
  for (int c = 0; c < 64; ++c)
    clients.emplace_back([&] {
      for (int i = 0; i < 2; ++i) {
        const test::Answer answer =
            ask(port, test::post("/v1/completions",
                                 R"({"prompt": "ab", "max_tokens": 4, "temperature": 0})"));
        const std::scoped_lock guard(lock);
        ++heard[answer.status == 200
                    ? nlohmann::json::parse(answer.body)["choices"][0]["text"].dump()
                    : std::to_string(answer.status)];
      }
    });
  for (std::thread& one : clients) one.join();
  ASSERT_EQ(heard.size(), 1u) << heard.begin()->first << ", " << heard.rbegin()->first;
  EXPECT_EQ(heard.begin()->second, 128);
  EXPECT_EQ(server.end().code, 0);
}

TEST_F(ServeProgram, RefusesWhatItShould) {
  const std::pair<Words, std::string> cases[] = {
      {{"--host=0.0.0.0"}, "--no-key"},
      {{"--port=65536"}, "--port = 65536"},
      {{"--api-key=short"}, "at least 16"},
      {{"--api-key-file=/nowhere"}, "there is no file"},
      {{"--api-key=0123456789abcdef", "--no-key"}, "exclude each other"},
      {{"--kv-cache=much"}, "--kv-cache = much"},
      {{"--max-num-seqs=0"}, "--max-num-seqs = 0"},
      {{"--max-model-len=100000"}, "--max-model-len = 100000"},
      {{"--parallel.tensor=3"}, "use 1, 2 or 4"},
      {{"--parallel.pipeline=2", "--pipeline.schedule=interleaved", "--pipeline.chunks=2",
        "--batch.global=8", "--batch.micro=1"},
       "pipeline.chunks = 2"},
      {{"--port=0", "--prompt=x"}, "prompt"}};
  for (const auto& [flags, sentence] : cases) {
    Words words = command({"serve", run_->folder(), "--port=0"});
    if (flags[0].starts_with("--port")) words.pop_back();
    words.insert(words.end(), flags.begin(), flags.end());
    const ProgramEnd end = run_to_end(words);
    EXPECT_EQ(end.code, 2) << sentence << end.err;
    EXPECT_NE(end.err.find(sentence), std::string::npos) << end.err;
  }
  EXPECT_EQ(run_to_end(command({"serve"})).code, 2);
  EXPECT_EQ(run_to_end(command({"serve", "/nowhere", "--port=0"})).code, 1);
}

}  // namespace
}  // namespace trireme::testing
