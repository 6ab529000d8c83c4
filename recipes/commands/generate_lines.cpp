// JSON lines to JSON lines, answered many at a time.
//
// All lines are read and checked before the weights are: what is wrong with one is told at once.
// Answers are written in the order of the lines, into OUT.partial, which becomes OUT when all are
// there; --resume goes on behind what a run that was interrupted left of it. Under a launcher the
// process of rank 0 does all of that, the others are ranks and nothing else.
#include <algorithm>
#include <chrono>
#include <ostream>

#include "framework/base/error.h"
#include "recipes/chat/line_requests.h"
#include "recipes/commands/generate.h"
#include "recipes/commands/output_place.h"
#include "recipes/commands/standard_input.h"
#include "recipes/commands/text_engine.h"
#include "recipes/report/numbers.h"

namespace trireme {

namespace {

constexpr std::int64_t kAhead = 4;       // requests under way or waiting, for each that runs
constexpr std::int64_t kUnwritten = 64;  // answers that wait for an earlier one, for each

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Where answers go.
class AnswerFile {
 public:
  AnswerFile(Process& process, const GenerateWishes& wishes)
      : process_(process), path_(wishes.output) {
    if (path_ == "-") return;
    check_output_place(process.files, "output", path_);
    const bool whole = process.files.exists(path_), partial = process.files.exists(partial_path());
    if (whole && !wishes.overwrite)
      throw UsageError(join("--output: ", path_, " is there already; --overwrite replaces it"));
    if (partial && !wishes.resume && !wishes.overwrite)
      throw UsageError(join("--output: ", partial_path(),
                            " is what an interrupted run left: --resume goes on behind it, "
                            "--overwrite begins anew"));
    if (partial && wishes.overwrite) process.files.remove(partial_path());
    if (partial && wishes.resume) read_partial();
  }

  // What an earlier run wrote.
  const std::vector<std::string>& done() const { return done_; }
  std::string partial_path() const { return path_ + ".partial"; }

  void write(const std::string& line) {
    if (path_ == "-") {
      process_.out << line << "\n" << std::flush;
      check(static_cast<bool>(process_.out), "standard output takes no more lines");
      return;
    }
    if (!file_) file_ = process_.files.open(partial_path(), OpenMode::kAppend);
    file_->append(line + "\n");
  }

  void finish() {
    if (path_ == "-") return;
    if (!file_) file_ = process_.files.open(partial_path(), OpenMode::kAppend);
    file_->sync();
    file_->close();
    process_.files.rename(partial_path(), path_);
    process_.files.sync_directory(folder_of(path_));
  }

 private:
  // Its whole lines; what a kill left of another is cut off.
  void read_partial() {
    const std::string text = read_whole(process_.files, partial_path());
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      done_.push_back(text.substr(begin, end - begin));
    const auto file = process_.files.open(partial_path(), OpenMode::kReadWrite);
    file->truncate(static_cast<std::int64_t>(begin));
    file->close();
  }

  Process& process_;
  std::string path_;
  std::unique_ptr<File> file_;
  std::vector<std::string> done_;
};

struct InputLine {
  std::size_t begin = 0, size = 0;
  std::int64_t number = 0;  // of the file, from 1
};

TextEngineWishes engine_wishes(const GenerateWishes& wishes) {
  return {.sequences = wishes.sequences, .kv_bytes = wishes.kv_bytes};
}

CacheWish cache_wish(const GenerateWishes& wishes) {
  return {.bytes = wishes.kv_bytes, .whole = true, .texts = wishes.sequences};
}

// The part of a process that has not rank 0.
void follow_lines(Process& process, const CommandLine& line, const GenerateWishes& wishes) {
  std::optional<ServedModel> model;
  open_model(
      process, line, wishes.folder,
      [&](const ModelSource& source) {
        model.emplace(served_model(process.files, source, folder_name(wishes.folder)));
        return [&](const OpenedModel& opened) {
          with_text_engine(opened, *model, engine_wishes(wishes), {});
        };
      },
      cache_wish(wishes));
}

class LinesMaker {
 public:
  LinesMaker(Process& process, const GenerateWishes& wishes)
      : process_(process),
        wishes_(wishes),
        file_(process, wishes),
        console_(process.err, process.terminal, nullptr) {
    const bool standard = wishes.input == "-";
    if (!standard && process.files.status(wishes.input).kind != FileKind::kFile)
      throw UsageError(join("--input: there is no file ", wishes.input));
    name_ = standard ? "standard input" : wishes.input;
    text_ = standard ? read_standard_input() : read_whole(process.files, wishes.input);
  }

  // Before any rank starts.
  ModelWork prepare(const ModelSource& source) {
    if (source.recipe.model.family == "mlp")
      throw UsageError(
          "generate: --input needs a model that continues texts; "
          "model.family = mlp classifies");
    model_.emplace(served_model(process_.files, source, folder_name(wishes_.folder)));
    encoder_ = source.tokenizer->encoder();
    read_lines();
    skip_done();
    return [this](const OpenedModel& opened) {
      with_text_engine(opened, *model_, engine_wishes(wishes_),
                       [&](const TextEngine& text) { work(text); });
    };
  }

