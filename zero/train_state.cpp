#include "zero/train_state.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

namespace trireme {

namespace {

constexpr std::int64_t kPieceElements = std::int64_t{2} << 20;
// A checkpoint's blocks have a power of two of elements. Pieces that begin and end with such a
// block, where rows allow it, spare reading one twice.
constexpr std::int64_t kBlockElements = std::int64_t{1} << 18;

constexpr std::int64_t kSpareElements = std::int64_t{1} << 18;  // worth keeping

template <typename Visit>
void by_part(Range whole, const Visit& visit) {
  for (std::int64_t at = whole.begin; at < whole.end; at += kQuietElements)
    visit(Range{at, std::min(at + kQuietElements, whole.end)});
}

// Rows of a piece.
std::int64_t rows_of(std::int64_t columns) {
  if (columns == 0) return 1;
  const std::int64_t unit = kBlockElements / std::gcd(columns, kBlockElements);
  if (unit * columns > 2 * kPieceElements) return kPieceElements / columns;
  return std::max<std::int64_t>(1, kPieceElements / (unit * columns)) * unit;
}

// Calls visit(flat, rectangle) for parts of a run: whole rows, or parts of one row.
template <typename Visit>
void by_piece(const StateRun& run, const Visit& visit) {
  const std::int64_t columns = run.at.columns;
  if (columns > kPieceElements) {
    for (std::int64_t row = 0; row < run.at.rows; ++row)
      for (std::int64_t c = 0; c < columns; c += kPieceElements) {
        const std::int64_t width = std::min(kPieceElements, columns - c);
        const std::int64_t at = run.flat.begin + row * columns + c;
        visit(Range{at, at + width}, Rectangle{run.at.row + row, run.at.column + c, 1, width});
      }
    return;
  }
  const std::int64_t step = rows_of(columns);
  for (std::int64_t row = 0; row < run.at.rows; row += step) {
    const std::int64_t rows = std::min(step, run.at.rows - row);
    const std::int64_t at = run.flat.begin + row * columns;
    visit(Range{at, at + rows * columns},
          Rectangle{run.at.row + row, run.at.column, rows, columns});
  }
}

class Loader {
 public:
  Loader(KeptArrays& kept, Backend& device, Backend& host, const ArraySource& source)
      : kept_(kept), device_(device), host_(host), source_(source) {}

  void values(std::size_t u) {
    if (kept_.units()[u]->holds_bytes()) return bytes(u);
    const FlatHome master = kept_.array(u, "value");
    const FlatHome& weights = kept_.units()[u]->weights();
    for (const StateRun& run : state_runs(*kept_.units()[u], weights.range()))
      by_piece(run, [&](Range flat, const Rectangle& at) {
        read({run.tensor, "value"}, run.logical, at, master.dtype(),
             [this, master, &weights, flat](const Tensor& x) {
               keep_value(master, weights, flat, x);
             });
      });
  }

  void moment(std::size_t u, const std::string& name) {
    const FlatHome home = kept_.array(u, name);
    if (!home.defined()) return;
    for (const StateRun& run : state_runs(*kept_.units()[u], home.range())) {
      if (!run.trainable) continue;
      by_piece(run, [&](Range flat, const Rectangle& at) {
        read({run.tensor, name}, run.logical, at, home.dtype(),
             [home, flat](const Tensor& x) { keep(home, flat, flat.begin, x); });
      });
    }
  }

  void finish() {
    while (!begun_.empty()) finish_first();
  }

  // A unit that takes its values in whole rows.
  void bytes(std::size_t u) {
    kept_.units()[u]->load_values(
        [this](const Section& s, std::int64_t columns, std::span<double> out) {
          const ArrayRead arrived =
              source_({s.name, "value"}, s.logical,
                      {s.global_row, s.global_column, s.rows, columns}, DType::kF64, out.data());
          if (arrived) arrived();
        },
        {});
  }

 private:
  using Keep = std::function<void(const Tensor& x)>;
  // Being read. What reads dies before the memory that it fills.
  struct Begun {
    Tensor memory;
    Tensor x;  // the part of it that is used
    Keep keep;
    ArrayRead arrived;
  };

