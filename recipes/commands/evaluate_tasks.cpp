// Last words and multiple choices.
#include <algorithm>
#include <chrono>
#include <numeric>

#include "framework/base/error.h"
#include "recipes/commands/evaluate.h"
#include "recipes/commands/score_batches.h"

namespace trireme {

namespace {

constexpr std::int64_t kMicrosAtOnce = 4;
constexpr std::int64_t kLengthStep = 8;  // lengths are rounded up, so that few shapes come up

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

ScoreBatch batch_of(const std::vector<const ScoredText*>& texts, std::int64_t tokens) {
  ScoreBatch batch{.samples = std::ssize(texts), .tokens = tokens};
  batch.ids.assign(static_cast<std::size_t>(batch.samples * tokens), 0);
  batch.labels.assign(batch.ids.size(), -1);
  std::size_t row = 0;
  for (const ScoredText* text : texts) {
    std::copy(text->ids.begin(), text->ids.end() - 1,
              batch.ids.begin() + static_cast<std::ptrdiff_t>(row));
    for (std::size_t at = text->first; at < text->ids.size(); ++at)
      batch.labels[row + at - 1] = text->ids[at];
    row += static_cast<std::size_t>(tokens);
  }
  return batch;
}

// A question that fits, and where its answers stand among all texts.
struct Question {
  std::size_t first_text = 0, answer = 0;
  std::vector<double> bytes;  // of each choice, without blanks before it
};

struct Questions {
  std::vector<ScoredText> texts;
  std::vector<Question> all;
};

double bytes_of(const std::string& choice) {
  return static_cast<double>(choice.size() - choice.find_first_not_of(" \t\r\n\v\f"));
}

Questions questions_of(const ModelSource& source, const std::vector<TaskItem>& items,
                       const std::string& file, TaskResult& result) {
  const std::unique_ptr<Encoder> encoder = source.tokenizer->encoder();
  const std::vector<std::int32_t> start =
      source.start ? std::vector<std::int32_t>{*source.start} : std::vector<std::int32_t>{};
  const std::int64_t window = source.recipe.batch.sequence;
  Questions questions;
  for (const TaskItem& item : items) {
    const std::string place = join(file, ":", item.line);
    Question question{.first_text = questions.texts.size(), .answer = item.answer};
    std::int64_t longest = 0;
    for (const std::string& choice : item.choices) {
      try {
        questions.texts.push_back(scored_text(*encoder, start, item.context, choice));
      } catch (const Error& error) {
        throw Error(join(place, ": ", error.what()));
      }
      longest = std::max<std::int64_t>(longest, std::ssize(questions.texts.back().ids));
      question.bytes.push_back(bytes_of(choice));
    }
    if (longest - 1 <= window) {
      questions.all.push_back(std::move(question));
      continue;
    }
    questions.texts.resize(question.first_text);
    result.too_long.push_back(join(place, ": ", longest, " tokens, but batch.sequence = ", window,
                                   " takes at most ", window + 1, "; not scored"));
  }
  if (questions.all.empty())
    fail(file, ": no item fits into batch.sequence = ", window, ":\n", result.too_long.front());
  return questions;
}

void count_answers(const Questions& questions, const std::vector<SampleScore>& scores,
                   bool by_choice, TaskResult& result) {
  for (const Question& q : questions.all) {
    const SampleScore* at = scores.data() + q.first_text;
    result.nats += at[q.answer].loss;
    if (!by_choice) {
      result.right += at->likeliest ? 1 : 0;
      continue;
    }
    std::size_t best = 0, best_by_length = 0;  // the first of equals
    for (std::size_t i = 1; i < q.bytes.size(); ++i) {
      if (at[i].loss < at[best].loss) best = i;
      if (at[i].loss / q.bytes[i] < at[best_by_length].loss / q.bytes[best_by_length])
        best_by_length = i;
    }
    result.right += best == q.answer ? 1 : 0;
    result.right_by_length += best_by_length == q.answer ? 1 : 0;
  }
}

// Longest first; scores in the order given.
std::vector<SampleScore> score_texts(const Process& process, const OpenedModel& model,
                                     const std::vector<ScoredText>& texts) {
  const Recipe& recipe = model.source.recipe;
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return texts[a].ids.size() > texts[b].ids.size();
  });
  std::vector<SampleScore> scores(texts.size());
  ScoreLeader leader(process, model, std::ssize(texts), "texts");
  for (std::size_t done = 0; done < texts.size();) {
    const std::int64_t longest = std::ssize(texts[order[done]].ids) - 1;
    const std::int64_t tokens =
        std::min(recipe.batch.sequence, rounded_up(longest, kLengthStep * recipe.parallel.tensor));
    const std::int64_t at_once = recipe.parallel.data * kMicrosAtOnce *
                                 (recipe.batch.micro * recipe.batch.sequence / tokens);
    std::vector<const ScoredText*> some;
    for (std::size_t i = done; i < texts.size() && std::ssize(some) < at_once; ++i)
      some.push_back(&texts[order[i]]);
    for (const SampleScore& score : leader.score(batch_of(some, tokens)))
      scores[order[done++]] = score;
  }
  leader.end();
  return scores;
}

}  // namespace

ModelWork task_work(Process& process, const ModelSource& source, Task task, const std::string& file,
                    TaskResult& result) {
  result = {};
  const std::vector<TaskItem> items = read_items(process.files, file, task);
  const auto questions =
      std::make_shared<const Questions>(questions_of(source, items, file, result));
  result.items = std::ssize(items);
  result.scored = std::ssize(questions->all);
  return [&process, &result, questions, task](const OpenedModel& model) {
    const auto begin = std::chrono::steady_clock::now();
    count_answers(*questions, score_texts(process, model, questions->texts), task == Task::kChoice,
                  result);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
}

}  // namespace trireme
