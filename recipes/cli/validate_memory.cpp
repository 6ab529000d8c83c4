// What must hold between the keys that cut or move memory: zero, offload, recompute.partition. The
// legal table of offload is written in one place, `offload`.
#include "framework/base/error.h"
#include "recipes/cli/validate.h"
#include "recipes/cli/values.h"

namespace trireme {
namespace {

class MemoryChecker {
 public:
  explicit MemoryChecker(const Recipe& recipe) : r_(recipe) {}

  std::vector<CrossProblem> run() {
    zero();
    shard_ranks();
    offload();
    partition();
    return std::move(problems_);
  }

 private:
  template <typename... Parts>
  void expect(bool holds, std::vector<std::string> keys, const Parts&... parts) {
    if (!holds) problems_.push_back({std::move(keys), join(parts...)});
  }

  void zero() {
    const ZeroSection& z = r_.zero;
    expect(z.reshard == "forward" || z.stage == 3, {"zero.reshard", "zero.stage"},
           "zero.reshard = ", z.reshard,
           " needs zero.stage = 3, where parameters are gathered; with ", z.stage, " use forward");
    expect(z.max_live_parameters == 0 || z.stage == 3, {"zero.max_live_parameters", "zero.stage"},
           "zero.max_live_parameters = ", z.max_live_parameters,
           " needs zero.stage = 3, where parameters are gathered; with ", z.stage,
           " use unlimited");
  }

  void shard_ranks() {
    const auto ranks = r_.zero.shard_ranks, data = r_.parallel.data;
    if (ranks == 0) return;
    expect(r_.zero.stage >= 1, {"zero.shard_ranks", "zero.stage"}, "zero.shard_ranks = ", ranks,
           " needs zero.stage = 1, 2 or 3; with 0 nothing is cut: use auto");
    std::vector<std::string> legal;
    for (auto n : divisors(data)) legal.push_back(std::to_string(n));
    expect(data % ranks == 0, {"zero.shard_ranks", "parallel.data"}, "zero.shard_ranks = ", ranks,
           " does not divide parallel.data = ", data, "; use ", one_of(legal), ", or auto");
  }

  void offload() {
    const OffloadSection& o = r_.offload;
    const auto stage = r_.zero.stage;
    expect(o.optimizer == "none" || stage >= 1, {"offload.optimizer", "zero.stage"},
           "offload.optimizer = ", o.optimizer, " needs zero.stage = 1, 2 or 3; with ", stage,
           " use none");
    expect(o.gradients == "none" || stage >= 1, {"offload.gradients", "zero.stage"},
           "offload.gradients = ", o.gradients, " needs zero.stage = 1, 2 or 3; with ", stage,
           " use none");
    expect(o.parameters == "none" || stage == 3, {"offload.parameters", "zero.stage"},
           "offload.parameters = ", o.parameters, " needs zero.stage = 3; with ", stage,
           " use none");
    expect(o.activations == "none" || r_.recompute.mode == "full",
           {"offload.activations", "recompute.mode"}, "offload.activations = ", o.activations,
           " needs recompute.mode = full, whose kept inputs are what moves; with ",
           r_.recompute.mode, " use none");
    expect(o.resident == "auto" || parse_size(o.resident).has_value(), {"offload.resident"},
           "offload.resident = ", o.resident, ": expected auto or a size, as 0 or 2GiB");
    expect(o.parameters != "none" || (o.slots == 0 && o.resident == "auto"),
           {"offload.slots", "offload.resident", "offload.parameters"},
           "offload.slots and offload.resident are of parameters that are streamed; with "
           "offload.parameters = none use auto");
    for (const auto& [name, home] : {std::pair{"offload.optimizer", o.optimizer},
                                     std::pair{"offload.parameters", o.parameters}})
      expect(home != "disk" || r_.train.verify_every == 0, {name, "train.verify_every"}, name,
             " = disk: train.verify_every = ", r_.train.verify_every,
             " keeps a copy of the states on the host, which is not made of states on disk; use "
             "none or host, or train.verify_every = never");
    const bool disk = o.optimizer == "disk" || o.gradients == "disk" || o.parameters == "disk" ||
                      o.activations == "disk" || o.kv_cache == "disk";
    expect(
        o.folder.empty() || disk, {"offload.folder"}, "offload.folder = ", o.folder,
        ": nothing is put there; use offload.optimizer, offload.gradients, offload.parameters or "
        "offload.activations = disk, or leave it out");
  }

  void partition() {
    if (!r_.recompute.partition) return;
    expect(
        r_.recompute.mode == "full", {"recompute.partition", "recompute.mode"},
        "recompute.partition = true needs recompute.mode = full, whose kept inputs are cut; with ",
        r_.recompute.mode, " use false");
    expect(
        r_.parallel.tensor > 1, {"recompute.partition", "parallel.tensor"},
        "recompute.partition = true cuts kept inputs over tensor ranks, but parallel.tensor = 1; "
        "use false");
    expect(!r_.parallel.sequence, {"recompute.partition", "parallel.sequence"},
           "recompute.partition = true, but with parallel.sequence = true kept inputs are cut over "
           "tensor ranks already; use false");
  }

  const Recipe& r_;
  std::vector<CrossProblem> problems_;
};

}  // namespace

std::vector<CrossProblem> memory_problems(const Recipe& recipe) {
  return MemoryChecker(recipe).run();
}

}  // namespace trireme
