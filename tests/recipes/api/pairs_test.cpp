// Every field of the API beside every other: absent, at its least, at its most, just above, and of
// a wrong type. Values and fields are those of /openapi.json, so that a new field is tested, too.
#include <random>
#include <set>

#include "tests/recipes/api/api_fixture.h"
#include "tests/recipes/api/schema_values.h"

namespace trireme::test {
namespace {

struct Field {
  std::string name;
  std::vector<std::string> good, bad;  // as JSON; the first good one is empty: absent
};

// Fields whose legal values depend on others: these pairs may be refused, by one of these names.
const std::set<std::string> kTogether{"min_tokens",
                                      "max_tokens",
                                      "max_completion_tokens",
                                      "stream_options",
                                      "stream",
                                      "top_logprobs",
                                      "logprobs",
                                      "n",
                                      "best_of",
                                      "messages",
                                      "echo",
                                      "prompt",
                                      "add_generation_prompt",
                                      "continue_final_message"};

Field field_of(const std::string& name, const Json& told) {
  Field field{.name = name, .good = {""}, .bad = {"[[[]]]"}};
  const SchemaValues values = values_of(told);
  for (const std::string& good : values.good) {
    const bool length = name.starts_with("max_") || name == "min_tokens";
    if (length && good.size() > 4) continue;  // more than the context
    field.good.push_back(name == "model" ? "\"stub\"" : good);
  }
  // A pair is about two fields, not about every way in which one can be wrong.
  for (std::size_t i = 0; i < values.bad.size(); i += 1 + values.bad.size() / 8)
    field.bad.push_back(values.bad[i]);
  return field;
}

class PairsTest : public ApiTest {
 protected:
  std::vector<Field> fields_of(const std::string& path, const std::string& required) {
    const Json described = json(ask(port_, get("/openapi.json")));
    const Json& schema = described.at("paths", "")
                             .at(path, "")
                             .at("post", "")
                             .at("requestBody", "")
                             .at("content", "")
                             .at("application/json", "")
                             .at("schema", "");
    std::vector<Field> all;
    for (const auto& [name, told] : schema.at("properties", "").object(""))
      if (name != required) all.push_back(field_of(name, told));
    return all;
  }
  Answer send(const std::string& path, const std::string& body) {
    if (!client_) client_ = std::make_unique<Client>(port_);
    client_->send(post(path, body));
    const auto answer = client_->answer();
    EXPECT_TRUE(answer) << "no answer to " << body;
    return answer.value_or(Answer{});
  }
  // What is legal is answered; what is not is refused with one of its fields' names.
  void expect(const std::string& path, const std::string& required,
              const std::vector<std::pair<std::string, std::string>>& values,
              const std::set<std::string>& bad) {
    std::string body = required;
    for (const auto& [name, value] : values)
      if (!value.empty()) body += ", \"" + name + "\": " + value;
    const Answer answer = send(path, body + "}");
    ++asked;
    if (answer.status == 200) {
      EXPECT_TRUE(bad.empty()) << body << answer.body.substr(0, 200);
      return;
    }
    ASSERT_EQ(answer.status, 400) << body << answer.body.substr(0, 300);
    const Json error = json(answer).at("error", "");
    EXPECT_EQ(error.at("type", "").text(""), "invalid_request_error");
    const Json& param = error.at("param", "");
    if (param.is_null()) {  // no number at all: refused as it is read
      EXPECT_FALSE(bad.empty()) << body << answer.body;
      return;
    }
    const std::string name = param.text("").substr(0, param.text("").find('.'));
    EXPECT_TRUE(bad.contains(name) || kTogether.contains(name)) << body << answer.body;
    ++refused;
  }

  void try_route(const std::string& path, const std::string& required_field,
                 const std::string& required) {
    const std::vector<Field> fields = fields_of(path, required_field);
    ASSERT_GT(fields.size(), 20u);
    const auto picked = [&](std::mt19937_64& random) {
      std::vector<std::pair<std::string, std::string>> values;
      for (const Field& f : fields) values.emplace_back(f.name, f.good[random() % f.good.size()]);
      return values;
    };
    std::mt19937_64 random(7);
    // All legal pairs: rows of random values until none is left.
    std::set<std::array<std::string, 4>> left;
    for (const Field& a : fields)
      for (const Field& b : fields)
        if (a.name < b.name)
          for (const std::string& x : a.good)
            for (const std::string& y : b.good) left.insert({a.name, x, b.name, y});
    const std::size_t pairs = left.size();
    for (int row = 0; row < 2000 && !left.empty(); ++row) {
      std::vector<std::pair<std::string, std::string>> best;
      std::size_t most = 0;
      for (int i = 0; i < 4; ++i) {
        auto values = picked(random);
        if (i < 3) {  // one that is left for certain
          auto it = left.begin();
          std::advance(it, static_cast<std::ptrdiff_t>(random() % left.size()));
          for (auto& [name, value] : values)
            value = name == (*it)[0] ? (*it)[1] : name == (*it)[2] ? (*it)[3] : value;
        }
        std::size_t covers = 0;
        for (const auto& [a, x] : values)
          for (const auto& [b, y] : values) covers += a < b && left.contains({a, x, b, y});
        if (covers >= most) most = covers, best = std::move(values);
      }
      for (const auto& [a, x] : best)
        for (const auto& [b, y] : best) left.erase({a, x, b, y});
      expect(path, required, best, {});
      if (HasFatalFailure()) return;
    }
    EXPECT_TRUE(left.empty()) << left.size() << " of " << pairs << " pairs were not tried";
    // Every bad value beside legal ones, and beside a bad one of every other field.
    for (const Field& a : fields)
      for (const std::string& x : a.bad) {
        auto values = picked(random);
        for (auto& [name, value] : values)
          if (name == a.name) value = x;
        expect(path, required, values, {a.name});
        if (HasFatalFailure()) return;
      }
    for (std::size_t i = 0; i < fields.size(); ++i)
      for (std::size_t j = i + 1; j < fields.size(); ++j) {
        const Field &a = fields[i], &b = fields[j];
        expect(path, required,
               {{a.name, a.bad[random() % a.bad.size()]}, {b.name, b.bad[random() % b.bad.size()]}},
               {a.name, b.name});
        if (HasFatalFailure()) return;
      }
  }

  std::unique_ptr<Client> client_;
  int asked = 0, refused = 0;
};

TEST_F(PairsTest, OfCompletions) {
  start({.api = {.limits = {.bias = 200}}});  // of 256 ids
  load();
  try_route("/v1/completions", "prompt", R"({"prompt": "a>")");
  EXPECT_GT(asked, 400);
  EXPECT_GT(refused, 300);
  EXPECT_EQ(complete(R"({"prompt": "a>", "temperature": 0})").status, 200);
}

TEST_F(PairsTest, OfChats) {
  start({.api = {.limits = {.bias = 200}}});  // of 256 ids
  load();
  try_route("/v1/chat/completions", "messages",
            R"({"messages": [{"role": "user", "content": "a"}])");
  EXPECT_GT(asked, 400);
  EXPECT_GT(refused, 300);
  EXPECT_EQ(chat(R"({"messages": [{"role": "user", "content": "a"}]})").status, 200);
}

}  // namespace
}  // namespace trireme::test
