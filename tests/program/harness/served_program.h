// trireme serve on a folder, as a child of the test, at a port that nobody used before.
#pragma once

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/program/harness/program_run.h"
#include "tests/recipes/http/client.h"

namespace trireme::testing {

inline int unused_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof place;
  EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&place), sizeof place), 0);
  EXPECT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&place), &size), 0);
  ::close(socket);
  return ntohs(place.sin_port);
}

inline bool listens(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<std::uint16_t>(port));
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool answers = ::connect(socket, reinterpret_cast<sockaddr*>(&place), sizeof place) == 0;
  ::close(socket);
  return answers;
}

class ServedProgram {
 public:
  ServedProgram(const std::string& folder, const std::vector<std::string>& flags)
      : port_(unused_port()), program_(words(folder, flags, port_)) {}

  int port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  bool ready() {
    return program_.wait_until(
        [&] { return listens(port_) && test::ask(port_, test::get("/health")).status == 200; });
  }
  nlohmann::json post(const std::string& path, const nlohmann::json& body) const {
    const test::Answer answer = test::ask(port_, test::post(path, body.dump()));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return nlohmann::json::parse(answer.body);
  }
  ProgramEnd end() {
    program_.signal(SIGTERM);
    return program_.end();
  }

 private:
  static std::vector<std::string> words(const std::string& folder,
                                        const std::vector<std::string>& flags, int port) {
    std::vector<std::string> all{program(), "serve", folder, "--port", std::to_string(port)};
    all.insert(all.end(), flags.begin(), flags.end());
    return all;
  }
  int port_;
  StartedProgram program_;
};

}  // namespace trireme::testing
