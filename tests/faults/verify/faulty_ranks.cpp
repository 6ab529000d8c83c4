#include "tests/faults/verify/faulty_ranks.h"

#include <cstring>
#include <mutex>
#include <thread>

#include "framework/backend/fingerprint.h"
#include "tests/support/flipping_backend.h"
#include "zero/state_runs.h"

namespace trireme::test {

namespace {

// Of one rank: flips the bit where the fault in force wants it.
class Flipper {
 public:
  explicit Flipper(std::int64_t bytes) : bytes_(bytes) {}

  void arm(const Fault& fault) {
    fault_ = fault;
    skip_ = static_cast<int>(fault.pick % 3);
    armed_ = true;
  }
  bool disarm() {
    armed_ = false;
    return std::exchange(fired_, false);
  }
  void after(std::string_view written, const Tensor& x) {
    if (!armed_ || written != fault_.where || !x || x.elements() == 0) return;
    if (size_of(x.dtype()) != bytes_ || skip_-- > 0) return;
    flip_bit(x,
             static_cast<std::int64_t>(fault_.pick / 3 % static_cast<std::uint64_t>(x.elements())),
             fault_.bit);
    armed_ = false;
    fired_ = true;
  }

 private:
  std::int64_t bytes_;
  Fault fault_;
  int skip_ = 0;
  bool armed_ = false, fired_ = false;
};

// Payloads may be changed on their way in.
class FlippingCommunicator final : public Communicator {
 public:
  FlippingCommunicator(std::unique_ptr<Communicator> owned, Communicator& inner, Flipper& flipper)
      : Communicator(inner.axis()), owned_(std::move(owned)), inner_(inner), flipper_(flipper) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void attach(Backend& backend) override { inner_.attach(backend); }
  Pending all_reduce(const Tensor& x, ReduceOp op) override {
    return flipped("all_reduce", inner_.all_reduce(x, op), x);
  }
  Pending all_gather(const Tensor& piece, const Tensor& whole) override {
    return flipped("all_gather", inner_.all_gather(piece, whole), whole);
  }
  Pending reduce_scatter(const Tensor& whole, const Tensor& piece) override {
    return flipped("reduce_scatter", inner_.reduce_scatter(whole, piece), piece);
  }
  Pending broadcast(const Tensor& x, int root) override { return inner_.broadcast(x, root); }
  Pending send(const Tensor& x, int to) override { return inner_.send(x, to); }
  Pending recv(const Tensor& x, int from) override {
    return flipped("recv", inner_.recv(x, from), x);
  }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> split(int color, int key, std::string axis) override {
    std::unique_ptr<Communicator> part = inner_.split(color, key, std::move(axis));
    if (!part) return nullptr;
    Communicator& inside = *part;
    return std::make_unique<FlippingCommunicator>(std::move(part), inside, flipper_);
  }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }
  void set_place(std::string place) override { inner_.set_place(std::move(place)); }
  void set_observer(CommObserver observer) override { inner_.set_observer(std::move(observer)); }
  const Traffic& traffic() const override { return inner_.traffic(); }
  void reset_traffic() override { inner_.reset_traffic(); }
  std::string recent_calls() const override { return inner_.recent_calls(); }

