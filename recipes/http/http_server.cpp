#include "recipes/http/http_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <new>
#include <set>
#include <vector>

#include "framework/base/error.h"
#include "recipes/http/http_connection.h"

namespace trireme {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto kTick = std::chrono::milliseconds(50);
constexpr int kTurnedAway = 64;  // that are still told why, at a time

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

struct HttpServer::State {
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::steady_timer timer{io};
  HttpShared shared;
  std::set<std::shared_ptr<HttpConnection>> connections;
  std::function<void()> on_tick;
  bool accepting = false;
  std::uint64_t waits = 0;  // for a client, so far
  double finished = 0;      // when finish() was called

  void bind();
  void accept();
  void wait_for_client();
  void take(tcp::socket socket);
  void tick();
};

void HttpServer::State::bind() {
  const HttpOptions& o = shared.options;
  error_code error;
  const auto address = asio::ip::make_address(o.host, error);
  check(!error, o.host, " is no address of this machine: give 127.0.0.1, ::1, 0.0.0.0 or another");
  const tcp::endpoint end(address, static_cast<unsigned short>(o.port));
  const std::string place = join(o.host, ":", o.port);
  acceptor.open(end.protocol(), error);
  check(!error, place, ": no socket: ", error.message());
  acceptor.set_option(asio::socket_base::reuse_address(true), error);
  acceptor.bind(end, error);
  check(error != asio::error::address_in_use, place,
        ": the port is in use by another program; give another with --port, or 0 for any");
  check(!error, place, ": cannot listen there: ", error.message());
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  check(error != asio::error::address_in_use, place,
        ": the port is in use by another program; give another with --port, or 0 for any");
  check(!error, place, ": cannot listen there: ", error.message());
}

void HttpServer::State::accept() {
  if (accepting || shared.finishing) return;
  accepting = true;
  try {
    wait_for_client();
  } catch (...) {  // the next tick tries again
    accepting = false;
  }
}

void HttpServer::State::wait_for_client() {
  acceptor.async_accept([this, mine = ++waits](const error_code& error, tcp::socket socket) {
    if (mine != waits) return;  // given up, after a failure
    accepting = false;
    if (shared.finishing) return;
    if (error) return;  // no file descriptor left: the next tick tries again
    try {
      take(std::move(socket));
    } catch (...) {  // no memory for it: it is closed
    }
    accept();
  });
}

void HttpServer::State::take(tcp::socket socket) {
  const auto limit = static_cast<std::size_t>(shared.options.connections);
  ++shared.counts.accepted;
  if (connections.size() >= limit + kTurnedAway) {
    ++shared.counts.turned_away;
    return;
  }
  const bool full = connections.size() >= limit;
  const auto connection = std::make_shared<HttpConnection>(std::move(socket), shared);
  connections.insert(connection);
  if (full) ++shared.counts.turned_away;
  full ? connection->turn_away() : connection->start();
}

void HttpServer::State::tick() {
  timer.expires_after(kTick);
  timer.async_wait([this](const error_code& error) {
    if (error) return;
    if (on_tick) on_tick();
    const std::vector<std::shared_ptr<HttpConnection>> all(connections.begin(), connections.end());
    for (const auto& connection : all) connection->tick();
    if (shared.finishing) {
      const bool late = steady_seconds() - finished > shared.options.end_seconds;
      if (late)
        for (const auto& connection : all) connection->close();
      if (late || connections.empty()) return io.stop();
    }
    accept();
    tick();
  });
}

HttpServer::HttpServer(const HttpOptions& options, HttpHandler handler)
    : state_(std::make_unique<State>()) {
  HttpShared& shared = state_->shared;
  shared.options = options;
  if (!shared.options.clock) shared.options.clock = steady_seconds;
  shared.handler = std::move(handler);
  shared.forget = [this](HttpConnection* gone) {
    std::erase_if(state_->connections, [&](const auto& one) { return one.get() == gone; });
  };
  state_->bind();
}

// Operations in flight own their connections, which tell nobody any more.
HttpServer::~HttpServer() {
  const auto all = std::move(state_->connections);
  state_->connections.clear();
  state_->shared.forget = [](HttpConnection*) {};
  for (const auto& connection : all) connection->close();
}

int HttpServer::port() const {
  error_code ignored;
  return state_->acceptor.local_endpoint(ignored).port();
}

void HttpServer::run() {
  for (;;) try {
      state_->accept();
      state_->tick();
      state_->io.run();
      return;
    } catch (const std::bad_alloc&) {  // of a tick, or of what was posted: the rest goes on
      // Or of Asio between a client's coming and the handler, which is then lost.
      error_code ignored;
      state_->acceptor.cancel(ignored);
      ++state_->waits;
      state_->accepting = false;
    }
}

void HttpServer::post(std::function<void()> call) { asio::post(state_->io, std::move(call)); }

void HttpServer::every_tick(std::function<void()> call) { state_->on_tick = std::move(call); }

void HttpServer::finish() {
  if (state_->shared.finishing) return;
  state_->shared.finishing = true;
  state_->finished = steady_seconds();
  error_code ignored;
  state_->acceptor.close(ignored);
}

HttpCounts HttpServer::counts() const {
  HttpCounts counts = state_->shared.counts;
  counts.connections = std::ssize(state_->connections);
  return counts;
}

}  // namespace trireme
