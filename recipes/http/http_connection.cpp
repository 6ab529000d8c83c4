#include "recipes/http/http_connection.h"

#include <netinet/tcp.h>

#include <algorithm>
#include <boost/asio/write.hpp>
#include <new>

#include "framework/base/error.h"

namespace trireme {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr std::size_t kAhead = 64 << 10;   // bytes of coming requests that are kept
constexpr std::size_t kBehind = 64 << 10;  // bytes of answers before the next request is begun
constexpr double kDrainSeconds = 2;
// Bytes that the system takes ahead of what the client has room for. (A smaller send buffer would
// do that, too, and make each of its fillings wait for a delayed acknowledgement.)
constexpr int kSystemKeeps = 128 << 10;

class Reply final : public HttpReply {
 public:
  Reply(std::shared_ptr<HttpConnection> connection, std::uint64_t number)
      : connection_(std::move(connection)), number_(number) {}
  void send(const HttpResponse& response) override { connection_->send(number_, response); }
  void begin(const HttpResponse& head) override { connection_->begin(number_, head); }
  void write(std::string_view piece) override { connection_->write(number_, piece); }
  void end() override { connection_->end(number_); }
  void drop() override { connection_->drop(number_); }
  void when_gone(std::function<void()> call) override {
    connection_->when_gone(number_, std::move(call));
  }
  void when_full(std::function<void(bool)> call) override {
    connection_->when_full(number_, std::move(call));
  }

 private:
  std::shared_ptr<HttpConnection> connection_;
  std::uint64_t number_;
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

}  // namespace

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, HttpShared& shared)
    : socket_(std::move(socket)), shared_(shared), id_(++shared.connections) {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  // Where the system does not know it, it keeps more.
  static_cast<void>(::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT,
                                 &kSystemKeeps, sizeof kSystemKeeps));
  since_ = moved_ = spoken_ = shared_.now();
}

// What fails is the end of this connection alone.
template <typename F>
void HttpConnection::guarded(F f) noexcept {
  try {
    f();
  } catch (const std::bad_alloc&) {
    no_memory();
  } catch (...) {
    close();
  }
}

// An operation of the system needs a little memory to begin: it gets a second chance.
template <typename F>
void HttpConnection::begin_operation(F f) noexcept {
  for (int tries = 2; tries-- > 0;) try {
      return f();
    } catch (...) {
    }
  close();
}

// Says so, if nothing was said of this request yet.
void HttpConnection::no_memory() noexcept {
  if (state_ == State::kClosed) return;
  if (state_ == State::kDraining || streaming_) return close();
  try {
    if (state_ == State::kReplying) leave();
    refuse({503, "out of memory"});
  } catch (...) {
    close();
  }
}

// The client's going, told to who answers it.
void HttpConnection::leave() noexcept {
  ++shared_.counts.gone;
  try {
    if (gone_) std::exchange(gone_, nullptr)();
  } catch (...) {  // then its answer is made for nobody
  }
}

void HttpConnection::start() { read(); }

void HttpConnection::turn_away() {
  guarded([&] {
    refuse({503, join("the server has its ", shared_.options.connections, " connections")});
  });
  read();
}

void HttpConnection::read() {
  if (reading_ || state_ == State::kClosed) return;
  if (state_ != State::kDraining && in_.size() >= kAhead) return;
  reading_ = true;
  begin_operation([&] {
    socket_.async_read_some(asio::buffer(chunk_),
                            [self = shared_from_this()](const error_code& error, std::size_t n) {
                              self->reading_ = false;
                              self->guarded([&] { self->came(static_cast<bool>(error), n); });
                            });
  });
}

void HttpConnection::came(bool failed, std::size_t bytes) {
  if (state_ == State::kClosed) return;
  if (failed) {
    if (unread() == 0 || state_ == State::kBody || state_ == State::kReplying) return close();
    heard_all_ = reading_ = true;  // it may still read
    state_ = State::kDraining;
    since_ = shared_.now();
    return;
  }
  if (state_ != State::kDraining) {
    if (in_.empty() && state_ == State::kHead) since_ = shared_.now();
    in_.append(chunk_.data(), bytes);
    advance();
  }
  read();
}

// As many requests as are whole, one after the other.
void HttpConnection::advance() {
  if (advancing_) return;
  advancing_ = true;
  while ((state_ == State::kHead && out_.size() < kBehind && advance_head()) ||
         (state_ == State::kBody && advance_body())) {
  }
  advancing_ = false;
}

