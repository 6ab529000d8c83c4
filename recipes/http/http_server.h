// An HTTP/1.1 server on one thread, the one that calls run(). It takes nothing on trust: every size
// and every wait has a limit, and a client that breaks one is answered with the status for it, then
// let go. One request of a connection is answered at a time; pipelined ones wait.
//
// A slow client harms only itself: who makes its answer is told to pause while more than a limit is
// unread, and a client that reads nothing for too long is let go. A client that goes away is
// noticed while its answer is made, and the answerer is told. What throws, be it for want of
// memory, ends its connection and nothing else.
//
// Owned by whoever runs it. All members but post() and port() belong to the thread of run(), except
// before it runs; handlers are called on it and must not block for long.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "recipes/http/http_head.h"
#include "recipes/http/http_message.h"

namespace trireme {

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address, not a name
  int port = 0;                    // 0: any that is free
  HeadLimits head = {};
  std::size_t body = 4 << 20;      // bytes
  std::size_t unsent = 256 << 10;  // bytes of a stream that are unread: then its maker pauses
  int connections = 256;
  double head_seconds = 10, body_seconds = 30;  // for all of it
  double idle_seconds = 75;                     // between requests
  double stall_seconds = 30;                    // without a byte read by the client
  double ping_seconds = 15;                     // of silence in a stream, then a comment
  double end_seconds = 5;                       // for last words after finish()
  // Seconds from any beginning; empty: a steady clock. Looked at every 50 ms.
  std::function<double()> clock = {};
  // The response to a request that is refused here; empty: its sentence as text.
  std::function<HttpResponse(const HttpProblem&)> refusal = {};
};

// The answer to one request. On the thread of run(). Calls after the end, or to a client that is
// gone, do nothing.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  // All of it.
  virtual void send(const HttpResponse& response) = 0;
  // Or in pieces of text/event-stream: the head, then pieces, then the end.
  virtual void begin(const HttpResponse& head) = 0;
  virtual void write(std::string_view piece) = 0;
  virtual void end() = 0;
  // Ends the connection without another word.
  virtual void drop() = 0;
  // Called once if the client goes, or is let go, before the end.
  virtual void when_gone(std::function<void()> call) = 0;
  // Of a stream: called with true when more than HttpOptions::unsent of it is unread, with false
  // when half of that is. What is written meanwhile is kept.
  virtual void when_full(std::function<void(bool full)> call) = 0;
};

using HttpHandler =
    std::function<void(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply)>;

struct HttpCounts {
  std::int64_t connections = 0;  // now
  std::int64_t accepted = 0, turned_away = 0, requests = 0, refused = 0, gone = 0;
};

class HttpServer {
 public:
  // Binds. Error: "127.0.0.1:8000: the port is in use by another program".
  HttpServer(const HttpOptions& options, HttpHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  // Until finish() and all is said.
  void run();
  // Any thread: calls it on the thread of run().
  void post(std::function<void()> call);
  // `call` about every 50 ms. Before run().
  void every_tick(std::function<void()> call);
  // No more connections; those that wait for a request end, others get end_seconds.
  void finish();
  HttpCounts counts() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
