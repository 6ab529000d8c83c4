#include "zero/replica_verdict.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "framework/base/error.h"

namespace trireme {

namespace {

using Copy = std::vector<ReplicaRecord>;  // the parts of one

std::uint64_t total_of(const Copy& copy) {
  std::uint64_t sum = 0;
  for (const ReplicaRecord& part : copy) sum += part.fingerprint;
  return sum;
}

// A number for each copy: ranks that make one up have the same.
int copy_of(const ReplicaRecord& record, const MeshShape& mesh) {
  MeshCoord at = coord_of(mesh, record.rank);
  at.data = at.data / record.shards * record.shards;
  return rank_of(mesh, at);
}

std::vector<Copy> copies_of(const std::vector<ReplicaRecord>& records, const MeshShape& mesh) {
  std::map<int, Copy> by_number;
  for (const ReplicaRecord& record : records) by_number[copy_of(record, mesh)].push_back(record);
  std::vector<Copy> copies;
  for (auto& [number, copy] : by_number) copies.push_back(std::move(copy));
  return copies;
}

bool all_equal(const std::vector<Copy>& copies) {
  return std::all_of(copies.begin(), copies.end(),
                     [&](const Copy& copy) { return total_of(copy) == total_of(copies.front()); });
}

// What more than half of the copies have, or null.
const Copy* majority_of(const std::vector<Copy>& copies) {
  for (const Copy& copy : copies) {
    const auto equal = std::count_if(copies.begin(), copies.end(), [&](const Copy& other) {
      return total_of(other) == total_of(copy);
    });
    if (2 * equal > std::ssize(copies)) return &copy;
  }
  return nullptr;
}

// Parts that differ from the same parts of a copy that is cut alike.
std::vector<int> differing(const Copy& copy, const std::vector<Copy>& others) {
  for (const Copy& other : others) {
    const bool alike = std::equal(copy.begin(), copy.end(), other.begin(), other.end(),
                                  [](const ReplicaRecord& a, const ReplicaRecord& b) {
                                    return a.first == b.first && a.elements == b.elements;
                                  });
    if (!alike || total_of(copy) == total_of(other)) continue;
    std::vector<int> ranks;
    for (std::size_t i = 0; i < copy.size(); ++i)
      if (copy[i].fingerprint != other[i].fingerprint) ranks.push_back(copy[i].rank);
    return ranks;
  }
  std::vector<int> ranks;
  for (const ReplicaRecord& part : copy) ranks.push_back(part.rank);
  return ranks;
}

std::string text_of(const std::vector<int>& ranks, const MeshShape& mesh) {
  constexpr std::size_t kNamed = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kNamed); ++i) {
    const MeshCoord at = coord_of(mesh, ranks[i]);
    text += join(i == 0 ? "" : ", ", "rank ", ranks[i], " (data ", at.data, ", pipeline ",
                 at.pipeline, ", tensor ", at.tensor, ")");
  }
  if (ranks.size() > kNamed) text += join(" and ", ranks.size() - kNamed, " more");
  return text;
}

}  // namespace

ReplicaVerdict judge_replicas(const std::vector<ReplicaRecord>& records, const MeshShape& mesh) {
  std::unordered_map<std::uint64_t, std::vector<ReplicaRecord>> by_id;
  for (const ReplicaRecord& record : records) by_id[record.id].push_back(record);
  ReplicaVerdict verdict;
  std::size_t differ = 0;
  const std::size_t arrays = by_id.size();
  for (const ReplicaRecord& record : records) {
    const auto it = by_id.find(record.id);
    if (it == by_id.end()) continue;
    const std::vector<Copy> copies = copies_of(it->second, mesh);
    by_id.erase(it);
    if (all_equal(copies) || differ++ > 0) continue;
    verdict.found = true;
    verdict.record = record;
    const Copy* good = majority_of(copies);
    for (const Copy& copy : copies) {
      if (good && total_of(copy) == total_of(*good)) continue;
      const std::vector<int> ranks = differing(copy, good ? std::vector<Copy>{*good} : copies);
      verdict.suspects.insert(verdict.suspects.end(), ranks.begin(), ranks.end());
    }
    std::sort(verdict.suspects.begin(), verdict.suspects.end());
    const std::string ranks = text_of(verdict.suspects, mesh);
    const auto equal = std::count_if(copies.begin(), copies.end(), [&](const Copy& copy) {
      return good && total_of(copy) == total_of(*good);
    });
    verdict.sentence = good ? join(ranks, verdict.suspects.size() == 1 ? " holds" : " hold",
                                   " other bits than ", equal, " equal copies")
                            : join(ranks, " hold different bits, and with ", copies.size(),
                                   " copies no majority tells which are right");
  }
  verdict.sentence += join("; ", differ, " of ", arrays, " arrays with copies ",
                           differ == 1 ? "differs" : "differ");
  return verdict;
}

}  // namespace trireme
