#include "recipes/train/disk_times.h"

#include "recipes/train/gather.h"

namespace trireme {

namespace {

constexpr MemoryKind kKinds[] = {MemoryKind::kParameters, MemoryKind::kGradients,
                                 MemoryKind::kOptimizer};
constexpr std::size_t kValues = 6;  // of a kind, on their way between ranks

}  // namespace

DiskTimes::DiskTimes(const std::vector<TiledStore*>& stores, const std::function<double()>& clock) {
  for (TiledStore* store : stores) {
    if (store->tier() != Tier::kDisk) continue;
    store->set_clock(clock);
    stores_.push_back(store);
  }
}

void DiskTimes::begin_step() {
  for (TiledStore* store : stores_) store->reset_times();
}

void DiskTimes::end_step() {
  for (const TiledStore* store : stores_) {
    StoreTimes& sum = spent_[static_cast<std::size_t>(store->shape().kind)];
    const StoreTimes& step = store->times();
    sum.total += step.total;
    sum.working += step.working;
    sum.waiting_reads += step.waiting_reads;
    sum.waiting_writes += step.waiting_writes;
    sum.bytes_read += step.bytes_read;
    sum.bytes_written += step.bytes_written;
  }
}

// Every rank gives numbers of all kinds, whatever it has: stages of a pipeline may differ.
std::map<std::string, DiskCell> DiskTimes::over_ranks(Communicator& world, Backend& backend) const {
  std::vector<double> values;
  for (const MemoryKind kind : kKinds) {
    const StoreTimes& t = spent_[static_cast<std::size_t>(kind)];
    for (const double value :
         {t.total, t.working, t.waiting_reads, t.waiting_writes, static_cast<double>(t.bytes_read),
          static_cast<double>(t.bytes_written)})
      values.push_back(value);
  }
  values = reduce_values(world, backend, values, ReduceOp::kSum);
  std::map<std::string, DiskCell> cells;
  for (std::size_t k = 0; k < std::size(kKinds); ++k) {
    const double* sum = values.data() + k * kValues;
    if (sum[4] + sum[5] == 0) continue;
    const double ranks = world.size();
    cells[std::string(name_of(kKinds[k]))] = {.seconds = sum[0] / ranks,
                                              .computing = sum[1] / ranks,
                                              .waiting_reads = sum[2] / ranks,
                                              .waiting_writes = sum[3] / ranks,
                                              .bytes_read = static_cast<std::int64_t>(sum[4]),
                                              .bytes_written = static_cast<std::int64_t>(sum[5])};
  }
  return cells;
}

}  // namespace trireme
