// /metrics by the grammar of the text format, its histograms by their definition, and the dashboard
// by the names that are exported.
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/recipes/api/api_fixture.h"

namespace trireme::test {
namespace {

struct Sample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

struct Exposition {
  std::map<std::string, std::string> types;  // of families
  std::vector<Sample> samples;
};

bool is_name(std::string_view text) {
  const auto fits = [](char c, bool first) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' ||
           (!first && c >= '0' && c <= '9');
  };
  for (std::size_t i = 0; i < text.size(); ++i)
    if (!fits(text[i], i == 0)) return false;
  return !text.empty();
}

// One line: name {label="value",...} number.
void read_sample(std::string_view line, Sample& sample) {
  const std::size_t open = line.find_first_of("{ ");
  ASSERT_NE(open, std::string_view::npos) << line;
  sample.name = line.substr(0, open);
  ASSERT_TRUE(is_name(sample.name)) << line;
  std::size_t at = open;
  if (line[at] == '{') {
    ++at;
    while (line[at] != '}') {
      const std::size_t equal = line.find("=\"", at);
      ASSERT_NE(equal, std::string_view::npos) << line;
      const std::string label(line.substr(at, equal - at));
      ASSERT_TRUE(is_name(label) && label.find(':') == std::string::npos) << line;
      std::string value;
      for (at = equal + 2; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] == '\\') {
          ++at;
          ASSERT_TRUE(line[at] == '\\' || line[at] == '"' || line[at] == 'n') << line;
        }
        value += line[at];
      }
      ASSERT_LT(at + 1, line.size()) << line;
      ASSERT_TRUE(sample.labels.emplace(label, value).second) << "a label twice: " << line;
      ++at;
      if (line[at] == ',') ++at;
    }
    ++at;
  }
  ASSERT_EQ(line[at], ' ') << line;
  char* end = nullptr;
  const std::string number(line.substr(at + 1));
  sample.value = std::strtod(number.c_str(), &end);
  ASSERT_TRUE(end != number.c_str() && *end == 0) << line;
}

std::string family_of(const Exposition& all, const std::string& name) {
  if (all.types.contains(name)) return name;
  for (const char* end : {"_bucket", "_sum", "_count"})
    if (name.ends_with(end)) {
      const std::string family = name.substr(0, name.size() - std::string(end).size());
      const auto it = all.types.find(family);
      if (it != all.types.end() && it->second == "histogram") return family;
    }
  return {};
}

void read_exposition(const std::string& text, Exposition& all) {
  ASSERT_TRUE(text.ends_with('\n'));
  std::istringstream lines(text);
  std::string line, family;
  std::set<std::string> helped;
  while (std::getline(lines, line)) {
    ASSERT_FALSE(line.empty());
    if (line.starts_with("# ")) {
      std::istringstream words(line);
      std::string hash, kind, name, type;
      words >> hash >> kind >> name >> type;
      ASSERT_TRUE(kind == "HELP" || kind == "TYPE") << line;
      ASSERT_TRUE(is_name(name)) << line;
      family = name;
      if (kind == "HELP") {
        ASSERT_TRUE(helped.insert(name).second) << line;
        continue;
      }
      ASSERT_TRUE(type == "counter" || type == "gauge" || type == "histogram") << line;
      ASSERT_TRUE(all.types.emplace(name, type).second) << line;
      continue;
    }
    Sample sample;
    read_sample(line, sample);
    if (::testing::Test::HasFatalFailure()) return;
    ASSERT_EQ(family_of(all, sample.name), family) << "apart from its family: " << line;
    all.samples.push_back(std::move(sample));
  }
  ASSERT_EQ(helped.size(), all.types.size());
}

// Buckets ascend, the last is +Inf and equals the count.
void expect_histogram(const Exposition& all, const std::string& family) {
  double before = -1, last = -1, count = -2;
  std::string bound;
  for (const Sample& s : all.samples) {
    if (s.name == family + "_bucket") {
      EXPECT_GE(s.value, last) << family;
      last = s.value;
      bound = s.labels.at("le");
      if (bound != "+Inf") {
        EXPECT_GT(std::atof(bound.c_str()), before) << family;
        before = std::atof(bound.c_str());
      }
    }
    if (s.name == family + "_count") count = s.value;
  }
  EXPECT_EQ(bound, "+Inf") << family;
  EXPECT_EQ(last, count) << family;
}

class MetricsTest : public ApiTest {
 protected:
  Exposition exposition() {
    Exposition all;
    read_exposition(ask(port_, get("/metrics")).body, all);
    return all;
  }
  static double value(const Exposition& all, const std::string& name) {
    for (const Sample& s : all.samples)
      if (s.name == name) return s.value;
    ADD_FAILURE() << name << " is not exported";
    return -1;
  }
};

