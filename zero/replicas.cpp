#include "zero/replicas.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <unordered_map>

#include "framework/backend/fingerprint.h"
#include "framework/backend/host_values.h"
#include "framework/base/error.h"
#include "zero/replica_verdict.h"

namespace trireme {

namespace {

std::uint64_t id_of(const Section& s, std::int64_t columns, const std::string& array) {
  RngKey key = key_from_seed(0).child(s.name).child(array);
  for (std::int64_t number : {s.global_row, s.global_column, s.rows, columns})
    key = key.child(static_cast<std::uint64_t>(number));
  return std::max<std::uint64_t>(1, key.value);  // 0 stands for none
}

// The words of all ranks of the group, in rank order; each gives equally many.
std::vector<std::uint64_t> gathered(Communicator& group, Backend& backend,
                                    const std::vector<std::uint64_t>& mine) {
  if (group.size() == 1 || mine.empty()) return mine;
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(group.size()));
  const auto bytes = [&](const std::vector<std::uint64_t>& words) {
    return backend.allocate({std::ssize(words) * 8}, DType::kU8, MemoryKind::kWorkspace);
  };
  const Tensor piece = bytes(mine), whole = bytes(all);
  backend.upload(mine.data(), piece);
  group.all_gather(piece, whole).wait();
  backend.download(whole, all.data());
  return all;
}

std::size_t largest_of(Communicator& world, Backend& backend, std::size_t count) {
  if (world.size() == 1) return count;
  const Tensor x = backend.allocate({1}, DType::kF64, MemoryKind::kWorkspace);
  const double mine[1] = {static_cast<double>(count)};
  upload_doubles(backend, mine, x);
  world.all_reduce(x, ReduceOp::kMax).wait();
  return static_cast<std::size_t>(download_doubles(backend, x)[0]);
}

}  // namespace

ReplicaCheck::ReplicaCheck(const Mesh& mesh, Backend& backend,
                           std::span<const ReplicatedArray> arrays, std::int64_t turn)
    : mesh_(mesh), backend_(backend) {
  for (const ReplicatedArray& array : arrays)
    if (array.home.defined() && array.home.on_device()) list_parts(array);
  set_factors();
  set_turns(turn);
}

// As many on all ranks.
void ReplicaCheck::set_turns(std::int64_t turn) {
  constexpr std::int64_t kMostTurns = 8;
  std::int64_t states = 0;
  for (const Part& part : parts_)
    if (part.in_turns && part.factor != 0) states += part.flat.size();
  const auto most = static_cast<std::int64_t>(
      largest_of(mesh_.world(), backend_, static_cast<std::size_t>(states)));
  turns_ = std::clamp<std::int64_t>((most + turn - 1) / turn, 1, kMostTurns);
}

// A section is one run of the unit's buffer. Data ranks list the same sections, also those of
// which their shard has nothing.
void ReplicaCheck::list_parts(const ReplicatedArray& array) {
  const Unit& unit = *array.unit;
  const Range held = array.home.range();
  const int shards = held.size() < unit.layout().padded() ? unit.layout().ranks() : 1;
  for (std::size_t p = 0; p < unit.parameters().size(); ++p) {
    const ParameterSpec& spec = unit.parameters()[p]->spec();
    if (!spec.trainable && !array.of_frozen) continue;
    const std::int64_t columns = local_columns(spec);
    for (const Section& section : spec.sections) {
      const std::int64_t begin =
          unit.layout().offset(static_cast<std::int64_t>(p)) + section.local_row * columns;
      const Range flat = intersect({begin, begin + section.rows * columns}, held);
      parts_.push_back({.tensor = section.name,
                        .array = array.name,
                        .home = array.home,
                        .flat = flat,
                        .first = flat.empty() ? 0 : flat.begin - begin,
                        .whole = section.rows * columns,
                        .in_turns = array.in_turns,
                        .id = id_of(section, columns, array.name),
                        .shards = shards});
    }
  }
}

