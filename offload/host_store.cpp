#include <cstring>

#include "framework/base/error.h"
#include "offload/tiled_store.h"
#include "offload/tiling.h"

namespace trireme {

namespace {

// An allocation of its own for every array of every part, so that all begin on a page.
class HostStore final : public TiledStore {
 public:
  HostStore(TiledShape shape, const std::shared_ptr<MemoryLedger>& ledger)
      : TiledStore(std::move(shape)) {
    for (const std::int64_t elements : shape_.parts) {
      std::vector<Tensor>& part = home_.emplace_back();
      for (const DType dtype : shape_.arrays) {
        part.push_back(allocate_on_host(ledger, {elements}, dtype, shape_.kind));
        if (elements > 0)
          std::memset(part.back().data(), 0, static_cast<std::size_t>(part.back().bytes()));
      }
    }
  }

  Tier tier() const override { return Tier::kHost; }

  void update(const Work& work) override {
    expect_whole();
    torn_ = true;
    const double begin = now();
    std::vector<Tensor> views;
    for_each_tile(shape_, [&](const TilePlace& place) {
      views.clear();
      for (const Tensor& whole : home_[place.part])
        views.push_back(whole.elements_at(place.range.begin, {place.range.size()}));
      const double start = now();
      work({place.part, place.range, views});
      times_.working += now() - start;
    });
    times_.total += now() - begin;
    torn_ = false;
  }

  void read(std::size_t part, std::size_t array, Range range, const Tensor& to) override {
    copy_bytes(to.data(), home("read", part, array, range, to).data(), to.bytes());
  }
  void write(std::size_t part, std::size_t array, Range range, const Tensor& from) override {
    copy_bytes(home("write", part, array, range, from).data(), from.data(), from.bytes());
  }
  void flush() override { expect_whole(); }
  void read_ahead(std::size_t part) override {
    expect_whole();
    check(part < shape_.parts.size(), "offload: read ahead of part ", part, "; the store has ",
          shape_.parts.size());
  }
  void expect_present() override {}

 private:
  Tensor home(const char* operation, std::size_t part, std::size_t array, Range range,
              const Tensor& other) const {
    expect_whole();
    check_access(shape_, operation, part, array, range, other);
    return home_[part][array].elements_at(range.begin, {range.size()});
  }

  std::vector<std::vector<Tensor>> home_;  // [part][array]
};

}  // namespace

std::unique_ptr<TiledStore> make_host_store(TiledShape shape,
                                            std::shared_ptr<MemoryLedger> ledger) {
  check_shape(shape);
  return std::make_unique<HostStore>(std::move(shape), ledger);
}

}  // namespace trireme
