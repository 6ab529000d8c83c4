#include "recipes/commands/task_items.h"

#include <algorithm>

#include "framework/base/error.h"
#include "framework/base/json/json.h"
#include "framework/data/records.h"
#include "framework/data/text_stream.h"

namespace trireme {

namespace {

constexpr const char* kBlanks = " \t\r\n\v\f";

TaskItem lambada_item(const Json& json, const std::string& place) {
  std::string text = json.at("text", place).text(place + ": text");
  text.resize(text.find_last_not_of(kBlanks) + 1);
  const std::size_t blank = text.find_last_of(kBlanks);
  check(blank != std::string::npos && text.find_first_not_of(kBlanks) < blank, place,
        ": text: two words at least are needed, one to be said and one before it");
  TaskItem item;
  item.context = text.substr(0, blank);
  item.choices = {text.substr(blank)};
  return item;
}

TaskItem choice_item(const Json& json, const std::string& place) {
  TaskItem item;
  item.context = json.at("context", place).text(place + ": context");
  for (const Json& choice : json.at("choices", place).array(place + ": choices")) {
    item.choices.push_back(choice.text(place + ": choices"));
    check(item.choices.back().find_first_not_of(kBlanks) != std::string::npos, place,
          ": choices: number ", item.choices.size() - 1, " is blank");
  }
  check(item.choices.size() >= 2, place, ": choices: there are ", item.choices.size(),
        "; two at least are needed");
  const std::int64_t answer = json.at("answer", place).integer(place + ": answer");
  check(answer >= 0 && answer < std::ssize(item.choices), place, ": answer = ", answer,
        ": the number of a choice is expected, 0 to ", item.choices.size() - 1);
  item.answer = static_cast<std::size_t>(answer);
  return item;
}

// What is wrong is told with its line of the file, not with line 1 of a line.
Json parse_line(const Line& line, const std::string& path) {
  try {
    return parse_json(line.text, path);
  } catch (const Error& error) {
    const std::string told = error.what(), first = path + ":1:";
    if (!told.starts_with(first)) throw;
    throw Error(join(path, ":", line.number, ":", told.substr(first.size())));
  }
}

}  // namespace

std::vector<TaskItem> read_items(Files& files, const std::string& path, Task task) {
  TextStream text(files, path);
  LineReader lines(text);
  std::vector<TaskItem> items;
  for (Line line; lines.next(line);) {
    const std::string place = join(path, ":", line.number);
    const Json json = parse_line(line, path);
    check(json.is(Json::Kind::kObject), place, ": an object is expected, here is ", describe(json));
    items.push_back(task == Task::kLambada ? lambada_item(json, place) : choice_item(json, place));
    items.back().line = line.number;
  }
  check(!items.empty(), path, " has no items: each line is a JSON object");
  return items;
}

ScoredText scored_text(Encoder& encoder, const std::vector<std::int32_t>& start,
                       const std::string& context, const std::string& continuation) {
  ScoredText text{.ids = start, .first = 0};
  std::vector<std::int32_t> before = start;
  encoder.encode(context, before);
  encoder.encode(context + continuation, text.ids);
  const auto shorter = std::min(before.size(), text.ids.size());
  text.first = static_cast<std::size_t>(
      std::mismatch(text.ids.begin(), text.ids.begin() + static_cast<std::ptrdiff_t>(shorter),
                    before.begin())
          .first -
      text.ids.begin());
  check(text.first > 0, "nothing stands before the first token to be scored: the context is empty");
  check(text.first < text.ids.size(), "to the tokenizer the last words add nothing");
  return text;
}

}  // namespace trireme
