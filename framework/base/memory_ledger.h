// Memory is counted, not guessed: every allocation of a rank goes through its MemoryLedger with a
// kind and a tier.
//
// One ledger belongs to one rank. Allocation and release may happen on different threads of the
// process (a peer may drop the last reference to a tensor), so all members are thread-safe. A limit
// on a tier makes exceeding it an error that prints the table ("device.memory = 2GiB" works on any
// machine).
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace trireme {

// What bytes are for.
enum class MemoryKind : std::uint8_t {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,
  kCommunication,
  kKvCache,
  kWorkspace
};
inline constexpr int kMemoryKinds = 7;

// Where bytes are.
enum class Tier : std::uint8_t { kDevice, kHost, kDisk };
inline constexpr int kTiers = 3;

std::string_view name_of(MemoryKind kind);  // "parameters", "gradients", ..., as in report.json
std::string_view name_of(Tier tier);        // "device", "host", "disk"

class MemoryLedger {
 public:
  struct Entry {
    std::int64_t current = 0;   // bytes now
    std::int64_t peak = 0;      // most bytes of this kind at any moment
    std::int64_t resident = 0;  // bytes at the last mark_resident()
  };

  // Bytes allowed on a tier; 0 = no limit.
  void set_limit(Tier tier, std::int64_t bytes);
  std::int64_t limit(Tier tier) const;

  // Counts an allocation. Throws Error with table() in it when the tier's limit would be exceeded;
  // nothing is counted then.
  void add(Tier tier, MemoryKind kind, std::int64_t bytes);
  void remove(Tier tier, MemoryKind kind, std::int64_t bytes) noexcept;

  // Records the current bytes as the resident ones: called between steps.
  void mark_resident();
  // Peaks start again from the current bytes.
  void reset_peaks();

  Entry entry(Tier tier, MemoryKind kind) const;
  std::int64_t current(Tier tier) const;  // over all kinds
  std::int64_t peak(Tier tier) const;     // of the sum over all kinds (not the sum of peaks)

  // The bytes by kind on one tier, a line each, for error messages and reports.
  std::string table(Tier tier) const;

 private:
  mutable std::mutex mutex_;
  std::array<std::array<Entry, kMemoryKinds>, kTiers> entries_{};
  std::array<std::int64_t, kTiers> current_{}, peak_{}, limit_{};
};

}  // namespace trireme
