#include "tests/support/simulated_disk.h"

#include <algorithm>
#include <functional>
#include <random>
#include <set>
#include <utility>

namespace trireme::testing {

namespace {

using Dice = std::mt19937_64;

bool heads(Dice& dice) { return (dice() & 1) != 0; }

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part == ".." && !parts.empty()) parts.pop_back();
    if (!part.empty() && part != "." && part != "..") parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

void put(std::string& content, std::int64_t offset, std::string_view bytes) {
  const auto at = static_cast<std::size_t>(offset);
  if (content.size() < at + bytes.size()) content.resize(at + bytes.size(), '\0');
  content.replace(at, bytes.size(), bytes);
}

// Seeded sectors of a write.
void put_sectors(std::string& content, std::int64_t offset, std::string_view bytes, Dice& dice) {
  const std::int64_t end = offset + static_cast<std::int64_t>(bytes.size());
  for (std::int64_t at = offset; at < end;) {
    const std::int64_t stop = std::min(end, (at / kSector + 1) * kSector);
    if (heads(dice))
      put(content, at,
          bytes.substr(static_cast<std::size_t>(at - offset), static_cast<std::size_t>(stop - at)));
    at = stop;
  }
}

// How much of a write arrives when its last sector is torn: at least a byte of that is missing.
std::size_t torn_size(std::int64_t offset, std::size_t bytes, Dice& dice) {
  const std::int64_t end = offset + static_cast<std::int64_t>(bytes);
  const std::int64_t sector = std::max(offset, (end - 1) / kSector * kSector);
  const auto in_sector = static_cast<std::uint64_t>(end - sector);
  return bytes - 1 - static_cast<std::size_t>(dice() % in_sector);
}

}  // namespace

std::vector<Persistence> every_persistence() {
  std::vector<Persistence> all;
  for (const KeptData data : {KeptData::kNone, KeptData::kAll, KeptData::kInOrder,
                              KeptData::kSectors, KeptData::kTorn, KeptData::kZeros})
    for (const KeptNames names :
         {KeptNames::kNone, KeptNames::kAll, KeptNames::kInOrder, KeptNames::kRandom})
      all.push_back({data, names});
  return all;
}

std::string text_of(const Persistence& kept) {
  constexpr const char* kData[] = {"no data",        "all data",  "data in order",
                                   "random sectors", "torn data", "zeros"};
  constexpr const char* kNames[] = {"no names", "all names", "names in order", "random names"};
  return std::string(kData[static_cast<int>(kept.data)]) + ", " +
         kNames[static_cast<int>(kept.names)];
}

SimulatedDisk::SimulatedDisk() : root_(std::make_shared<DiskNode>()) { root_->folder = true; }

SimulatedDisk::Place SimulatedDisk::find(const std::string& path) const {
  Place at{.parent = root_, .name = "", .node = root_};
  for (const std::string& part : parts_of(path)) {
    const DiskNodePtr folder = at.node;
    at = {.parent = nullptr, .name = part, .node = nullptr, .through_file = at.through_file};
    if (folder == nullptr) continue;
    at.through_file = at.through_file || !folder->folder;
    if (!folder->folder) continue;
    at.parent = folder;
    const auto entry = folder->names.find(part);
    if (entry != folder->names.end()) at.node = entry->second;
  }
  return at;
}

void SimulatedDisk::bind(std::vector<Binding> bindings) {
  for (const Binding& b : bindings) {
    if (b.node != nullptr)
      b.folder->names[b.name] = b.node;
    else
      b.folder->names.erase(b.name);
  }
  Change change;
  change.bindings = std::move(bindings);
  log_.push_back(std::move(change));
}

void SimulatedDisk::add(const Place& at, const DiskNodePtr& node) {
  bind({{at.parent, at.name, node}});
}

void SimulatedDisk::remove(const Place& at) { bind({{at.parent, at.name, nullptr}}); }

void SimulatedDisk::rename(const Place& from, const Place& to) {
  if (from.node == to.node) return;
  bind({{from.parent, from.name, nullptr}, {to.parent, to.name, from.node}});
}

void SimulatedDisk::apply(const Change& change, std::string& content) {
  if (change.new_size)
    content.resize(static_cast<std::size_t>(change.offset), '\0');
  else
    put(content, change.offset, change.bytes);
}

void SimulatedDisk::write(const DiskNodePtr& file, std::int64_t offset, std::string bytes) {
  file->room = std::max(file->room, offset + static_cast<std::int64_t>(bytes.size()));
  Change change;
  change.file = file;
  change.offset = offset;
  change.bytes = std::move(bytes);
  apply(change, file->content);
  log_.push_back(std::move(change));
}

void SimulatedDisk::resize(const DiskNodePtr& file, std::int64_t bytes) {
  file->room = std::min(file->room, bytes);
  Change change;
  change.file = file;
  change.offset = bytes;
  change.new_size = true;
  apply(change, file->content);
  log_.push_back(std::move(change));
}

void SimulatedDisk::close_over_order(Chosen& chosen) const {
  std::set<std::pair<const DiskNode*, std::string>> wanted;
  for (std::size_t i = log_.size(); i-- > 0;) {
    for (const Binding& b : log_[i].bindings)
      if (wanted.contains({b.folder.get(), b.name})) chosen[i] = true;
    if (!chosen[i]) continue;
    for (const Binding& b : log_[i].bindings) wanted.emplace(b.folder.get(), b.name);
  }
}

