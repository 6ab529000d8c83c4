// One connection of the server: reads requests, one at a time, and writes answers. For
// http_server.cpp only: this header brings Asio and Beast.
//
// States: head, body, replying, draining (the last words are being written; what still comes is
// thrown away so that they are not lost), closed. Reading goes on while an answer is made, up to a
// limit, so that a client's end is seen.
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>
#include <string>

#include "recipes/http/http_server.h"

namespace trireme {

class HttpConnection;

// What connections share.
struct HttpShared {
  HttpOptions options;
  HttpHandler handler;
  HttpCounts counts = {};
  bool finishing = false;
  std::uint64_t connections = 0;  // so far
  std::function<void(HttpConnection*)> forget;
  double now() const { return options.clock(); }
};

class HttpConnection final : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(boost::asio::ip::tcp::socket socket, HttpShared& shared);

  void start();
  void turn_away();  // 503, and the end
  void tick();       // looks at the clock
  void close() noexcept;

  // Of the reply with that number.
  void send(std::uint64_t number, const HttpResponse& response);
  void begin(std::uint64_t number, const HttpResponse& head);
  void write(std::uint64_t number, std::string_view piece);
  void end(std::uint64_t number);
  void drop(std::uint64_t number);
  void when_gone(std::uint64_t number, std::function<void()> call);
  void when_full(std::uint64_t number, std::function<void(bool)> call);

 private:
  enum class State : std::uint8_t { kHead, kBody, kReplying, kDraining, kClosed };
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  bool answers(std::uint64_t number) const {
    return state_ == State::kReplying && number == number_;
  }
  template <typename F>
  void guarded(F f) noexcept;
  template <typename F>
  void begin_operation(F f) noexcept;
  void no_memory() noexcept;
  void leave() noexcept;
  void read();
  void came(bool failed, std::size_t bytes);
  void advance();
  bool advance_head();
  bool advance_body();
  void dispatch();
  void refuse(const HttpProblem& problem);
  void put(std::string_view bytes);
  std::string head_of(const HttpResponse& response, bool stream) const;
  void flush();
  std::size_t unread() const { return out_.size() + writing_.size() - written_; }
  void look_at_unread();
  void wrote(bool failed, std::size_t bytes);
  void next_request();
  void look_at_clock();

  boost::asio::ip::tcp::socket socket_;
  HttpShared& shared_;
  const std::uint64_t id_;
  State state_ = State::kHead;
  std::array<char, 16384> chunk_;
  std::string in_, out_, writing_;
  std::size_t written_ = 0;  // bytes of writing_
  std::optional<Parser> parser_;
  HttpRequest request_;
  bool reading_ = false, advancing_ = false;
  bool heard_all_ = false;  // the client says no more
  bool keeps_ = true;       // the connection, after this answer
  bool version_1_0_ = false, head_only_ = false, streaming_ = false;
  std::uint64_t number_ = 0;  // of the request
  std::function<void()> gone_;
  std::function<void(bool)> full_;
  bool is_full_ = false;  // and full_ was told so
  double since_ = 0;      // of this state, or the first byte of a head
  double moved_ = 0;      // when the client last took bytes
  double spoken_ = 0;     // when the stream last said something
};

}  // namespace trireme
