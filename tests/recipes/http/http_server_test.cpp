// Frames, good and bad, over real sockets; limits at their value and above it; clients that are
// slow or leave. The clock is the test's: no deadline is waited for.
#include "recipes/http/http_server.h"

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "tests/recipes/http/client.h"

namespace trireme::test {
namespace {

class HttpServerTest : public ::testing::Test {
 protected:
  void start(HttpOptions options = {}) {
    options.clock = [this] { return clock_.load(); };
    server_ = std::make_unique<HttpServer>(
        options, [this](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
          handle(request, reply);
        });
    port_ = server_->port();
    thread_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override {
    if (!server_) return;
    server_->post([this] { held_.clear(); });
    server_->post([this] { server_->finish(); });
    thread_.join();
  }
  // "/hold" waits, "/stream" is a stream without an end, all others are told back.
  void handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
    if (request.path == "/hold" || request.path == "/stream") {
      reply->when_gone([this] { ++gone_; });
      reply->when_full([this](bool full) { full ? ++full_ : ++empty_; });
      held_.push_back(reply);
      if (request.path == "/stream") reply->begin({.type = "text/event-stream"});
      ++holding_;
      return;
    }
    reply->send({.type = "text/plain",
                 .body = request.method + " " + request.path + "?" + request.query + " " +
                         std::to_string(request.body.size()) + "\n"});
  }
  void eventually(const std::function<bool()>& holds, const char* what) {
    for (int i = 0; i < 6000 && !holds(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(holds()) << what;
  }
  HttpCounts counts() {
    std::promise<HttpCounts> told;
    server_->post([&] { told.set_value(server_->counts()); });
    return told.get_future().get();
  }

  std::atomic<double> clock_{0};
  std::atomic<int> gone_{0}, holding_{0}, full_{0}, empty_{0};
  std::vector<std::shared_ptr<HttpReply>> held_;  // on the server's thread
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
  int port_ = 0;
};

std::string with(const std::string& fields, const std::string& body = {}) {
  return "POST /x HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n" + body;
}

struct Frame {
  const char* name;
  std::string bytes;
  int status;
};

std::vector<Frame> frames() {
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  return {
      {"plain", get("/x"), 200},
      {"empty line before", "\r\n" + get("/x"), 200},
      {"length", with("Content-Length: 3\r\n", "abc"), 200},
      {"chunks", with(chunked, "3\r\nabc\r\n2;note=1\r\nde\r\n0\r\n\r\n"), 200},
      {"trailer", with(chunked, "3\r\nabc\r\n0\r\nX: y\r\n\r\n"), 200},
      {"version 1.0", "GET /x HTTP/1.0\r\n\r\n", 200},
      {"chunk of -2", with(chunked, "-2\r\nabc\r\n0\r\n\r\n"), 400},
      {"chunk of +5", with(chunked, "+5\r\nabcde\r\n0\r\n\r\n"), 400},
      {"chunk of 0x5", with(chunked, "0x5\r\nabcde\r\n0\r\n\r\n"), 400},
      {"chunk of 17 digits", with(chunked, "10000000000000003\r\nabc\r\n0\r\n\r\n"), 400},
      {"chunk that is no number", with(chunked, "z\r\nabc\r\n0\r\n\r\n"), 400},
      {"chunk longer than said", with(chunked, "3\r\nabcd\r\n0\r\n\r\n"), 400},
      {"length and chunks", with("Content-Length: 3\r\n" + chunked, "3\r\nabc\r\n0\r\n\r\n"), 400},
      {"chunks and length", with(chunked + "Content-Length: 3\r\n", "3\r\nabc\r\n0\r\n\r\n"), 400},
      {"two lengths", with("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"), 400},
      {"twice the same length", with("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), 400},
      {"list of lengths", with("Content-Length: 3, 3\r\n", "abc"), 400},
      {"length below zero", with("Content-Length: -1\r\n"), 400},
      {"length with a sign", with("Content-Length: +3\r\n", "abc"), 400},
      {"length of 30 digits", with("Content-Length: 000000000000000000000000000003\r\n"), 400},
      {"coding identity", with("Transfer-Encoding: identity\r\n"), 400},
      {"coding gzip, chunked", with("Transfer-Encoding: gzip, chunked\r\n"), 400},
      {"coding twice", with(chunked + chunked, "0\r\n\r\n"), 400},
      {"coding chunkedx", with("Transfer-Encoding: xchunked\r\n"), 400},
      {"coding in 1.0", "POST /x HTTP/1.0\r\n" + chunked + "\r\n0\r\n\r\n", 400},
      {"bare LF", "GET /x HTTP/1.1\nHost: a\n\n", 400},
      {"bare LF in fields", "GET /x HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400},
      {"bare CR", "GET /x HTTP/1.1\r\nHost: a\rX: y\r\n\r\n", 400},
      {"NUL", std::string("GET /x HTTP/1.1\r\nHost: a\0b\r\n\r\n", 31), 400},
      {"space before colon", with("Content-Length : 3\r\n", "abc"), 400},
      {"folded line", with("X: y\r\n z\r\n"), 400},
      {"line without colon", with("nonsense\r\n"), 400},
      {"no name", with(": y\r\n"), 400},
      {"no host", "GET /x HTTP/1.1\r\n\r\n", 400},
      {"two hosts", "GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"absolute form", "GET http://a/x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"no target", "GET  HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"two blanks", "GET /x  HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"HTTP/0.9", "GET /x\r\n\r\n", 400},
      {"HTTP/2.0", "GET /x HTTP/2.0\r\nHost: a\r\n\r\n", 505},
      {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {"TLS hello", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), 400},
      {"compressed", with("Content-Encoding: gzip\r\nContent-Length: 3\r\n", "abc"), 415},
      {"expects more", with("Expect: 200-maybe\r\nContent-Length: 3\r\n", "abc"), 417},
  };
}

// One answer, whatever the pieces; after a bad frame the connection ends, so that nothing behind it
// can be taken for a request.
TEST_F(HttpServerTest, FramesAreUnderstoodOrRefusedHoweverTheyAreCut) {
  start();
  const std::string next = get("/next");
  for (const Frame& frame : frames())
    for (std::size_t cut = 0; cut < frame.bytes.size(); ++cut) {
      Client client(port_);
      client.send(frame.bytes.substr(0, cut));
      client.send(frame.bytes.substr(cut) + (frame.status == 200 ? "" : next));
      const auto answer = client.answer();
      ASSERT_TRUE(answer) << frame.name << " cut at " << cut;
      ASSERT_EQ(answer->status, frame.status) << frame.name << " cut at " << cut;
      if (frame.status == 200) continue;
      ASSERT_EQ(client.rest(), "") << frame.name << " cut at " << cut;
    }
}

TEST_F(HttpServerTest, BodiesArriveWhole) {
  start();
  EXPECT_EQ(ask(port_, with("Content-Length: 3\r\n", "abc")).body, "POST /x? 3\n");
  const std::string chunks = "3\r\nabc\r\nA;x\r\n0123456789\r\n0\r\n\r\n";
  EXPECT_EQ(ask(port_, with("Transfer-Encoding: chunked\r\n", chunks)).body, "POST /x? 13\n");
  EXPECT_EQ(ask(port_, get("/y?a=%0d%0aSet:1")).body, "GET /y?a=%0d%0aSet:1 0\n");
}

TEST_F(HttpServerTest, ManyRequestsInOnePieceAreAnsweredInOrder) {
  start();
  std::string all;
  for (int i = 0; i < 50; ++i)
    all += i % 3 == 0 ? with("Content-Length: 5\r\n", "GET /") : get("/" + std::to_string(i));
  Client client(port_);
  client.send(all);
  for (int i = 0; i < 50; ++i) {
    const auto answer = client.answer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->body,
              i % 3 == 0 ? std::string("POST /x? 5\n") : "GET /" + std::to_string(i) + "? 0\n");
  }
  EXPECT_EQ(counts().requests, 50);
}

TEST_F(HttpServerTest, ContinueIsSaidBeforeTheBody) {
  start();
  Client client(port_);
  client.send(with("Expect: 100-continue\r\nContent-Length: 3\r\n"));
  ASSERT_TRUE(client.until("HTTP/1.1 100 Continue\r\n\r\n"));
  client.answer();  // that one
  client.send("abc");
  EXPECT_EQ(client.answer().value_or(Answer{}).body, "POST /x? 3\n");
}

std::string long_target(std::size_t line) {
  const std::string begin = "GET /", end = " HTTP/1.1";
  return begin + std::string(line - begin.size() - end.size(), 'x') + end;
}

TEST_F(HttpServerTest, SizesOfTheHeadHaveLimits) {
  start();
  const std::string host = "\r\nHost: a\r\n";
  EXPECT_EQ(ask(port_, long_target(8192) + host + "\r\n").status, 200);
  EXPECT_EQ(ask(port_, long_target(8193) + host + "\r\n").status, 414);
  EXPECT_EQ(ask(port_, with("X: " + std::string(8189, 'y') + "\r\n")).status, 200);
  EXPECT_EQ(ask(port_, with("X: " + std::string(8190, 'y') + "\r\n")).status, 431);
  std::string fields;
  for (int i = 0; i < 99; ++i) fields += "X: y\r\n";
  EXPECT_EQ(ask(port_, with(fields)).status, 200);  // and Host
  EXPECT_EQ(ask(port_, with(fields + "X: y\r\n")).status, 431);
  const std::string line = "X: " + std::string(4000, 'y') + "\r\n";
  const std::string most = line + line + line + line;
  const std::size_t left = 16384 - with(most).size();
  EXPECT_EQ(ask(port_, with(most + "X: " + std::string(left - 5, 'y') + "\r\n")).status, 200);
  EXPECT_EQ(ask(port_, with(most + "X: " + std::string(left - 4, 'y') + "\r\n")).status, 431);
  EXPECT_EQ(ask(port_, std::string(9000, 'x')).status, 414);  // a line that never ends
}

TEST_F(HttpServerTest, SizesOfTheBodyHaveALimit) {
  start({.body = 1000});
  const auto sent = [&](std::size_t n) {
    return ask(port_, with("Content-Length: " + std::to_string(n) + "\r\n", std::string(n, 'b')));
  };
  EXPECT_EQ(sent(1000).status, 200);
  EXPECT_EQ(sent(1001).status, 413);
  EXPECT_EQ(ask(port_, with("Content-Length: 999999999999\r\n")).status, 413);  // before it comes
  std::string chunks;
  for (int i = 0; i < 10; ++i) chunks += "64\r\n" + std::string(100, 'c') + "\r\n";
  const std::string coding = "Transfer-Encoding: chunked\r\n";
  EXPECT_EQ(ask(port_, with(coding, chunks + "0\r\n\r\n")).status, 200);
  EXPECT_EQ(ask(port_, with(coding, chunks + "1\r\nd\r\n0\r\n\r\n")).status, 413);
  EXPECT_EQ(ask(port_, with(coding, "5;" + std::string(40'000, 'x'))).status, 400);
}

TEST_F(HttpServerTest, PartsOfRequestsAreNotWaitedForForEver) {
  start();
  Client head(port_), body(port_), idle(port_), fine(port_);
  head.send("GET /x HTTP/1.1\r\nHo");
  body.send(with("Content-Length: 3\r\n", "ab"));
  fine.send(get("/x"));
  EXPECT_EQ(fine.answer().value_or(Answer{}).status, 200);
  eventually([&] { return counts().connections == 4; }, "all are there");
  for (int i = 0; i < 20; ++i) counts();  // and what they said
  clock_ = 9;
  EXPECT_EQ(ask(port_, get("/y")).status, 200);
  clock_ = 10.5;
  EXPECT_EQ(head.answer().value_or(Answer{}).status, 408);
  EXPECT_EQ(idle.answer().value_or(Answer{}).status, 408);
  clock_ = 31;
  EXPECT_EQ(body.answer().value_or(Answer{}).status, 408);
  fine.send(get("/x"));  // within its time between requests
  EXPECT_EQ(fine.answer().value_or(Answer{}).status, 200);
  counts();  // behind all that the server did for it
  clock_ = 200;
  EXPECT_EQ(fine.rest(), "");
}

TEST_F(HttpServerTest, ConnectionsOverTheLimitAreTurnedAway) {
  start({.connections = 3});
  std::vector<std::unique_ptr<Client>> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(std::make_unique<Client>(port_));
    all.back()->send(get("/x"));
    EXPECT_EQ(all.back()->answer().value_or(Answer{}).status, 200);
  }
  Client over(port_);
  EXPECT_EQ(over.answer().value_or(Answer{}).status, 503);
  EXPECT_EQ(over.rest(), "");
  over.close();
  all.pop_back();
  eventually([&] { return counts().connections == 2; }, "it is seen that they went");
  EXPECT_EQ(ask(port_, get("/x")).status, 200);
  EXPECT_EQ(counts().turned_away, 1);
}

TEST_F(HttpServerTest, AClientThatLeavesIsNoticed) {
  start();
  for (const char* path : {"/hold", "/stream"}) {
    const int before = gone_, held = holding_;
    Client client(port_);
    client.send(get(path));
    eventually([&] { return holding_ == held + 1; }, "it is being answered");
    client.close();
    eventually([&] { return gone_ == before + 1; }, path);
  }
  EXPECT_EQ(counts().gone, 2);
}

// R29: who makes the answer is told once when too much of it is unread, and once when it is read;
// nothing is lost, and others are answered meanwhile.
TEST_F(HttpServerTest, AClientThatDoesNotReadPausesItsAnswer) {
  start();
  Client slow(port_, 8192);
  slow.send(get("/stream"));
  eventually([&] { return holding_ == 1; }, "it is being answered");
  const std::string piece(10'000, 'p');
  const auto write = [&] {
    std::promise<void> done;
    server_->post([&] {
      held_[0]->write(piece);
      done.set_value();
    });
    done.get_future().wait();
  };
  int written = 0;
  for (; written < 3000 && full_ == 0; ++written) write();
  ASSERT_EQ(full_, 1);
  EXPECT_GT(written, 26);  // 256 KiB, and what the system keeps
  EXPECT_LT(written, 150);
  for (int more = 0; more < 10; ++more, ++written) write();
  EXPECT_EQ(full_, 1);
  EXPECT_EQ(empty_, 0);
  EXPECT_EQ(ask(port_, get("/x")).status, 200);
  const auto bytes = static_cast<std::size_t>(written) * piece.size();
  EXPECT_TRUE(slow.until([&](const std::string& got) {
    const std::size_t head = got.find("\r\n\r\n") + 4;
    return got.size() > bytes && std::count(got.begin() + static_cast<std::ptrdiff_t>(head),
                                            got.end(), 'p') == static_cast<std::ptrdiff_t>(bytes);
  }));
  EXPECT_EQ(empty_, 1);
  EXPECT_EQ(gone_, 0);
}

TEST_F(HttpServerTest, AClientThatStopsReadingIsLetGo) {
  start({.unsent = 100 << 20});
  Client stalled(port_, 8192);
  stalled.send(get("/stream"));
  eventually([&] { return holding_ == 1; }, "it is being answered");
  server_->post([&] { held_[0]->write(std::string(40 << 20, 'p')); });
  EXPECT_EQ(ask(port_, get("/x")).status, 200);
  EXPECT_EQ(gone_, 0);
  eventually(
      [&] {
        clock_ = clock_ + 31;  // the system may still have taken some of it
        return gone_ == 1;
      },
      "it is let go");
}

TEST_F(HttpServerTest, SilentStreamsSayThatTheyLive) {
  start();
  Client client(port_);
  client.send(get("/stream"));
  ASSERT_TRUE(client.until("\r\n\r\n"));
  clock_ = 16;
  EXPECT_TRUE(client.until(": ping\n\n"));
}

TEST(HttpServerPort, InUseIsASentence) {
  HttpServer first({}, [](const HttpRequest&, const std::shared_ptr<HttpReply>&) {});
  try {
    HttpServer second({.port = first.port()},
                      [](const HttpRequest&, const std::shared_ptr<HttpReply>&) {});
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("the port is in use"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace trireme::test
