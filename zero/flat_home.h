// Where a flat buffer of a unit, or a data rank's shard of it, is at home: on the device, or in a
// part of a store on the host or on disk (ZeRO-Offload, arXiv 2101.06840; ZeRO-Infinity,
// 2104.07857).
//
// At home on the device it is a tensor to work on. Away from it, its elements are copied: to and
// from device tensors through staging tiles on the host, or to host tensors for the host's own
// maths. Copies and additions are elementwise, so the tier changes no bit.
#pragma once

#include <span>

#include "framework/backend/backend.h"
#include "framework/base/range.h"
#include "offload/tiled_store.h"

namespace trireme {

// The maths and copies of a rank: its device, and the host's backend for what is at home there.
struct Places {
  Backend* device = nullptr;
  Backend* host = nullptr;  // works on host tensors; the device's own backend on CPUs
};

class FlatHome {
 public:
  FlatHome() = default;  // nothing
  // Elements `range` of the flat buffer as zeros on the device.
  static FlatHome on_device(Backend& device, Range range, DType dtype, MemoryKind kind);
  // Array `array` of a part of `store`, which must outlive it.
  static FlatHome in_store(const Places& places, TiledStore& store, std::size_t part,
                           std::size_t array, Range range);

  bool defined() const { return device_.defined() || store_ != nullptr; }
  bool on_device() const { return store_ == nullptr; }
  Range range() const { return range_; }
  DType dtype() const { return dtype_; }
  TiledStore* store() const { return store_; }

  // On the device only: all of it; elements `part` of the flat buffer.
  const Tensor& device() const;
  Tensor slice(Range part) const;

  // Device tensor = elements `part`, and back.
  void load(Range part, const Tensor& to) const;
  void save(Range part, const Tensor& from) const;
  // Elements `part` += a device tensor of their type.
  void add(Range part, const Tensor& x) const;
  // To and from host tensors of the home's type.
  void fetch(Range part, const Tensor& to) const;
  void keep(Range part, const Tensor& from) const;
  // values[i] becomes element at + i; what is outside the range is left out.
  void put(std::int64_t at, std::span<const double> values) const;
  void fill(double value) const;
  // Writes that were kept back reach the store; a hint that all of it will be loaded soon.
  void flush() const;
  void read_ahead() const;

 private:
  Range local(Range part) const;
  // Calls work(piece, host tensor) for tiles of `part`, each with a staging tensor of its size.
  template <typename Work>
  void by_tile(Range part, const Work& work) const;
  Tensor staging(std::int64_t elements) const;

  Places places_;
  Tensor device_;
  TiledStore* store_ = nullptr;
  std::size_t part_ = 0, array_ = 0;
  Range range_;
  DType dtype_ = DType::kF32;
};

}  // namespace trireme