TEST_F(MetricsTest, AreInTheirFormatBeforeAndAfterRequests) {
  start();
  exposition();  // without a model
  load();
  const Exposition before = exposition();
  complete(R"({"prompt": "a>", "temperature": 0})");
  complete(R"({"prompt": "N", "max_tokens": 1})");
  const Exposition after = exposition();
  EXPECT_EQ(before.samples.size(), after.samples.size());  // no series comes late
  for (const auto& [name, type] : after.types) {
    if (type == "histogram") expect_histogram(after, name);
    if (type == "counter") {
      EXPECT_TRUE(name.ends_with("_total")) << name;
    }
  }
  for (const Sample& s : after.samples) EXPECT_EQ(s.labels.at("model_name"), "stub");
}

// vLLM's names, as its dashboards read them.
TEST_F(MetricsTest, AreCalledAsVllmCallsThem) {
  start();
  load();
  const Exposition all = exposition();
  for (const char* name :
       {"num_requests_running", "num_requests_waiting", "kv_cache_usage_perc",
        "prefix_cache_queries_total", "prefix_cache_hits_total", "num_preemptions_total",
        "prompt_tokens_total", "generation_tokens_total", "request_success_total"})
    EXPECT_TRUE(all.types.contains(std::string("vllm:") + name)) << name;
  for (const char* name :
       {"time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds",
        "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
        "request_prompt_tokens", "request_generation_tokens", "iteration_tokens_total"}) {
    const auto it = all.types.find(std::string("vllm:") + name);
    ASSERT_NE(it, all.types.end()) << name;
    EXPECT_EQ(it->second, "histogram") << name;
  }
}

// On the test's clock: a second in the queue, two in the prompt, four for the rest.
TEST_F(MetricsTest, TimesAreThoseOfTheClock) {
  start();
  load();
  close_gate();
  Client asks(port_);
  asks.send(post("/v1/completions", R"({"prompt": "a>", "temperature": 0})"));
  eventually([&] { return passes_seen_ == 1; }, "its first pass runs");
  clock_ = clock_ + 2;
  open_gate();
  EXPECT_EQ(asks.answer().value_or(Answer{}).status, 200);
  const Exposition all = exposition();
  EXPECT_EQ(value(all, "vllm:request_queue_time_seconds_sum"), 0);
  EXPECT_EQ(value(all, "vllm:request_prefill_time_seconds_sum"), 2);
  EXPECT_EQ(value(all, "vllm:time_to_first_token_seconds_sum"), 2);
  EXPECT_EQ(value(all, "vllm:request_decode_time_seconds_sum"), 0);
  EXPECT_EQ(value(all, "vllm:e2e_request_latency_seconds_sum"), 2);
  EXPECT_EQ(value(all, "vllm:request_queue_time_seconds_count"), 1);
  EXPECT_EQ(value(all, "vllm:inter_token_latency_seconds_count"), 4);
  EXPECT_EQ(value(all, "vllm:request_prompt_tokens_sum"), 2);
  EXPECT_EQ(value(all, "vllm:request_generation_tokens_sum"), 5);
  // The prompt's two tokens and five of the answer, the last of which is never computed: the end
  // comes behind the fifth.
  EXPECT_EQ(value(all, "vllm:iteration_tokens_total_count"), 6);
  EXPECT_EQ(value(all, "vllm:iteration_tokens_total_sum"), 7);
}

// Every metric that an expression of the dashboard names is exported.
TEST_F(MetricsTest, TheDashboardAsksForWhatThereIs) {
  start();
  load();
  const Exposition all = exposition();
  std::set<std::string> names;
  for (const Sample& s : all.samples) names.insert(s.name);
  std::ifstream file("docs/grafana/trireme.json");
  std::ostringstream text;
  text << file.rdbuf();
  const Json board = parse_json(text.str(), "docs/grafana/trireme.json");
  int asked = 0;
  for (const Json& panel : board.at("panels", "").array(""))
    for (const Json& target : panel.at("targets", "").array("")) {
      const std::string expression = target.at("expr", "").text("");
      for (const char* prefix : {"vllm:", "trireme:"})
        for (std::size_t at = 0; (at = expression.find(prefix, at)) != std::string::npos;) {
          const std::size_t end = expression.find_first_of("{[ )", at);
          const std::string name = expression.substr(at, end - at);
          EXPECT_TRUE(names.contains(name)) << name << " in " << expression;
          at = end;
          ++asked;
        }
    }
  EXPECT_GT(asked, 40);
}

}  // namespace
}  // namespace trireme::test