// Ranks of one data coordinate stand for those of all, which hold the same rectangles.
void ReplicaCheck::set_factors() {
  const std::size_t count = largest_of(mesh_.world(), backend_, parts_.size());
  std::vector<std::uint64_t> ids;
  for (const Part& part : parts_) ids.push_back(part.id);
  ids.resize(count);
  const std::vector<std::uint64_t> all =
      gathered(mesh_.pipeline(), backend_, gathered(mesh_.tensor(), backend_, ids));
  struct Holders {
    std::uint64_t count = 0;
    std::size_t first = 0;
  };
  std::unordered_map<std::uint64_t, Holders> holders;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (holders[all[i]].count++ == 0) holders[all[i]].first = i;
  const MeshCoord at = mesh_.coord();
  const std::size_t own =
      count * static_cast<std::size_t>(at.pipeline * mesh_.shape().tensor + at.tensor);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    const Holders& found = holders[part.id];
    const std::uint64_t copies =
        found.count * static_cast<std::uint64_t>(mesh_.shape().data / part.shards);
    const bool first = found.first == own + i && at.data / part.shards == 0;
    part.factor = first ? copies - 1 : copies == 1 ? 0 : ~std::uint64_t{0};
    if (part.factor != 0 && !part.flat.empty()) ++compared_;
  }
}

// The same elements of a rectangle on all ranks, however it is cut there.
void ReplicaCheck::add(std::int64_t step, const Tensor& out) const {
  const std::int64_t turn = step % turns_;
  for (const Part& part : parts_) {
    if (part.factor == 0) continue;
    Range now{0, part.whole};
    if (part.in_turns) now = {part.whole * turn / turns_, part.whole * (turn + 1) / turns_};
    const Range own = intersect(now, {part.first, part.first + part.flat.size()});
    if (own.empty()) continue;
    const std::int64_t shift = part.flat.begin - part.first;
    backend_.train_kernels()->fingerprint(part.home.slice({own.begin + shift, own.end + shift}),
                                          part.id, own.begin, part.factor, out);
  }
}

std::uint64_t ReplicaCheck::fingerprint(const Part& part) const {
  const Tensor out = backend_.zeros({2}, DType::kF64, MemoryKind::kWorkspace);
  backend_.train_kernels()->fingerprint(part.home.slice(part.flat), part.id, part.first, 1, out);
  const std::vector<double> words = download_doubles(backend_, out);
  return joined_fingerprint(words[0], words[1]);
}

std::vector<ReplicaRecord> ReplicaCheck::records_of_all() const {
  constexpr std::size_t kWords = 5;
  std::vector<std::uint64_t> words;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    if (part.factor == 0 || part.flat.empty()) continue;
    for (std::uint64_t word : {part.id, fingerprint(part), static_cast<std::uint64_t>(part.first),
                               static_cast<std::uint64_t>(part.flat.size()),
                               static_cast<std::uint64_t>(part.shards) << 32 | i})
      words.push_back(word);
  }
  words.resize(largest_of(mesh_.world(), backend_, words.size()));
  const std::size_t each = words.size();
  const std::vector<std::uint64_t> all = gathered(mesh_.world(), backend_, words);
  std::vector<ReplicaRecord> records;
  for (std::size_t i = 0; i + kWords <= all.size(); i += kWords)
    if (all[i] != 0)
      records.push_back({.id = all[i],
                         .fingerprint = all[i + 1],
                         .first = static_cast<std::int64_t>(all[i + 2]),
                         .elements = static_cast<std::int64_t>(all[i + 3]),
                         .shards = static_cast<int>(all[i + 4] >> 32),
                         .rank = static_cast<int>(i / each),
                         .part = all[i + 4] & 0xffffffffu});
  return records;
}

// The rank that it is of tells the others.
std::string ReplicaCheck::name_of_part(const ReplicaRecord& record) const {
  std::array<char, 256> text{};
  Communicator& world = mesh_.world();
  if (record.rank == world.rank()) {
    const Part& part = parts_[record.part];
    const std::string name = join(part.tensor, " (", part.array, ")");
    std::strncpy(text.data(), name.c_str(), text.size() - 1);
  }
  const Tensor shared = backend_.allocate({std::ssize(text)}, DType::kU8, MemoryKind::kWorkspace);
  backend_.upload(text.data(), shared);
  world.broadcast(shared, record.rank).wait();
  backend_.download(shared, text.data());
  return text.data();
}

void ReplicaCheck::fail_naming(std::int64_t step) const {
  const ReplicaVerdict verdict = judge_replicas(records_of_all(), mesh_.shape());
  if (!verdict.found)
    fail("step ", step, ": fingerprints of replicated parameters do not add up to 0 over the ",
         mesh_.world().size(),
         " ranks, but all copies agree when they are read again: a number "
         "was changed in memory or on its way");
  fail("step ", step, ": copies of ", name_of_part(verdict.record), " differ: ", verdict.sentence);
}

}  // namespace trireme