void SimulatedDisk::sync(const DiskNodePtr& node) {
  Chosen chosen(log_.size());
  for (std::size_t i = 0; i < log_.size(); ++i)
    for (const Binding& b : log_[i].bindings)
      if (b.folder == node) chosen[i] = true;
  close_over_order(chosen);
  std::vector<Change> kept;
  for (std::size_t i = 0; i < log_.size(); ++i) {
    if (log_[i].file == node) {
      apply(log_[i], node->durable);
      continue;
    }
    if (!chosen[i]) {
      kept.push_back(std::move(log_[i]));
      continue;
    }
    for (const Binding& b : log_[i].bindings) {
      if (b.node != nullptr)
        b.folder->durable_names[b.name] = b.node;
      else
        b.folder->durable_names.erase(b.name);
    }
  }
  log_ = std::move(kept);
}

void SimulatedDisk::drop_unsynced(const DiskNodePtr& file) {
  std::erase_if(log_, [&](const Change& change) { return change.file == file; });
}

void SimulatedDisk::sync_all() {
  while (!log_.empty()) {
    const Change& first = log_.front();
    const DiskNodePtr node = first.file != nullptr ? first.file : first.bindings.front().folder;
    sync(node);
  }
}

std::int64_t SimulatedDisk::used() const {
  const std::function<std::int64_t(const DiskNode&)> below = [&](const DiskNode& node) {
    std::int64_t bytes = node.room;
    for (const auto& [name, entry] : node.names) bytes += below(*entry);
    return bytes;
  };
  return below(*root_);
}

SimulatedDisk::Chosen SimulatedDisk::choose_names(KeptNames kept, std::size_t cut,
                                                  std::uint64_t seed) const {
  Dice dice(seed);
  Chosen chosen(log_.size());
  for (std::size_t i = 0; i < log_.size(); ++i) {
    if (log_[i].file != nullptr) continue;
    chosen[i] = kept == KeptNames::kAll || (kept == KeptNames::kInOrder && i < cut) ||
                (kept == KeptNames::kRandom && heads(dice));
  }
  close_over_order(chosen);
  return chosen;
}

std::string SimulatedDisk::surviving(const DiskNodePtr& file, KeptData kept, std::size_t cut,
                                     std::uint64_t seed) const {
  std::string content = file->durable;
  Dice dice(seed);
  const Change* last = nullptr;
  for (const Change& change : log_)
    if (change.file == file && !change.new_size && !change.bytes.empty()) last = &change;
  for (std::size_t i = 0; i < log_.size(); ++i) {
    const Change& change = log_[i];
    if (change.file != file || kept == KeptData::kNone || kept == KeptData::kZeros ||
        (kept == KeptData::kInOrder && i >= cut))
      continue;
    if (kept == KeptData::kSectors && change.new_size) {
      if (heads(dice)) apply(change, content);
    } else if (kept == KeptData::kSectors) {
      put_sectors(content, change.offset, change.bytes, dice);
    } else if (kept == KeptData::kTorn && &change == last) {
      const std::size_t size = torn_size(change.offset, change.bytes.size(), dice);
      put(content, change.offset, std::string_view(change.bytes).substr(0, size));
    } else {
      apply(change, content);
    }
  }
  const bool changed = std::any_of(log_.begin(), log_.end(),
                                   [&](const Change& change) { return change.file == file; });
  if (changed && (kept == KeptData::kZeros || (kept == KeptData::kSectors && heads(dice))))
    content.resize(file->content.size(), '\0');
  return content;
}

SimulatedDisk SimulatedDisk::after_power_cut(const Persistence& kept, std::uint64_t seed) const {
  // Choices that share a seed still draw differently.
  Dice dice(seed * 64 + static_cast<std::uint64_t>(kept.data) * 8 +
            static_cast<std::uint64_t>(kept.names));
  const auto cut = static_cast<std::size_t>(dice() % (log_.size() + 1));
  const Chosen chosen = choose_names(kept.names, cut, dice());
  std::map<const DiskNode*, Names> changed;  // folders whose names are not just the durable ones
  for (std::size_t i = 0; i < log_.size(); ++i) {
    if (!chosen[i]) continue;
    for (const Binding& b : log_[i].bindings) {
      Names& names = changed.try_emplace(b.folder.get(), b.folder->durable_names).first->second;
      if (b.node != nullptr)
        names[b.name] = b.node;
      else
        names.erase(b.name);
    }
  }
  const std::function<DiskNodePtr(const DiskNodePtr&)> copy = [&](const DiskNodePtr& node) {
    auto twin = std::make_shared<DiskNode>();
    twin->folder = node->folder;
    twin->owner_only = node->owner_only;
    twin->modified = node->modified;
    if (!node->folder) twin->content = surviving(node, kept.data, cut, dice());
    twin->durable = twin->content;
    twin->room = static_cast<std::int64_t>(twin->content.size());
    const auto found = changed.find(node.get());
    for (const auto& [name, entry] : found != changed.end() ? found->second : node->durable_names)
      twin->names[name] = copy(entry);
    twin->durable_names = twin->names;
    return twin;
  };
  SimulatedDisk disk;
  disk.root_ = copy(root_);
  return disk;
}

}  // namespace trireme::testing
