// What a disk holds while programs write to it, and what is left of that after a power cut.
//
// Everything exists twice: as programs see it, and as it is on the platters. Between the two lies a
// log of changes in the order in which they were made: a write or a new size of a file, a change
// of names in a folder. Syncing a file makes its changes durable, syncing a folder the changes of
// its names; nothing else does. A power cut keeps what is durable and of the log what a
// `Persistence` chooses.
//
// Modelled, after ALICE's persistence properties (Pillai et al., OSDI 2014):
// - writes reach the disk in any order, by sectors of 512 bytes; the last one may be torn;
// - a file's size may grow before its data arrives: zeros;
// - names and data are independent: a rename may be ahead of the data or behind it, a synced file
//   may have no name, a new folder may be lost with everything inside;
// - changes of names are atomic (a rename too, also across folders) and kept in order where they
//   touch the same name; changes of different names are independent;
// - a sync that fails drops the changes it was asked to save: programs still read them, a later
//   sync succeeds, and they are not on the disk.
// Not modelled: links, times and rights (but "for the owner only" is remembered), bits that rot,
// sectors that become unreadable, a write that hits another file, file systems that make the name
// of a synced file durable by themselves (ext4 does; POSIX does not ask for it).
//
// Paths are relative to the root, "run/a" and "/run/a" are one. Not thread-safe: SimulatedFiles is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace trireme::testing {

inline constexpr std::int64_t kSector = 512;

enum class KeptData : std::uint8_t {
  kNone,     // no unsynced write
  kAll,      // every one
  kInOrder,  // those before a seeded moment
  kSectors,  // seeded sectors, seeded sizes
  kTorn,     // all, but each file's last write ends somewhere in its last sector
  kZeros,    // none, but every file has its new size
};

enum class KeptNames : std::uint8_t {
  kNone,     // no unsynced creation, rename or removal
  kAll,      // every one
  kInOrder,  // those before a seeded moment, the same as that of the data
  kRandom,   // seeded ones
};

struct Persistence {
  KeptData data = KeptData::kNone;
  KeptNames names = KeptNames::kNone;
};

// All 24 pairs.
std::vector<Persistence> every_persistence();
std::string text_of(const Persistence& kept);

struct DiskNode;
using DiskNodePtr = std::shared_ptr<DiskNode>;

struct DiskNode {
  bool folder = false;
  bool owner_only = false;
  std::int64_t modified = 0;
  std::string content;  // of a file
  std::string durable;
  std::int64_t room = 0;                     // bytes taken on the disk: holes at the end take none
  std::map<std::string, DiskNodePtr> names;  // of a folder
  std::map<std::string, DiskNodePtr> durable_names;
};

class SimulatedDisk {
 public:
  SimulatedDisk();

  // What a path names: null if nothing. `parent` and `name` are set whenever the folder exists.
  struct Place {
    DiskNodePtr parent;
    std::string name;
    DiskNodePtr node;
    bool through_file = false;  // something on the way is a file
  };
  Place find(const std::string& path) const;

  // Binds the name to the node; the caller has checked that this is legal.
  void add(const Place& at, const DiskNodePtr& node);
  void remove(const Place& at);
  void rename(const Place& from, const Place& to);

  void write(const DiskNodePtr& file, std::int64_t offset, std::string bytes);
  void resize(const DiskNodePtr& file, std::int64_t bytes);

  void sync(const DiskNodePtr& node);
  void drop_unsynced(const DiskNodePtr& file);
  // Everything: what a clean shutdown does.
  void sync_all();

  // Bytes taken by all files that have a name.
  std::int64_t used() const;
  std::int64_t unsynced() const { return static_cast<std::int64_t>(log_.size()); }

  // A new disk with what this one would hold after a power cut now.
  SimulatedDisk after_power_cut(const Persistence& kept, std::uint64_t seed) const;

 private:
  struct Binding {
    DiskNodePtr folder;
    std::string name;
    DiskNodePtr node;  // null: the name goes
  };
  struct Change {
    DiskNodePtr file;  // of data; null: of names
    std::int64_t offset = 0;
    std::string bytes;
    bool new_size = false;  // `offset` is the size
    std::vector<Binding> bindings;
  };
  using Chosen = std::vector<bool>;  // by index in the log
  using Names = std::map<std::string, DiskNodePtr>;

  static void apply(const Change& change, std::string& content);
  void bind(std::vector<Binding> bindings);
  // Adds to the chosen changes of names the earlier ones of the same names.
  void close_over_order(Chosen& chosen) const;
  Chosen choose_names(KeptNames kept, std::size_t cut, std::uint64_t seed) const;
  std::string surviving(const DiskNodePtr& file, KeptData kept, std::size_t cut,
                        std::uint64_t seed) const;

  DiskNodePtr root_;
  std::vector<Change> log_;
};

}  // namespace trireme::testing
