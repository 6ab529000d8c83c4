// Copies of parameters and of their optimizer states are compared bit by bit, so that one which
// drifted - a flipped bit, a wrong sum, a rank that computed something else - is named instead of
// spoiling the run. Weights are compared whole every step. Masters and moments, 12 bytes a
// parameter that a step would otherwise read once more, are too while they have up to 16 Mi
// elements on a rank; larger ones in turns, a part of every rectangle each step, so that all are
// compared within 8 steps.
//
// What has copies is found from the descriptors, not declared: ranks tell each other once which
// rectangles of which logical tensors they hold. Weights that stay whole are on every data rank;
// what is cut over data ranks (weights at stage 3, masters and moments from stage 1 on) has a copy
// per replica of the shards; and tensor ranks and end stages have copies of norms, biases, tied
// tables and shared key/value heads. Padding is in no rectangle and is not compared.
//
// Per step each rank adds up one 64-bit number: the sum over what it holds of factor * fingerprint
// (framework/backend/fingerprint.h). Of n copies the first has the factor n - 1 and the others -1,
// parts of a cut copy the same, so over the world the numbers add up to 0 modulo 2^64 if all copies
// agree, and otherwise to something else but for a chance of about n / 2^64. A change of any copy
// but the first is always seen. The number rides in the step's world collective.
//
// Not compared: what exists once; equal elements of rectangles that only overlap; and what is at
// home away from the device. Reading that again would cost the offloaded update, which waits for
// just these bytes, another third; on disk its slots carry checksums; and weights on the device
// that are made from it are compared.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "framework/comm/mesh.h"
#include "zero/unit.h"

namespace trireme {

struct ReplicaRecord;

// An array of a unit: its weights, masters or a moment. `name` as in checkpoints, "value" being the
// master; compute weights beside a master are "compute value".
struct ReplicatedArray {
  const Unit* unit = nullptr;
  std::string name;
  FlatHome home;
  bool of_frozen = true;  // has frozen parameters, too
  bool in_turns = false;  // a master or a moment
};

class ReplicaCheck {
 public:
  // Collective over the world: ranks tell each other what they hold. `mesh` and `backend` must
  // outlive it, and so must the units. `turn`: elements of masters and moments that one step
  // compares on a rank, if an eighth of them is not more.
  ReplicaCheck(const Mesh& mesh, Backend& backend, std::span<const ReplicatedArray> arrays,
               std::int64_t turn = std::int64_t{16} << 20);

  // Has this rank something that has copies? Without it, add() does nothing.
  bool compares() const { return compared_ > 0; }
  // After so many steps all has been compared.
  std::int64_t turns() const { return turns_; }
  // out (2) f64, [low 32 bits, high 32 bits] += this rank's number for that step, the same step on
  // all ranks.
  void add(std::int64_t step, const Tensor& out) const;
  // Called by all ranks when the sum over them is not 0. Throws Error on each, all with the same
  // sentence: the first array whose copies differ and the ranks that hold the minority's bits.
  [[noreturn]] void fail_naming(std::int64_t step) const;

 private:
  // What this rank holds of a rectangle.
  struct Part {
    std::string tensor, array;
    FlatHome home;
    Range flat;              // in the unit's buffer
    std::int64_t first = 0;  // index of its first element, row-major in the rectangle
    std::int64_t whole = 0;  // elements of the rectangle
    bool in_turns = false;
    std::uint64_t id = 0;  // of tensor, array and rectangle, and the key of its fingerprint
    int shards = 1;        // data ranks that one copy is cut over
    std::uint64_t factor = 0;
  };
  void list_parts(const ReplicatedArray& array);
  void set_factors();
  void set_turns(std::int64_t turn);
  std::uint64_t fingerprint(const Part& part) const;
  std::vector<ReplicaRecord> records_of_all() const;
  std::string name_of_part(const ReplicaRecord& record) const;

  const Mesh& mesh_;
  Backend& backend_;
  std::vector<Part> parts_;
  std::size_t compared_ = 0;
  std::int64_t turns_ = 1;
};

}  // namespace trireme