// False if there is nothing more to do now.
bool HttpConnection::advance_head() {
  if (in_.starts_with("\r\n")) in_.erase(0, 2);  // some clients put one behind a body
  const std::size_t size = head_size(in_);
  const std::string_view head = std::string_view(in_).substr(0, size);
  if (auto problem = head_problem(head, shared_.options.head)) {
    refuse(*problem);
    return false;
  }
  if (size == std::string_view::npos) return false;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(shared_.options.head.bytes + 1));
  parser_->body_limit(shared_.options.body);
  parser_->eager(false);
  error_code error;
  parser_->put(asio::buffer(in_.data(), size), error);
  if (error == http::error::body_limit)
    return refuse({413, join("the body has more than ", shared_.options.body, " bytes")}), false;
  if ((error && error != http::error::need_more) || !parser_->is_header_done())
    return refuse({400, "the head of the request is not understood"}), false;
  in_.erase(0, size);
  request_ = {.connection = id_};
  const auto& message = parser_->get();
  request_.method = std::string(message.method_string());
  const std::string target(message.target());
  const std::size_t question = std::min(target.find('?'), target.size());
  request_.path = target.substr(0, question);
  if (question < target.size()) request_.query = target.substr(question + 1);
  for (const auto& field : message)
    request_.fields.emplace_back(lower({field.name_string().data(), field.name_string().size()}),
                                 std::string(field.value()));
  version_1_0_ = message.version() == 10;
  keeps_ = message.keep_alive();
  head_only_ = request_.method == "HEAD";
  if (auto problem = fields_problem(request_, version_1_0_)) return refuse(*problem), false;
  state_ = State::kBody;
  since_ = shared_.now();
  if (!request_.field("expect").empty() && !version_1_0_ && in_.empty())
    put("HTTP/1.1 100 Continue\r\n\r\n");
  parser_->eager(true);
  return true;
}

bool HttpConnection::advance_body() {
  error_code error;
  while (!parser_->is_done() && !in_.empty() && !error) {
    const std::size_t used = parser_->put(asio::buffer(in_), error);
    in_.erase(0, used);
    if (used == 0 && !error) break;
  }
  if (!parser_->is_done() && (!error || error == http::error::need_more)) {
    if (in_.size() > shared_.options.head.bytes)  // a line between chunks that never ends
      refuse({400, "the body's chunks are not understood"});
    return false;
  }
  if (error == http::error::body_limit)
    return refuse({413, join("the body has more than ", shared_.options.body, " bytes")}), false;
  if (error && !parser_->is_done())
    return refuse({400, "the body's chunks are not understood"}), false;
  request_.body = std::move(parser_->get().body());
  parser_.reset();
  dispatch();
  return true;
}

void HttpConnection::dispatch() {
  state_ = State::kReplying;
  streaming_ = false;
  ++number_;
  ++shared_.counts.requests;
  const HttpRequest request = std::move(request_);
  const auto reply = std::make_shared<Reply>(shared_from_this(), number_);
  try {
    shared_.handler(request, reply);
  } catch (const std::exception& error) {
    if (streaming_) return close();
    HttpResponse response{.status = 500, .type = "text/plain", .body = reason_of(error) + "\n"};
    if (shared_.options.refusal) response = shared_.options.refusal({500, reason_of(error)});
    send(number_, response);
  }
}

// The last answer of the connection.
void HttpConnection::refuse(const HttpProblem& problem) {
  ++shared_.counts.refused;
  HttpResponse response{
      .status = problem.status, .type = "text/plain", .body = problem.sentence + "\n"};
  if (shared_.options.refusal) response = shared_.options.refusal(problem);
  keeps_ = false;
  in_.clear();
  state_ = State::kDraining;
  since_ = shared_.now();
  put(head_of(response, false) + response.body);
}

