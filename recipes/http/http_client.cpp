#include "recipes/http/http_client.h"

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <set>

#include "framework/base/error.h"

namespace trireme {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

using Parser = http::response_parser<http::string_body>;

std::string request_text(const HttpPlace& place, const HttpCall& call) {
  const bool six = place.host.find(':') != std::string::npos;
  std::string text =
      join(call.method, " ", place.prefix, call.path, " HTTP/1.1\r\nHost: ", six ? "[" : "",
           place.host, six ? "]" : "", ":", place.port, "\r\nConnection: close\r\n");
  for (const auto& [name, value] : call.fields) text += join(name, ": ", value, "\r\n");
  if (!call.body.empty() || call.method == "POST")
    text += join("Content-Type: application/json\r\nContent-Length: ", call.body.size(), "\r\n");
  return text + "\r\n" + call.body;
}

// One request, until its end was told.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(asio::io_context& context, std::string text, double seconds, HttpHearing hearing,
           std::function<void(Exchange*)> forget)
      : socket_(context),
        timer_(context),
        text_(std::move(text)),
        seconds_(seconds),
        hearing_(std::move(hearing)),
        forget_(std::move(forget)) {
    parser_.eager(true);
    parser_.body_limit(boost::none);
  }

  void start(const tcp::resolver::results_type& addresses) {
    timer_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double>(seconds_)));
    timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error) self->finish(join("no end after ", self->seconds_, " s"));
    });
    asio::async_connect(socket_, addresses,
                        [self = shared_from_this()](const error_code& error, const tcp::endpoint&) {
                          if (self->done_) return;
                          if (error) return self->finish(error.message());
                          self->send();
                        });
  }

  // Without another word to the one who asked.
  void drop() {
    hearing_ = {};
    finish({});
  }

 private:
  void send() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    asio::async_write(socket_, asio::buffer(text_),
                      [self = shared_from_this()](const error_code& error, std::size_t) {
                        // An answer may have come all the same: a refusal of the head.
                        if (!self->done_) self->read();
                        static_cast<void>(error);
                      });
  }

  void read() {
    socket_.async_read_some(asio::buffer(chunk_),
                            [self = shared_from_this()](const error_code& error, std::size_t n) {
                              if (!self->done_) self->came(error, n);
                            });
  }

  void came(const error_code& error, std::size_t bytes) {
    held_.append(chunk_.data(), bytes);
    error_code problem;
    while (!held_.empty() && !parser_.is_done()) {
      const std::size_t used = parser_.put(asio::buffer(held_), problem);
      held_.erase(0, used);
      if (problem) break;
    }
    if (problem && problem != http::error::need_more)
      return finish(join("the answer is no HTTP: ", problem.message()));
    if (error && parser_.is_header_done() && !parser_.is_done()) {
      error_code end;
      parser_.put_eof(end);
    }
    tell();
    if (done_) return;
    if (parser_.is_done()) return finish({});
    if (error) return finish(parser_.is_header_done() ? "the answer breaks off" : "no answer");
    read();
  }

  void tell() {
    if (!parser_.is_header_done()) return;
    if (!told_head_ && hearing_.head) hearing_.head(parser_.get().result_int());
    told_head_ = true;
    std::string& body = parser_.get().body();
    if (body.empty()) return;
    const std::string piece = std::move(body);
    body.clear();
    if (hearing_.body) hearing_.body(piece);
  }

  void finish(const std::string& problem) {
    if (done_) return;
    done_ = true;
    const auto self = shared_from_this();
    error_code ignored;
    timer_.cancel();
    socket_.close(ignored);
    forget_(this);
    if (hearing_.end) hearing_.end(problem);
  }

  tcp::socket socket_;
  asio::steady_timer timer_;
  std::string text_;
  double seconds_;
  HttpHearing hearing_;
  std::function<void(Exchange*)> forget_;
  Parser parser_;
  std::array<char, 16384> chunk_;
  std::string held_;
  bool told_head_ = false, done_ = false;
};

}  // namespace

HttpPlace http_place_of(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  check(!url.starts_with("https://"), url,
        ": this client speaks no TLS; ask the server behind the proxy by http://");
  check(url.starts_with(kScheme), url, ": expected http://HOST:PORT");
  std::string rest = url.substr(kScheme.size());
  while (rest.ends_with('/')) rest.pop_back();
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  HttpPlace place{.prefix = rest.substr(slash)};
  std::string host = rest.substr(0, slash);
  const std::size_t bracket = host.rfind(']'), colon = host.rfind(':');
  const bool has_port =
      colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  place.port = has_port ? host.substr(colon + 1) : "80";
  if (has_port) host.erase(colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  place.host = host;
  const bool digits = !place.port.empty() && place.port.size() <= 5 &&
                      place.port.find_first_not_of("0123456789") == std::string::npos;
  check(!host.empty() && digits && host.find_first_of(" @?#\r\n\t") == std::string::npos &&
            rest.find_first_of(" ?#\r\n\t") == std::string::npos,
        url, ": expected http://HOST:PORT");
  return place;
}

struct HttpClient::State {
  HttpPlace place;
  asio::io_context context;
  tcp::resolver::results_type addresses;
  std::set<std::shared_ptr<Exchange>> exchanges;
  std::set<std::shared_ptr<asio::steady_timer>> timers;
};

HttpClient::HttpClient(const HttpPlace& place) : state_(std::make_unique<State>()) {
  state_->place = place;
  error_code error;
  tcp::resolver resolver(state_->context);
  state_->addresses = resolver.resolve(place.host, place.port, error);
  check(!error, place.host, ": ", error.message());
}

HttpClient::~HttpClient() { stop(); }

double HttpClient::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void HttpClient::ask(const HttpCall& call, HttpHearing hearing) {
  const auto forget = [this](Exchange* exchange) {
    state_->exchanges.erase(exchange->shared_from_this());
  };
  auto exchange = std::make_shared<Exchange>(state_->context, request_text(state_->place, call),
                                             call.seconds, std::move(hearing), forget);
  state_->exchanges.insert(exchange);
  exchange->start(state_->addresses);
}

void HttpClient::after(double seconds, std::function<void()> call) {
  auto timer = std::make_shared<asio::steady_timer>(state_->context);
  state_->timers.insert(timer);
  timer->expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds)));
  timer->async_wait([this, timer, call = std::move(call)](const error_code& error) {
    state_->timers.erase(timer);
    if (!error) call();
  });
}

void HttpClient::run() {
  state_->context.restart();
  state_->context.run();
}

void HttpClient::stop() {
  const auto exchanges = std::move(state_->exchanges);
  state_->exchanges.clear();
  for (const auto& exchange : exchanges) exchange->drop();
  for (const auto& timer : state_->timers) timer->cancel();
}

}  // namespace trireme
