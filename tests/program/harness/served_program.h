// trireme serve on a folder, as a child of the test. It takes any port that is free and says which:
// one that the test looked for could be another program's by the time it is served.
#pragma once

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/program/harness/program_run.h"
#include "tests/recipes/http/client.h"

namespace trireme::testing {

// The port that a server says once it serves; 0: not yet.
inline int served_port(const std::string& err) {
  const std::size_t said = err.find("ready in ");
  const std::size_t at = said == std::string::npos ? said : err.find("http://127.0.0.1:", said);
  return at == std::string::npos || err.find('\n', at) == std::string::npos
             ? 0
             : std::atoi(err.c_str() + at + 17);
}

// A port at which nobody listens: this socket has it, and does not.
class DeafPort {
 public:
  DeafPort() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof place;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&place), size), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&place), &size), 0);
    port_ = ntohs(place.sin_port);
  }
  ~DeafPort() { ::close(socket_); }
  DeafPort(const DeafPort&) = delete;
  DeafPort& operator=(const DeafPort&) = delete;
  int port() const { return port_; }

 private:
  int socket_, port_ = 0;
};

class ServedProgram {
 public:
  ServedProgram(const std::string& folder, const std::vector<std::string>& flags)
      : program_(words(folder, flags)) {}

  // Of one that is ready.
  int port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  bool ready() {
    return program_.wait_until([&] { return (port_ = served_port(program_.err_so_far())) > 0; }) &&
           test::ask(port_, test::get("/health")).status == 200;
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
                                        const std::vector<std::string>& flags) {
    std::vector<std::string> all{program(), "serve", folder, "--port=0"};
    all.insert(all.end(), flags.begin(), flags.end());
    return all;
  }
  int port_ = 0;
  StartedProgram program_;
};

}  // namespace trireme::testing
