// trireme bench-serve against trireme serve on a tiny model: counts add up, names are vLLM's, and
// failures end with 1.
#include <gtest/gtest.h>

#include "tests/program/finetune/chat_folder.h"
#include "tests/program/harness/served_program.h"

namespace trireme::testing {
namespace {

using nlohmann::json;

class BenchServe : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ChatFolder;
    write_file(*folder_ / "keys", "# a key\n0123456789abcdef\n");
    server_ = new ServedProgram(
        folder_->base(), {"--precision.compute=f32", "--parallel.threads=1", "--api-key-file",
                          *folder_ / "keys", "--max-queue=1000"});
    ASSERT_TRUE(server_->ready());
  }
  static void TearDownTestSuite() {
    EXPECT_EQ(server_->end().code, 0);
    delete server_;
    delete folder_;
    server_ = nullptr;
    folder_ = nullptr;
  }
  static ProgramEnd call(const Words& words, const ProgramOptions& options = {}) {
    return run_to_end(Words{program(), "bench-serve", "--base-url", server_->url()} + words,
                      options);
  }
  static Words key() { return {"--api-key-file", *folder_ / "keys"}; }

  static inline ChatFolder* folder_ = nullptr;
  static inline ServedProgram* server_ = nullptr;
};

TEST_F(BenchServe, CountsAddUp) {
  const std::string file = *folder_ / "result.json";
  const Words load{"--num-prompts=12", "--random-input-len=20", "--random-output-len=5",
                   "--ignore-eos",     "--max-concurrency=4",   "--seed=3"};
  const ProgramEnd end =
      call(load + key() +
           Words{"--save-result", file, "--save-detailed", "--goodput", "ttft:60000,e2el:60000"});
  ASSERT_EQ(end.code, 0) << end.err;
  for (const char* line :
       {"Successful requests:                     12 ",
        "Failed requests:                         0 ",
        "Maximum request concurrency:             4 ",
        "Total input tokens:                      240 ",
        "Total generated tokens:                  60 ",
        "Request goodput (req/s):", "Prefix cache hit rate (%):", "P99 E2EL (ms):"})
    EXPECT_NE(end.out.find(line), std::string::npos) << line << " is not in\n" << end.out;
  const auto result = nlohmann::ordered_json::parse(text_of_file(file));
  EXPECT_EQ(result["completed"], 12);
  EXPECT_EQ(result["failed"], 0);
  EXPECT_EQ(result["total_input_tokens"], 240);
  EXPECT_EQ(result["total_output_tokens"], 60);
  EXPECT_EQ(result["max_concurrency"], 4);
  EXPECT_EQ(result["request_rate"], "inf");
  EXPECT_EQ(result["model_id"], "base");
  EXPECT_EQ(result["request_goodput"], result["request_throughput"]);
  EXPECT_EQ(result["output_lens"], json(std::vector<int>(12, 5)));
  EXPECT_EQ(result["ttfts"].size(), 12u);
  EXPECT_LE(result["max_concurrent_requests"], 12);
  EXPECT_LE(result["median_ttft_ms"], result["p99_ttft_ms"]);
  const ProgramEnd again = call(load + key() + Words{"--json", "--request-rate=500"});
  ASSERT_EQ(again.code, 0) << again.err;
  const auto told = nlohmann::ordered_json::parse(again.out);
  EXPECT_EQ(told["request_rate"], 500);
  EXPECT_EQ(told["total_output_tokens"], 60);
  std::vector<std::string> names, saved;
  for (const auto& [name, value] : told.items()) names.push_back(name);
  for (const auto& [name, value] : result.items())
    if (!value.is_array()) saved.push_back(name);
  EXPECT_EQ(names, saved);
}

TEST_F(BenchServe, FailuresAreCountedAndTold) {
  // More than the context.
  const ProgramEnd end = call(key() + Words{"--num-prompts=3", "--random-input-len=20",
                                            "--random-output-len=5000", "--num-warmups=0"});
  EXPECT_EQ(end.code, 1);
  EXPECT_NE(end.out.find("Failed requests:                         3 "), std::string::npos)
      << end.out;
  EXPECT_NE(end.err.find("failed, 3 times: 400: This model's maximum context length"),
            std::string::npos)
      << end.err;
  const ProgramEnd warm = call(key() + Words{"--num-prompts=3", "--random-output-len=5000"});
  EXPECT_EQ(warm.code, 1);
  EXPECT_NE(warm.err.find("the warm-up failed"), std::string::npos) << warm.err;
}

TEST_F(BenchServe, KeysComeFromAFileOrTheEnvironment) {
  const Words few{"--num-prompts=1", "--random-input-len=3", "--random-output-len=2"};
  const ProgramEnd none = call(few);
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.err.find("401"), std::string::npos) << none.err;
  EXPECT_NE(none.err.find("}}; the key comes from"), std::string::npos) << none.err;
  EXPECT_NE(none.err.find("TRIREME_API_KEY"), std::string::npos) << none.err;
  EXPECT_EQ(call(few, {.environment = {{"TRIREME_API_KEY", "0123456789abcdef"}}}).code, 0);
  // The last address counts: as clients are given it, and one where nothing is.
  EXPECT_EQ(call(few + key() + Words{"--base-url", server_->url() + "/v1/"}).code, 0);
  const ProgramEnd lost = call(few + key() + Words{"--base-url", server_->url() + "/v2"});
  EXPECT_EQ(lost.code, 1);
  EXPECT_NE(lost.err.find("/v2/health says 404"), std::string::npos) << lost.err;
}

TEST_F(BenchServe, RefusesWhatItShould) {
  const std::pair<Words, std::string> cases[] = {
      {{"folder"}, "trireme bench FOLDER measures a model"},
      {{"--parallel.tensor=2"}, "recipe keys are the server's"},
      {{"--base-url=https://a"}, "speaks no TLS"},
      {{"--base-url=a"}, "--base-url: a: expected http://HOST:PORT"},
      {{"--num-prompts=0"}, "--num-prompts = 0"},
      {{"--request-rate=0"}, "--request-rate = 0"},
      {{"--burstiness=2"}, "only with --request-rate"},
      {{"--max-concurrency=x"}, "--max-concurrency = x"},
      {{"--random-input-len=0"}, "--random-input-len = 0"},
      {{"--goodput=itl:5"}, "--goodput: \"itl:5\""},
      {{"--api-key-file=/nowhere"}, "there is no file /nowhere"},
      {{"--ready-wait=-1"}, "--ready-wait = -1"},
      {{"--temperature=3"}, "--temperature = 3"},
      {{"--save-result=/nowhere/r.json"}, "there is no folder /nowhere"},
      {{"--save-result=/"}, "is a folder"},
      {{"--save-detailed"}, "only with --save-result"}};
  for (const auto& [words, sentence] : cases) {
    const ProgramEnd end = run_to_end(Words{program(), "bench-serve"} + words);
    EXPECT_EQ(end.code, 2) << sentence << "\n" << end.err;
    EXPECT_NE(end.err.find(sentence), std::string::npos) << end.err;
  }
  const DeafPort deaf;
  const ProgramEnd nobody = run_to_end({program(), "bench-serve", "--ready-wait=0", "--base-url",
                                        "http://127.0.0.1:" + std::to_string(deaf.port())});
  EXPECT_EQ(nobody.code, 1);
  EXPECT_NE(nobody.err.find("is not ready after 0 s: Connection refused"), std::string::npos)
      << nobody.err;
}

}  // namespace
}  // namespace trireme::testing
