#include "recipes/serve/pass_words.h"

#include <algorithm>

#include "framework/backend/host_values.h"
#include "framework/base/error.h"

namespace trireme {

namespace {

using Words = std::vector<std::int32_t>;

// A message is a head of this size, of which the first two words are kind and length, and a second
// message of what did not fit.
constexpr std::int64_t kHead = 256, kInHead = kHead - 2;
// Messages to the next stage that may be on their way.
constexpr std::size_t kInFlight = 4;

class Writer {
 public:
  void put(std::int64_t value) { words_.push_back(static_cast<std::int32_t>(value)); }
  template <typename T>
  void all(std::span<const T> values) {
    put(std::ssize(values));
    for (const T value : values) put(value);
  }
  Words words() && { return std::move(words_); }

 private:
  Words words_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::int32_t> words) : words_(words) {}
  std::int32_t take() { return take_some(1)[0]; }
  std::span<const std::int32_t> all() { return take_some(take()); }
  std::vector<std::int64_t> numbers() {
    const std::span<const std::int32_t> some = all();
    return {some.begin(), some.end()};
  }

 private:
  std::span<const std::int32_t> take_some(std::int64_t count) {
    check(count >= 0 && count <= std::ssize(words_), "a pass of ", words_.size(),
          " more words, where ", count, " are expected");
    const auto some = words_.first(static_cast<std::size_t>(count));
    words_ = words_.subspan(static_cast<std::size_t>(count));
    return some;
  }
  std::span<const std::int32_t> words_;
};

Words head_of(const PassMessage& message) {
  Words head(static_cast<std::size_t>(kHead));
  head[0] = static_cast<std::int32_t>(message.kind);
  head[1] = static_cast<std::int32_t>(message.words.size());
  const auto count = std::min<std::ptrdiff_t>(kInHead, std::ssize(message.words));
  std::copy_n(message.words.begin(), count, head.begin() + 2);
  return head;
}

Words rest_of(const PassMessage& message) {
  if (std::ssize(message.words) <= kInHead) return {};
  return {message.words.begin() + kInHead, message.words.end()};
}

// What a head says; the words behind it are still missing.
PassMessage message_of(const Words& head) {
  PassMessage message{.kind = static_cast<PassKind>(head[0])};
  message.words.resize(static_cast<std::size_t>(head[1]));
  const auto count = std::min<std::ptrdiff_t>(kInHead, std::ssize(message.words));
  std::copy_n(head.begin() + 2, count, message.words.begin());
  return message;
}

}  // namespace

std::vector<std::int32_t> words_of(const InferenceRows& rows) {
  Writer w;
  w.all(std::span<const std::int32_t>(rows.ids));
  w.put(std::ssize(rows.sequences));
  for (const PagedSequence& s : rows.sequences) {
    for (const std::int64_t x : {s.first_row, s.rows, s.first_position}) w.put(x);
    w.all(s.pages.first(static_cast<std::size_t>(pages_for(s.first_position + s.rows))));
  }
  w.all(std::span<const std::int64_t>(rows.logit_rows));
  w.all(std::span<const std::int64_t>(rows.top.rows));
  for (const std::int64_t x : {rows.top.count, rows.top.ids, std::int64_t{rows.top.sums}}) w.put(x);
  return std::move(w).words();
}

InferenceRows rows_of(std::span<const std::int32_t> words) {
  Reader reader(words);
  InferenceRows rows;
  const std::span<const std::int32_t> ids = reader.all();
  rows.ids.assign(ids.begin(), ids.end());
  for (std::int32_t n = reader.take(); n > 0; --n) {
    PagedSequence s;
    s.first_row = reader.take();
    s.rows = reader.take();
    s.first_position = reader.take();
    s.pages = reader.all();
    rows.sequences.push_back(s);
  }
  rows.logit_rows = reader.numbers();
  rows.top.rows = reader.numbers();
  rows.top.count = reader.take();
  rows.top.ids = reader.take();
  rows.top.sums = reader.take() != 0;
  return rows;
}

void PassRoute::send(Communicator& group, int to, const PassMessage& message,
                     std::deque<Pending>& sent) {
  for (const Words& words : {head_of(message), rest_of(message)}) {
    if (words.empty()) continue;
    Tensor t = backend_.allocate({std::ssize(words)}, DType::kI32, MemoryKind::kCommunication);
    upload_ids(backend_, words, t);
    sent.push_back(group.send(t, to));
  }
}

PassMessage PassRoute::receive(Communicator& group, int from) {
  const auto some = [&](std::int64_t count) {
    Words words(static_cast<std::size_t>(count));
    Tensor t = backend_.allocate({count}, DType::kI32, MemoryKind::kCommunication);
    group.recv(t, from).wait();
    backend_.download(t, words.data());
    return words;
  };
  PassMessage message = message_of(some(kHead));
  if (const std::int64_t rest = std::ssize(message.words) - kInHead; rest > 0) {
    const Words words = some(rest);
    std::copy(words.begin(), words.end(), message.words.begin() + kInHead);
  }
  return message;
}

void PassRoute::share(PassMessage& message) {
  Communicator& group = mesh_.tensor();
  if (group.size() == 1) return;
  const auto some = [&](Words words) {
    Tensor t = backend_.allocate({std::ssize(words)}, DType::kI32, MemoryKind::kCommunication);
    upload_ids(backend_, words, t);
    group.broadcast(t, 0).wait();
    backend_.download(t, words.data());
    return words;
  };
  const Words rest = rest_of(message);
  const bool tells = group.rank() == 0;
  const Words head = some(tells ? head_of(message) : Words(static_cast<std::size_t>(kHead)));
  if (!tells) message = message_of(head);
  const std::int64_t more = std::ssize(message.words) - kInHead;
  if (more <= 0) return;
  const Words words = some(tells ? rest : Words(static_cast<std::size_t>(more)));
  std::copy(words.begin(), words.end(), message.words.begin() + kInHead);
}

void PassRoute::to_next_stage(const PassMessage& message) {
  Communicator& stages = mesh_.pipeline();
  if (stages.rank() + 1 == stages.size()) return;
  while (sent_.size() >= kInFlight) sent_.pop_front();  // waits
  send(stages, stages.rank() + 1, message, sent_);
  if (message.kind == PassKind::kEnd) sent_.clear();
}

void PassRoute::tell_replica(int replica, const PassMessage& message) {
  std::deque<Pending> sent;
  send(mesh_.data(), replica, message, sent);
  for (Pending& pending : sent) pending.wait();
}

void PassRoute::hand_on(PassMessage& message) {
  share(message);
  to_next_stage(message);
}

PassMessage PassRoute::next() {
  PassMessage message;
  const int stage = mesh_.coord().pipeline;
  if (stage > 0) {
    message = receive(mesh_.pipeline(), stage - 1);
    to_next_stage(message);
    return message;
  }
  if (mesh_.coord().tensor == 0) message = receive(mesh_.data(), 0);
  hand_on(message);
  return message;
}

}  // namespace trireme
