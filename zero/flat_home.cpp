#include "zero/flat_home.h"

#include "framework/backend/host_values.h"
#include "framework/base/error.h"

namespace trireme {

FlatHome FlatHome::on_device(Backend& device, Range range, DType dtype, MemoryKind kind) {
  FlatHome home;
  home.places_.device = &device;
  home.device_ = device.zeros({range.size()}, dtype, kind);
  home.range_ = range;
  home.dtype_ = dtype;
  return home;
}

FlatHome FlatHome::in_store(const Places& places, TiledStore& store, std::size_t part,
                            std::size_t array, Range range) {
  FlatHome home;
  home.places_ = places;
  home.store_ = &store;
  home.part_ = part;
  home.array_ = array;
  home.range_ = range;
  home.dtype_ = store.shape().arrays[array];
  return home;
}

const Tensor& FlatHome::device() const {
  check(on_device(), "a flat buffer whose home is not on the device was taken for one that is");
  return device_;
}

Tensor FlatHome::slice(Range part) const {
  const Range at = local(part);
  return device().elements_at(at.begin, {at.size()});
}

// Elements counted from the begin of the home.
Range FlatHome::local(Range part) const {
  check(part.begin >= range_.begin && part.end <= range_.end, "flat elements [", part.begin, ", ",
        part.end, ") are not all in [", range_.begin, ", ", range_.end, ")");
  return {part.begin - range_.begin, part.end - range_.begin};
}

Tensor FlatHome::staging(std::int64_t elements) const {
  return allocate_on_host(places_.device->shared_ledger(), {elements}, dtype_,
                          MemoryKind::kCommunication);
}

template <typename Work>
void FlatHome::by_tile(Range part, const Work& work) const {
  const std::int64_t tile = store_->shape().tile;
  for (std::int64_t begin = part.begin; begin < part.end;) {
    // Up to the next tile of the store, whose tiles are counted from the begin of the home.
    const std::int64_t next = range_.begin + ((begin - range_.begin) / tile + 1) * tile;
    const Range piece{begin, std::min(next, part.end)};
    work(piece, staging(piece.size()));
    begin = piece.end;
  }
}

void FlatHome::load(Range part, const Tensor& to) const {
  if (part.empty()) return;
  if (on_device()) return places_.device->copy(slice(part), to);
  by_tile(part, [&](Range piece, const Tensor& host) {
    fetch(piece, host);
    places_.device->upload(host.data(), to.elements_at(piece.begin - part.begin, {piece.size()}));
  });
}

void FlatHome::save(Range part, const Tensor& from) const {
  if (part.empty()) return;
  if (on_device()) return places_.device->copy(from, slice(part));
  by_tile(part, [&](Range piece, const Tensor& host) {
    places_.device->download(from.elements_at(piece.begin - part.begin, {piece.size()}),
                             host.data());
    keep(piece, host);
  });
}

void FlatHome::add(Range part, const Tensor& x) const {
  if (part.empty()) return;
  if (on_device()) return places_.device->kernels()->add(slice(part), x, slice(part));
  by_tile(part, [&](Range piece, const Tensor& host) {
    const Tensor sum = staging(piece.size());
    fetch(piece, sum);
    places_.device->download(x.elements_at(piece.begin - part.begin, {piece.size()}), host.data());
    places_.host->kernels()->add(sum, host, sum);
    keep(piece, sum);
  });
}

void FlatHome::fetch(Range part, const Tensor& to) const {
  if (on_device()) return places_.device->download(slice(part), to.data());
  store_->read(part_, array_, local(part), to);
}

void FlatHome::keep(Range part, const Tensor& from) const {
  if (on_device()) return places_.device->upload(from.data(), slice(part));
  store_->write(part_, array_, local(part), from);
}

void FlatHome::put(std::int64_t at, std::span<const double> values) const {
  const Range part = intersect({at, at + static_cast<std::int64_t>(values.size())}, range_);
  if (part.empty()) return;
  const std::span<const double> own = values.subspan(static_cast<std::size_t>(part.begin - at),
                                                     static_cast<std::size_t>(part.size()));
  if (on_device()) return upload_doubles(*places_.device, own, slice(part));
  const Tensor host = staging(part.size());
  upload_doubles(*places_.host, own, host);
  keep(part, host);
}

void FlatHome::fill(double value) const {
  if (on_device()) return places_.device->kernels()->fill(device_, value);
  by_tile(range_, [&](Range piece, const Tensor& host) {
    places_.host->kernels()->fill(host, value);
    keep(piece, host);
  });
}

void FlatHome::flush() const {
  if (store_) store_->flush();
}

void FlatHome::read_ahead() const {
  if (store_) store_->read_ahead(part_);
}

}  // namespace trireme