  Tensor staging(std::int64_t elements, DType dtype) {
    return allocate_on_host(device_.shared_ledger(), {elements}, dtype, MemoryKind::kCommunication);
  }
  void read(const ArrayName& name, const Shape& logical, const Rectangle& at, DType dtype,
            Keep keep) {
    const std::int64_t elements = at.elements();
    if (elements == 0) return;
    const Tensor memory = spare(elements, dtype);
    begun_.push_back({memory, memory.elements_at(0, {elements}), std::move(keep), nullptr});
    begun_.back().arrived = source_(name, logical, at, dtype, begun_.back().x.data());
    ahead_ += elements;
    while (begun_.size() > 2 && ahead_ > kPieceElements) finish_first();
  }
  void finish_first() {
    Begun first = std::move(begun_.front());
    begun_.pop_front();
    ahead_ -= first.x.elements();
    if (const ArrayRead arrived = std::exchange(first.arrived, nullptr)) arrived();
    first.keep(first.x);
    if (first.memory.elements() >= kSpareElements) spare_.push_back(std::move(first.memory));
  }
  // Memory that has been used before, if it is large enough: new pages cost as much as reading into
  // them. There is never more of it than was in use at a time.
  Tensor spare(std::int64_t elements, DType dtype) {
    if (elements < kSpareElements) return staging(elements, dtype);
    const auto smaller = [](const Tensor& a, const Tensor& b) { return a.bytes() < b.bytes(); };
    std::sort(spare_.begin(), spare_.end(), smaller);
    const auto fits = std::find_if(spare_.begin(), spare_.end(), [&](const Tensor& x) {
      return x.dtype() == dtype && x.elements() >= elements;
    });
    if (fits == spare_.end()) {
      if (!spare_.empty()) spare_.erase(spare_.begin());
      return staging(elements, dtype);
    }
    Tensor found = std::move(*fits);
    spare_.erase(fits);
    return found;
  }
  // Elements `part` of `home`, out of x, which begins with element `first`.
  static void keep(const FlatHome& home, Range part, std::int64_t first, const Tensor& x) {
    by_part(part,
            [&](Range some) { home.keep(some, x.elements_at(some.begin - first, {some.size()})); });
  }
  // Weights stay whole where masters are shards; where they are the same home, once is enough.
  void keep_value(const FlatHome& master, const FlatHome& weights, Range flat, const Tensor& wide) {
    keep(master, intersect(flat, master.range()), flat.begin, wide);
    if (master.dtype() == weights.dtype()) return;
    const Tensor narrow = staging(std::min(kQuietElements, flat.size()), weights.dtype());
    by_part(flat, [&](Range some) {
      const Tensor part = narrow.elements_at(0, {some.size()});
      host_.kernels()->cast(wide.elements_at(some.begin - flat.begin, {some.size()}), part);
      weights.keep(some, part);
    });
  }

  KeptArrays& kept_;
  Backend& device_;
  Backend& host_;
  const ArraySource& source_;
  std::vector<Tensor> spare_;
  std::deque<Begun> begun_;
  std::int64_t ahead_ = 0;  // elements being read
};

}  // namespace

std::vector<StatePiece> pieces_to_save(const KeptArrays& kept, bool saves) {
  std::vector<StatePiece> pieces;
  if (!saves) return pieces;
  for (std::size_t u = 0; u < kept.units().size(); ++u) {
    const Unit& unit = *kept.units()[u];
    for (const std::string& name : kept.array_names()) {
      const FlatHome home = kept.array(u, name);
      if (!home.defined()) continue;
      for (const StateRun& run : state_runs(unit, unit.own_shard()))
        if (run.counts && (run.trainable || name == "value"))
          pieces.push_back(
              {{{{run.tensor, name}, run.logical, home.dtype()}, run.at}, u, run.flat});
    }
  }
  return pieces;
}

void read_piece(const KeptArrays& kept, const StatePiece& piece, std::int64_t begin,
                const Tensor& to) {
  const std::int64_t at = piece.flat.begin + begin;
  kept.array(piece.unit, piece.piece.array.name.array).fetch({at, at + to.elements()}, to);
}

void load_state(KeptArrays& kept, Backend& device, Backend& host, const ArraySource& source) {
  Loader loader(kept, device, host, source);
  for (std::size_t u = 0; u < kept.units().size(); ++u)
    for (const std::string& name : kept.array_names())
      name == "value" ? loader.values(u) : loader.moment(u, name);
  loader.finish();
  kept.flush();
}

}  // namespace trireme