 private:
  Pending flipped(const char* name, Pending started, const Tensor& got) {
    auto pending = std::make_shared<Pending>(std::move(started));
    return Pending([this, name, pending, got] {
      pending->wait();
      if (size() > 1) flipper_.after(name, got);
    });
  }

  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  Flipper& flipper_;
};

// What is between the engine and the threads of one rank.
struct Wires {
  std::unique_ptr<Flipper> flipper;
  std::unique_ptr<FlippingCommunicator> faulty;
};

struct Outcome {
  std::uint64_t loss = 0, norm = 0, states = 0;
  bool operator==(const Outcome&) const = default;
};

std::uint64_t bits_of(double x) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

Tensor host_tensor(parity::Rank& rank, std::int64_t elements, DType dtype) {
  return allocate_on_host(rank.backend.shared_ledger(), {elements}, dtype,
                          MemoryKind::kCommunication);
}

// Bytes of all that lasts, without padding, added up on the host.
Outcome outcome(parity::Rank& rank, const EngineStep& step) {
  Outcome out{bits_of(step.loss), bits_of(step.optimizer.grad_norm), 0};
  const ZeroOptimizer& optimizer = rank.engine.optimizer();
  std::uint64_t key = 0;
  for (const KeptHome& kept : kept_homes(optimizer))
    for (const StateRun& run : state_runs(*optimizer.units()[kept.unit], kept.home.range())) {
      const Tensor x = host_tensor(rank, run.flat.size(), kept.home.dtype());
      kept.home.fetch(run.flat, x);
      out.states +=
          fingerprint_of(x.data(), x.elements(), size_of(x.dtype()), mixed_word(++key), 0);
    }
  return out;
}

void flip_home(parity::Rank& rank, const FlatHome& home, std::int64_t element, int bit) {
  const Tensor x = host_tensor(rank, 1, home.dtype());
  home.fetch({element, element + 1}, x);
  flip_bit(x, 0, bit);
  home.keep({element, element + 1}, x);
  home.flush();
}

// Of some tensor of that array; returns its name.
std::string flip_state(parity::Rank& rank, const std::string& array, const Fault& fault) {
  struct Place {
    FlatHome home;
    StateRun run;
  };
  std::vector<Place> places;
  const ZeroOptimizer& optimizer = rank.engine.optimizer();
  for (const KeptHome& kept : kept_homes(optimizer))
    if (kept.array == array)
      for (StateRun& run : state_runs(*optimizer.units()[kept.unit], kept.home.range()))
        places.push_back({kept.home, std::move(run)});
  const Place& place = places[fault.pick % places.size()];
  const auto elements = static_cast<std::uint64_t>(place.run.flat.size());
  flip_home(rank, place.home,
            place.run.flat.begin + static_cast<std::int64_t>(fault.pick / 7 % elements), fault.bit);
  return place.run.tensor + " (" + array + ")";
}

bool flip_padding(parity::Rank& rank, const Fault& fault) {
  const ZeroOptimizer& optimizer = rank.engine.optimizer();
  for (const KeptHome& kept : kept_homes(optimizer)) {
    const FlatLayout& layout = optimizer.units()[kept.unit]->layout();
    const Range padding = intersect({layout.elements(), layout.padded()}, kept.home.range());
    if (padding.empty()) continue;
    flip_home(rank, kept.home, padding.begin, fault.bit);
    return true;
  }
  return false;
}

class FaultyRun {
 public:
  FaultyRun(const Flips& flips, int steps)
      : flips_(flips), steps_(steps), seen_(static_cast<std::size_t>(steps)) {
    const auto ranks = static_cast<std::size_t>(flips.layout.mesh.ranks());
    quiet_.resize(ranks);
    wires_.resize(ranks);
  }

  std::vector<StepSeen> run() {
    parity::run_layout(flips_.task, flips_.layout, [&](parity::Rank& rank) { train_quiet(rank); });
    parity::Task task = flips_.task;
    task.state_copy = true;
    task.network = [&](Communicator& world) { return wire(world); };
    task.backend = [&](std::shared_ptr<MemoryLedger> ledger) {
      Flipper& flipper = flipper_of_thread();
      return make_flipping_backend(
          std::move(ledger),
          [&flipper](std::string_view written, const Tensor& x) { flipper.after(written, x); });
    };
    parity::run_layout(task, flips_.layout, [&](parity::Rank& rank) { train_faulty(rank); });
    return std::move(seen_);
  }

 private:
  SampleSource source() const {
    return parity::random_samples(flips_.task.model, flips_.task.seed);
  }

