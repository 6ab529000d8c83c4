#include "framework/comm/mpi_engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>

#include "framework/base/error.h"
#include "framework/comm/patience.h"

namespace trireme {

namespace {

// Channels of mpi_stages.cpp are 1, 2 and 5; a message's two headers need one each, since both ends
// may be the same rank.
constexpr int kHeader = 0, kSenderHeader = 3, kReceiverHeader = 4;
// Tags may go up to 32767 in any MPI. More operations of one group than this are never in flight.
constexpr std::int64_t kTagSequences = 4096;
constexpr int kNoticeTag = 0;

// Rounds of a wait until it sleeps, and between looks at peers from then on.
constexpr int kAsleep = 200, kLooksAtPeers = 16;

constexpr double kMostBetweenLooks = 2;  // seconds that count; looks come within a millisecond

// First without giving the core away, then so, then asleep: a waiting rank must not burn a core
// that a computing rank needs.
void back_off(int idle) {
  using std::chrono::microseconds;
  if (idle < 50) return;
  if (idle < kAsleep)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(
        microseconds(std::min(20 << std::min((idle - kAsleep) / 50, 5), 500)));
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::byte* memory_of(Call& call) { return reinterpret_cast<std::byte*>(&call); }

}  // namespace

int MpiOperation::tag(int channel) const {
  return static_cast<int>(call().sequence % kTagSequences) * 8 + channel;
}

MpiEngine::MpiEngine(MPI_Comm control, const CommunicatorOptions& options, const LocalPeers& peers)
    : options_(options), peers_(peers), control_(control) {
  MPI_Comm_rank(control_, &rank_);
  MPI_Comm_size(control_, &size_);
  notice_.receive(reinterpret_cast<std::byte*>(&incoming_), sizeof incoming_, MPI_ANY_SOURCE,
                  kNoticeTag, control_);
}

MpiEngine::~MpiEngine() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) notice_.abandon();
}

double MpiEngine::now() const { return options_.clock ? options_.clock() : steady_seconds(); }

void MpiEngine::start(const std::shared_ptr<MpiOperation>& operation) {
  const MpiAccess access(operation->backend);
  poll_notices();
  check(peer_failure_.empty(), peer_failure_);
  try {
    in_flight_.push_back(operation);
    post_headers(*operation);
  } catch (...) {  // what was posted before stays under way
    withdraw(operation);
    throw;
  }
}

void MpiEngine::post_headers(MpiOperation& o) {
  const auto me = static_cast<std::size_t>(o.seat);
  const bool message = o.call().is_message();
  const auto channel = [&](std::size_t seat) {
    return !message ? kHeader : seat == 0 ? kSenderHeader : kReceiverHeader;
  };
  o.uncaught = std::uncaught_exceptions();
  o.calls.resize(o.ranks.size());
  o.headers.resize(o.ranks.size());
  o.calls[me] = o.call();
  for (std::size_t seat = 0; seat < o.ranks.size(); ++seat) {
    if (seat == me) continue;
    o.headers[seat].receive(memory_of(o.calls[seat]), sizeof(Call), o.ranks[seat],
                            o.tag(channel(seat)), o.group->comm);
    o.sent_headers.send(memory_of(o.calls[me]), sizeof(Call), o.ranks[seat], o.tag(channel(me)),
                        o.group->comm);
  }
  if (o.call().kind == CallKind::kQuickAllReduce) post_quick(o);
}

Backend* MpiEngine::backend_in_flight() const {
  for (const auto& operation : in_flight_)
    if (operation->backend) return operation->backend;
  return nullptr;
}

bool MpiEngine::exchange_headers(MpiOperation& o) {
  bool all = o.sent_headers.complete();
  for (MpiRequests& header : o.headers) all &= header.complete();
  if (!all) return false;
  o.agreed = true;
  o.error = mismatch(o.calls, o.members, o.group->axis);
  if (o.error.empty()) plan_stages(o);
  return true;
}