std::string HttpConnection::head_of(const HttpResponse& response, bool stream) const {
  std::string head = join("HTTP/1.1 ", response.status, " ", reason_phrase(response.status),
                          "\r\nContent-Type: ", response.type,
                          "\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n");
  for (const auto& [name, value] : response.fields) head += name + ": " + value + "\r\n";
  if (!stream)
    head += join("Content-Length: ", response.body.size(), "\r\n");
  else if (!version_1_0_)
    head += "Transfer-Encoding: chunked\r\n";
  return head + (keeps_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

void HttpConnection::send(std::uint64_t number, const HttpResponse& response) {
  if (!answers(number) || streaming_) return;
  if (shared_.finishing) keeps_ = false;
  std::string text = head_of(response, false);
  if (!head_only_) text += response.body;
  put(text);
  next_request();
}

void HttpConnection::begin(std::uint64_t number, const HttpResponse& head) {
  if (!answers(number) || streaming_) return;
  if (version_1_0_) keeps_ = false;  // the end of the connection is that of the stream
  spoken_ = shared_.now();
  put(head_of(head, true));
  streaming_ = true;
}

void HttpConnection::write(std::uint64_t number, std::string_view piece) {
  if (!answers(number) || !streaming_ || piece.empty()) return;
  spoken_ = shared_.now();
  if (version_1_0_) {
    put(piece);
  } else {
    std::string size;
    for (std::size_t n = piece.size(); n > 0; n /= 16)
      size.insert(0, 1, "0123456789abcdef"[n % 16]);
    put(size + "\r\n" + std::string(piece) + "\r\n");
  }
  look_at_unread();
}

// Tells once that it is too much, and once that it no longer is.
void HttpConnection::look_at_unread() {
  const std::size_t limit = shared_.options.unsent;
  const bool full = unread() > (is_full_ ? limit / 2 : limit);
  if (full == is_full_ || !full_) return;
  is_full_ = full;
  full_(full);
}

void HttpConnection::end(std::uint64_t number) {
  if (!answers(number) || !streaming_) return;
  if (!version_1_0_) put("0\r\n\r\n");
  next_request();
}

void HttpConnection::drop(std::uint64_t number) {
  if (answers(number)) close();
}

void HttpConnection::when_gone(std::uint64_t number, std::function<void()> call) {
  if (answers(number)) gone_ = std::move(call);
}

void HttpConnection::when_full(std::uint64_t number, std::function<void(bool)> call) {
  if (answers(number)) full_ = std::move(call);
}

void HttpConnection::next_request() {
  gone_ = nullptr;
  full_ = nullptr;
  streaming_ = is_full_ = false;
  state_ = keeps_ ? State::kHead : State::kDraining;
  since_ = shared_.now();
  if (!keeps_) in_.clear();
  flush();
  if (keeps_) advance();
  read();
}

void HttpConnection::put(std::string_view bytes) {
  if (state_ == State::kClosed) return;
  if (out_.empty() && writing_.empty()) moved_ = shared_.now();
  out_ += bytes;
  flush();
}

void HttpConnection::flush() {
  if (!writing_.empty() || state_ == State::kClosed) return;
  if (out_.empty()) {
    error_code ignored;
    if (state_ == State::kDraining) socket_.shutdown(asio::socket_base::shutdown_send, ignored);
    return;
  }
  writing_.swap(out_);
  auto self = shared_from_this();
  // Each time that the client has taken some of it.
  const auto going_on = [self](const error_code& error, std::size_t n) -> std::size_t {
    self->moved_ = self->shared_.now();
    self->written_ = n;
    self->guarded([&] { self->look_at_unread(); });
    return error ? 0 : 65536;
  };
  begin_operation([&] {
    asio::async_write(socket_, asio::buffer(writing_), going_on,
                      [self](const error_code& error, std::size_t n) {
                        self->guarded([&] { self->wrote(static_cast<bool>(error), n); });
                      });
  });
}

void HttpConnection::wrote(bool failed, std::size_t) {
  writing_.clear();
  written_ = 0;
  if (state_ == State::kClosed) return;
  if (failed || (heard_all_ && unread() == 0)) return close();
  flush();
  if (state_ == State::kHead && out_.size() < kBehind && !in_.empty()) {
    advance();
    read();
  }
}

void HttpConnection::tick() {
  guarded([&] { look_at_clock(); });
}

void HttpConnection::look_at_clock() {
  const double now = shared_.now();
  const HttpOptions& o = shared_.options;
  const bool unread = this->unread() > 0;
  if (unread && now - moved_ > o.stall_seconds) return close();
  switch (state_) {
    case State::kHead:
      if (in_.empty() && number_ > 0) {
        if (!unread && (shared_.finishing || now - since_ > o.idle_seconds)) close();
      } else if (in_.empty() && shared_.finishing) {
        close();
      } else if (now - since_ > o.head_seconds) {
        refuse({408, join("the head of the request did not come within ", o.head_seconds, " s")});
      }
      return;
    case State::kBody:
      if (now - since_ > o.body_seconds)
        refuse({408, join("the body of the request did not come within ", o.body_seconds, " s")});
      return;
    case State::kReplying:
      if (streaming_ && !unread && now - spoken_ > o.ping_seconds) write(number_, ": ping\n\n");
      return;
    case State::kDraining:
      if (!unread && (shared_.finishing || now - since_ > kDrainSeconds)) close();
      return;
    case State::kClosed:
      return;
  }
}

void HttpConnection::close() noexcept {
  if (state_ == State::kClosed) return;
  const bool replying = state_ == State::kReplying;
  state_ = State::kClosed;
  error_code ignored;
  socket_.close(ignored);
  full_ = nullptr;
  if (replying) leave();
  shared_.forget(this);
}

}  // namespace trireme
