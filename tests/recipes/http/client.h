// A client over plain sockets, for tests of servers: it can send anything, and nothing by itself.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace trireme::test {

// Seconds; a server that is silent for so long has hung. Waited for one by one: a machine that
// stood still meanwhile costs one of them.
constexpr int kPatience = 60;

struct Answer {
  int status = 0;
  std::string head, body;
};

class Client {
 public:
  // `room`: bytes that the system keeps of what is not read; 0: as many as it likes.
  explicit Client(int port, int room = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (room > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(static_cast<std::uint16_t>(port));
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&place), sizeof place), 0);
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  // False if the server has closed the connection.
  bool send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  // More of what comes; false at the end, or after kPatience.
  bool more() {
    pollfd wait{socket_, POLLIN, 0};
    int waits = 0;
    while (::poll(&wait, 1, 1000) != 1)
      if (++waits == kPatience) {
        ADD_FAILURE() << "the server hangs; so far: " << got_;
        return false;
      }
    char buffer[65536];
    const ssize_t n = ::recv(socket_, buffer, sizeof buffer, 0);
    if (n <= 0) return false;
    got_.append(buffer, static_cast<std::size_t>(n));
    return true;
  }
  bool until(const std::function<bool(const std::string&)>& enough) {
    while (!enough(got_))
      if (!more()) return enough(got_);
    return true;
  }
  bool until(std::string_view text) {
    return until([&](const std::string& got) { return got.find(text) != std::string::npos; });
  }
  // All that comes until the end of the connection.
  std::string rest() {
    while (more()) {
    }
    return got_;
  }
  // The next answer, with a body of a given length or in chunks; nothing if there is none.
  std::optional<Answer> answer() {
    if (!until("\r\n\r\n")) return std::nullopt;
    Answer a;
    a.head = got_.substr(0, got_.find("\r\n\r\n") + 4);
    got_.erase(0, a.head.size());
    a.status = std::atoi(a.head.c_str() + 9);
    const std::size_t length = a.head.find("Content-Length: ");
    if (length != std::string::npos) {
      const auto bytes = static_cast<std::size_t>(std::atoll(a.head.c_str() + length + 16));
      if (!until([&](const std::string& got) { return got.size() >= bytes; }))
        return got_.empty() ? std::optional(a) : std::nullopt;  // as behind HEAD
      a.body = got_.substr(0, bytes);
      got_.erase(0, bytes);
    } else if (a.head.find("Transfer-Encoding: chunked") != std::string::npos) {
      while (const auto piece = chunk()) {
        if (piece->empty()) return a;
        a.body += *piece;
      }
      return std::nullopt;
    }
    return a;
  }
  // The next chunk of a body; empty at its end.
  std::optional<std::string> chunk() {
    if (!until("\r\n")) return std::nullopt;
    const auto bytes = static_cast<std::size_t>(std::strtoull(got_.c_str(), nullptr, 16));
    const std::size_t begin = got_.find("\r\n") + 2;
    if (!until([&](const std::string& got) { return got.size() >= begin + bytes + 2; }))
      return std::nullopt;
    std::string piece = got_.substr(begin, bytes);
    got_.erase(0, begin + bytes + 2);
    return piece;
  }
  const std::string& got() const { return got_; }

 private:
  int socket_;
  std::string got_;
};

inline std::string get(std::string_view path, std::string_view fields = {}) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(fields) +
         "\r\n";
}
inline std::string post(std::string_view path, std::string_view body,
                        std::string_view fields = {}) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n" + std::string(fields) + "\r\n" + std::string(body);
}
inline Answer ask(int port, std::string_view request) {
  Client client(port);
  client.send(request);
  const auto answer = client.answer();
  EXPECT_TRUE(answer) << "no answer to " << request.substr(0, 200);
  return answer.value_or(Answer{});
}

}  // namespace trireme::test