bool MpiEngine::advance(MpiOperation& o) {
  if (o.done || !o.error.empty()) return false;
  if (!o.agreed) return exchange_headers(o);
  if (!o.requests.complete()) return false;
  if (o.stages.empty()) {
    o.done = true;
    o.operation = {.call = o.call(), .source = {}, .target = {}};
    return true;
  }
  const auto stage = std::move(o.stages.front());
  o.stages.pop_front();
  stage();
  return true;
}

bool MpiEngine::advance_all() {
  bool moved = false;
  for (const auto& operation : in_flight_) moved |= advance(*operation);
  std::erase_if(in_flight_, [](const auto& operation) { return operation->done; });
  return moved;
}

void MpiEngine::poll_notices() {
  if (!peer_failure_.empty() || !notice_.complete()) return;
  incoming_.text.back() = '\0';
  peer_failure_ = join("rank ", incoming_.rank, " failed: ", incoming_.text.data());
}

void MpiEngine::wait(const std::shared_ptr<MpiOperation>& operation) {
  if (operation->done) return;
  try {
    check(state_.failure.empty(), state_.failure);
    check(std::uncaught_exceptions() <= operation->uncaught, operation->text(),
          " was given up because an exception passed it");
    wait_until_done(*operation);
  } catch (...) {
    if (state_.failure.empty()) remember(state_.failure, reason_of(std::current_exception()));
    withdraw(operation);
    throw;
  }
}

void MpiEngine::wait_until_done(MpiOperation& operation) {
  const MpiAccess access(backend_in_flight());
  Patience patience(now(), options_.clock ? Patience::kAllOfIt : kMostBetweenLooks);
  for (int idle = 0; !operation.done; ++idle) {
    if (advance_all()) {
      idle = 0;
      continue;
    }
    poll_notices();
    if (idle >= kAsleep && idle % kLooksAtPeers == 0 && peer_failure_.empty())
      peer_failure_ = peers_.lost();
    const std::string reason = obstacle(operation, patience.waited(now()));
    check(reason.empty(), reason);
    back_off(idle);
  }
}

std::string MpiEngine::obstacle(const MpiOperation& operation, double waited) {
  if (!operation.error.empty()) return operation.error;
  if (!peer_failure_.empty()) return peer_failure_;
  return waited >= options_.timeout_seconds ? timeout_text(operation) : std::string();
}

std::string MpiEngine::timeout_text(const MpiOperation& operation) const {
  const std::string place = state_.log.place();
  std::string text = join(operation.text(), place.empty() ? "" : " at ", place,
                          " did not complete in ", options_.timeout_seconds, " s");
  for (std::size_t seat = 0; seat < operation.members.size(); ++seat) {
    if (seat == static_cast<std::size_t>(operation.seat)) continue;
    text += join("; rank ", operation.members[seat],
                 operation.headers[seat].empty() ? " has arrived" : " has not arrived");
  }
  return text;
}

// MPI may still write into what the operation holds, when a peer comes late; a failed process ends
// soon, so its memory is given up with it. That asks for no memory: it may be what is missing.
void MpiEngine::withdraw(const std::shared_ptr<MpiOperation>& operation) noexcept {
  std::erase(in_flight_, operation);
  if (operation->agreed && !operation->error.empty() && operation->background.empty())
    return;  // nothing is under way
  operation->kept = operation;
}

void MpiEngine::abort(const std::string& reason) noexcept {
  if (abort_sent_) return;
  abort_sent_ = true;
  if (state_.failure.empty()) remember(state_.failure, reason);
  outgoing_.rank = rank_;
  const std::size_t length = std::min(reason.size(), outgoing_.text.size() - 1);
  std::memcpy(outgoing_.text.data(), reason.data(), length);
  try {
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_)
        abort_requests_.send(reinterpret_cast<const std::byte*>(&outgoing_), sizeof outgoing_, rank,
                             kNoticeTag, control_);
    abort_requests_.complete();
  } catch (const std::exception&) {
    // Best effort: the job ends anyway.
  }
}

}  // namespace trireme
