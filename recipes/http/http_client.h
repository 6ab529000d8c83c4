// An HTTP/1.1 client for many requests at a time, on one thread, for measuring servers: each
// request has a connection of its own, and is told of what comes as it comes. No TLS, no
// redirections. All calls on the thread of run(), or before it; so are callbacks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

struct HttpPlace {
  std::string host, port;  // a name or an address; "8000"
  std::string prefix;      // before every path: "" or "/models/a"
};
// Of "http://127.0.0.1:8000". Throws Error for what is no URL of this client's.
HttpPlace http_place_of(const std::string& url);

struct HttpCall {
  std::string method = "GET", path = "/", body = {};
  std::vector<std::pair<std::string, std::string>> fields = {};  // more of the head
  double seconds = 600;                                          // for all of it
};

// What one request hears, in this order; members may be empty.
struct HttpHearing {
  std::function<void(int status)> head = {};
  std::function<void(std::string_view piece)> body = {};
  // Empty: the answer is whole; else why it is not: "connection refused", "no end after 600 s".
  std::function<void(const std::string& problem)> end = {};
};

class HttpClient {
 public:
  // Error if the host has no address.
  explicit HttpClient(const HttpPlace& place);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  double now() const;  // seconds, of one steady clock
  void ask(const HttpCall& call, HttpHearing hearing);
  // Calls it once, that many seconds from now.
  void after(double seconds, std::function<void()> call);
  // Until nothing is asked and no call waits, or stop(): then all that runs is let go, unheard.
  void run();
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
