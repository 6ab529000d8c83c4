#include "framework/data/record_tokens.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <thread>

#include "framework/base/error.h"

namespace trireme {

namespace {

constexpr std::size_t kBatch = std::size_t{1} << 20;  // bytes of lines, a thread

struct Made {
  DocumentTokens tokens;
  std::vector<std::string> roles;
  std::string bad;  // its sentence; empty: it is good
};

class RecordEncoder {
 public:
  RecordEncoder(const Tokenizer& tokenizer, const RecordOptions& options, const std::string& path)
      : tokenizer_(tokenizer), options_(options), path_(path) {
    if (is_chat(options.form)) conversations_.emplace(tokenizer, options.loss_on);
    for (int i = 0; i < std::max(1, options.threads); ++i) encoders_.push_back(tokenizer.encoder());
  }

  std::vector<Made> encode(const std::vector<Line>& lines) {
    std::vector<Made> made(lines.size());
    const std::size_t workers = std::min(encoders_.size(), lines.size());
    std::vector<std::exception_ptr> failures(workers);
    std::atomic<std::size_t> next{0};
    const auto work = [&](std::size_t worker) {
      try {
        for (std::size_t i = next++; i < lines.size(); i = next++)
          made[i] = encode(lines[i], *encoders_[worker]);
      } catch (...) {
        failures[worker] = std::current_exception();
      }
    };
    std::vector<std::thread> others;
    try {
      for (std::size_t worker = 1; worker < workers; ++worker) others.emplace_back(work, worker);
    } catch (const std::exception&) {
      // Fewer threads, or none, are only slower.
    }
    if (workers > 0) work(0);
    for (std::thread& other : others) other.join();
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);
    return made;
  }

 private:
  // Throws no Error: a bad line may be passed over.
  Made encode(const Line& line, Encoder& encoder) const {
    Made made;
    try {
      const Record record = record_of(line, options_.form, path_);
      if (conversations_)
        conversation(record, encoder, made);
      else
        text(record, encoder, made.tokens);
      made.tokens.line = line.number;
    } catch (const BadLine& error) {
      made.bad = error.what();
    } catch (const Error& error) {
      made.bad = bad_line(path_, line, 1, error.what());
    }
    return made;
  }

  void conversation(const Record& record, Encoder& encoder, Made& made) const {
    made.tokens = conversations_->encode(record.messages, record.tools, encoder);
    made.tokens.turns = std::ssize(record.messages.array("messages"));
    for (const Json& message : record.messages.array("messages"))
      made.roles.push_back(message.at("role", "message").text("\"role\""));
  }

  void text(const Record& record, Encoder& encoder, DocumentTokens& tokens) const {
    encoder.encode(record.text, tokens.ids);
    if (const auto eos = tokenizer_.settings().eos) tokens.ids.push_back(*eos);
    tokens.trained.assign(tokens.ids.size(), 1);
  }

  const Tokenizer& tokenizer_;
  const RecordOptions& options_;
  const std::string& path_;
  std::optional<ConversationEncoder> conversations_;
  std::vector<std::unique_ptr<Encoder>> encoders_;
};

void add_roles(const std::vector<std::string>& roles, RecordCounts& counts) {
  for (const std::string& role : roles)
    if (std::find(counts.roles.begin(), counts.roles.end(), role) == counts.roles.end())
      counts.roles.push_back(role);
}

void count(const Made& made, const RecordOptions& options, RecordCounts& counts) {
  if (made.bad.empty()) {
    ++counts.documents;
    add_roles(made.roles, counts);
    return;
  }
  check(options.skip_bad, made.bad, "\ndata.skip_bad = true passes over such lines");
  if (++counts.bad == 1) counts.first_bad = made.bad;
}

std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::ptrdiff_t at = std::ssize(text) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string counted(std::int64_t number, const std::string& what) {
  return join(grouped(number), " ", what, number == 1 ? "" : "s");
}

}  // namespace

void RecordCounts::add(const RecordCounts& next) {
  documents += next.documents;
  if (bad == 0) first_bad = next.first_bad;
  bad += next.bad;
  add_roles(next.roles, *this);
  text_hash = next.text_hash;
  text_bytes += next.text_bytes;
}

RecordCounts encode_records(Files& files, const std::string& path, const Tokenizer& tokenizer,
                            const RecordOptions& options,
                            const std::function<void(const DocumentTokens&)>& take) {
  TextStream stream(files, path);
  LineReader lines(stream);
  RecordEncoder encoder(tokenizer, options, path);
  const std::size_t enough = kBatch * static_cast<std::size_t>(std::max(1, options.threads));
  RecordCounts counts;
  for (bool more = true; more;) {
    std::vector<Line> batch;
    Line line;
    for (std::size_t bytes = 0; bytes < enough && (more = lines.next(line));) {
      bytes += line.text.size() + sizeof line;
      batch.push_back(std::move(line));
    }
    for (const Made& made : encoder.encode(batch)) {
      count(made, options, counts);
      if (made.bad.empty()) take(made.tokens);
    }
    if (options.progress) options.progress(stream.file_read(), stream.file_bytes());
  }
  check(counts.documents > 0, path, " has no document",
        counts.bad == 0 ? "" : "; the first bad line: ", counts.first_bad);
  counts.text_hash = stream.hash();
  counts.text_bytes = stream.text_bytes();
  return counts;
}

std::string about_records(RecordForm form, const RecordCounts& counts) {
  constexpr std::size_t kLongest = 160, kRoles = 60;
  std::string about = join(name_of(form), ", ",
                           counted(counts.documents, is_chat(form) ? "conversation" : "document"));
  std::string roles;
  for (const std::string& role : counts.roles)
    roles += (roles.empty() ? "" : "/") + without_controls(role);
  if (roles.size() > kRoles) roles = join(counts.roles.size(), " of them");
  if (!roles.empty()) about += ", roles " + roles;
  if (counts.bad > 0) about += ", " + counted(counts.bad, "bad line") + " passed over";
  return about.substr(0, kLongest);
}

}  // namespace trireme