  std::unique_ptr<Communicator> wire(Communicator& world) {
    std::scoped_lock lock(mutex_);
    threads_[std::this_thread::get_id()] = world.rank();
    Wires& wires = wires_[static_cast<std::size_t>(world.rank())];
    wires.flipper = std::make_unique<Flipper>(size_of(flips_.task.compute));
    wires.faulty = std::make_unique<FlippingCommunicator>(nullptr, world, *wires.flipper);
    return std::make_unique<WitnessCommunicator>(*wires.faulty);
  }

  Flipper& flipper_of_thread() {
    std::scoped_lock lock(mutex_);
    return *wires_[static_cast<std::size_t>(threads_.at(std::this_thread::get_id()))].flipper;
  }

  void train_quiet(parity::Rank& rank) {
    std::vector<Outcome> all;
    for (int step = 0; step < steps_; ++step) {
      const EngineStep result = rank.engine.train(step, source());
      all.push_back(outcome(rank, result));
    }
    std::scoped_lock lock(mutex_);
    quiet_[static_cast<std::size_t>(rank.mesh.world().rank())] = std::move(all);
  }

  void train_faulty(parity::Rank& rank) {
    const int me = rank.mesh.world().rank();
    std::vector<std::string> said;
    StepVerifier verifier({rank.engine, rank.mesh, rank.backend,
                           dynamic_cast<WitnessCommunicator&>(rank.mesh.world())},
                          {.every = flips_.every, .most_times = flips_.most_times},
                          [&](const std::string& text) { said.push_back(text); });
    Flipper& flipper = *wires_[static_cast<std::size_t>(me)].flipper;
    for (int step = 0; step < steps_; ++step) {
      const Outcome& quiet = quiet_[static_cast<std::size_t>(me)][static_cast<std::size_t>(step)];
      const auto found = flips_.faults.find(step);
      const bool mine = found != flips_.faults.end() && found->second.rank == me;
      StepSeen seen;
      if (mine && found->second.where.starts_with("rest ")) {
        seen.tensor = flip_state(rank, found->second.where.substr(5), found->second);
        seen.fired = seen.changed = true;
      }
      if (mine && found->second.where == "padding") seen.fired = flip_padding(rank, found->second);
      std::uint64_t runs = 0;
      const auto faulty = [&] {
        if (!mine) return rank.engine.train(step, source());
        if (found->second.where.starts_with("use ")) {
          seen.tensor = flip_state(rank, found->second.where.substr(4), found->second);
          seen.fired = true;
        }
        Fault fault = found->second;
        fault.pick += 3 * runs++;  // another element each time
        flipper.arm(fault);
        const EngineStep result = rank.engine.train(step, source());
        seen.fired |= flipper.disarm();
        return result;
      };
      const auto first = [&] {
        const EngineStep result = faulty();
        const Outcome got = outcome(rank, result);
        seen.changed |= got != quiet;
        seen.loss_changed = got.loss != quiet.loss;
        return result;
      };
      const auto again = [&] {
        return mine && found->second.every_run ? faulty() : rank.engine.train(step, source());
      };
      const EngineStep stands = verifier.train(step, first, again);
      seen.right = outcome(rank, stands) == quiet;
      note(step, me, seen, std::exchange(said, {}));
    }
  }

  void note(int step, int rank, const StepSeen& mine, std::vector<std::string> said) {
    std::scoped_lock lock(mutex_);
    StepSeen& all = seen_[static_cast<std::size_t>(step)];
    all.fired |= mine.fired;
    all.changed |= mine.changed;
    all.loss_changed |= mine.loss_changed;
    all.right &= mine.right;
    if (!mine.tensor.empty()) all.tensor = mine.tensor;
    if (rank == 0) all.said = std::move(said);
  }

  const Flips& flips_;
  int steps_;
  std::mutex mutex_;
  std::map<std::thread::id, int> threads_;
  std::vector<Wires> wires_;
  std::vector<std::vector<Outcome>> quiet_;  // by rank and step
  std::vector<StepSeen> seen_;
};

}  // namespace

std::vector<StepSeen> train_with_faults(const Flips& flips, int steps) {
  return FaultyRun(flips, steps).run();
}

}  // namespace trireme::test