  int finish() {
    console_.clear();
    const double seconds = now() - begun_;
    std::string told = join(written_, written_ == 1 ? " answer" : " answers");
    if (bad_ > 0) told += join(", ", bad_, " bad lines passed over");
    if (failed_ > 0) told += join(", ", failed_, " with an error");
    if (begun_ > 0)
      told += join("; ", grouped(tokens_), " tokens in ", duration_text(seconds), ", ",
                   fixed(static_cast<double>(tokens_) / seconds, 1), " tokens/s");
    const bool whole = written_ == std::ssize(lines_);
    if (whole)
      file_.finish();
    else
      told += wishes_.output == "-"
                  ? join("; interrupted, ", std::ssize(lines_) - written_, " lines are left")
                  : join("; interrupted: what is done is in ", file_.partial_path(),
                         ", --resume goes on");
    process_.err << told << "\n" << std::flush;
    return !whole ? kInterrupted : failed_ > 0 ? 1 : 0;
  }

 private:
  struct Pending {
    LineRequest asked;
    LineAnswer answer;
    bool ended = false;
  };

  void read_lines() {
    lines_.clear();
    bad_ = 0;
    std::int64_t number = 0;
    for (std::size_t begin = 0; begin < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      InputLine line{begin, end - begin, ++number};
      begin = end + 1;
      const std::string_view said = text_of(line);
      if (said.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      try {
        read(line);
        lines_.push_back(line);
      } catch (const Error& error) {
        const std::string sentence = join(name_, ":", number, ": ", error.what());
        if (!wishes_.skip_bad) throw Error(sentence + "; --skip-bad passes such lines over");
        process_.err << sentence << "\n";
        ++bad_;
      }
    }
  }

  // Behind what --resume found.
  void skip_done() {
    const std::vector<std::string>& done = file_.done();
    check(std::ssize(done) <= std::ssize(lines_), file_.partial_path(), " has ", done.size(),
          " answers, ", name_, " has ", lines_.size(),
          " lines: is it the same input? --overwrite begins anew");
    for (std::size_t i = 0; i < done.size(); ++i)
      check(answers(done[i], read(lines_[i]).given), file_.partial_path(), ":", i + 1,
            ": this is no answer to ", name_, ":", lines_[i].number,
            ": is it the same input? --overwrite begins anew");
    next_ = done.size();
    written_ = std::ssize(done);
  }

  std::string_view text_of(const InputLine& line) const {
    return std::string_view(text_).substr(line.begin, line.size);
  }
  LineRequest read(const InputLine& line) {
    return read_line_request(text_of(line), *model_, wishes_.settings, *encoder_);
  }

  void work(const TextEngine& text) {
    if (next_ == lines_.size()) return;
    begun_ = now();
    while (written_ < std::ssize(lines_)) {
      if (process_.signals.load() > 0) return;
      while (next_ < lines_.size() && running_ < kAhead * wishes_.sequences &&
             std::ssize(pending_) < kUnwritten * wishes_.sequences)
        submit(text);
      text.engine.step();
      write_ready();
      console_.bar(written_, std::ssize(lines_),
                   join(fixed(static_cast<double>(tokens_) / std::max(1e-9, now() - begun_), 1),
                        " tokens/s"));
    }
  }

  void submit(const TextEngine& text) {
    const InputLine& line = lines_[next_++];
    auto pending = std::make_shared<Pending>(Pending{.asked = read(line)});
    pending_.push_back(pending);
    try {
      ++running_;
      text.engine.submit(pending->asked.request, [this, pending](GenerationEvent&& event) {
        pending->answer.text += event.text;
        tokens_ += std::ssize(event.tokens);
        if (!event.last) return;
        --running_;
        pending->ended = true;
        pending->answer.reason = *event.finish;
        pending->answer.error = event.error;
        pending->answer.prompt_tokens = event.prompt_tokens;
        pending->answer.completion_tokens = event.output_tokens;
      });
    } catch (const RequestRefused& refused) {  // the cache has less room than the model
      throw Error(
          join(name_, ":", line.number, ": ", refused.what(), "; --kv-cache gives it more room"));
    }
  }

  void write_ready() {
    while (!pending_.empty() && pending_.front()->ended) {
      const Pending& first = *pending_.front();
      if (first.answer.reason == FinishReason::kError) ++failed_;
      file_.write(answer_line(first.asked, first.answer));
      pending_.pop_front();
      ++written_;
    }
  }

  Process& process_;
  const GenerateWishes& wishes_;
  AnswerFile file_;
  Console console_;
  std::string name_, text_;
  std::optional<ServedModel> model_;
  std::unique_ptr<Encoder> encoder_;
  std::vector<InputLine> lines_;  // the good ones
  std::deque<std::shared_ptr<Pending>> pending_;
  std::size_t next_ = 0;
  std::int64_t running_ = 0, written_ = 0, bad_ = 0, failed_ = 0, tokens_ = 0;
  double begun_ = 0;
};

}  // namespace

int generate_lines(Process& process, const CommandLine& line, const GenerateWishes& wishes) {
  if (!leads(process)) {
    follow_lines(process, line, wishes);
    return 0;
  }
  GenerateWishes own = wishes;
  LinesMaker maker(process, own);
  open_model(
      process, line, wishes.folder,
      [&](const ModelSource& source) {
        use_defaults(source.drawing, line, own.settings.sampling);
        return maker.prepare(source);
      },
      cache_wish(wishes));
  return maker.finish();
}

}  // namespace trireme
