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
  Loader(ZeroOptimizer& optimizer, Backend& device, Backend& host, const ArraySource& source)
      : optimizer_(optimizer), device_(device), host_(host), source_(source) {}

  void values(std::size_t u) {
    const FlatHome master = optimizer_.array(u, "value");
    const FlatHome& weights = optimizer_.units()[u]->weights();
    for (const StateRun& run : state_runs(*optimizer_.units()[u], weights.range()))
      by_piece(run, [&](Range flat, const Rectangle& at) {
        read({run.tensor, "value"}, run.logical, at, master.dtype(),
             [this, master, &weights, flat](const Tensor& x) { keep(master, weights, flat, x); });
      });
  }

  void moment(std::size_t u, const std::string& name) {
    const FlatHome home = optimizer_.array(u, name);
    if (!home.defined()) return;
    for (const StateRun& run : state_runs(*optimizer_.units()[u], home.range())) {
      if (!run.trainable) continue;
      by_piece(run, [&](Range flat, const Rectangle& at) {
        read({run.tensor, name}, run.logical, at, home.dtype(),
             [home, flat](const Tensor& x) { home.keep(flat, x); });
      });
    }
  }

  void finish() {
    while (!begun_.empty()) finish_first();
  }

 private:
  using Keep = std::function<void(const Tensor& x)>;
  // Being read. What reads dies before the memory that it fills.
  struct Begun {
    Tensor x;
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
    begun_.push_back({staging(elements, dtype), std::move(keep), nullptr});
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
  }
  // Weights stay whole where masters are shards; where they are the same home, once is enough.
  void keep(const FlatHome& master, const FlatHome& weights, Range flat, const Tensor& wide) {
    const Range own = intersect(flat, master.range());
    if (!own.empty()) master.keep(own, wide.elements_at(own.begin - flat.begin, {own.size()}));
    if (master.dtype() == weights.dtype()) return;
    const Tensor narrow = staging(flat.size(), weights.dtype());
    host_.kernels()->cast(wide, narrow);
    weights.keep(flat, narrow);
  }

  ZeroOptimizer& optimizer_;
  Backend& device_;
  Backend& host_;
  const ArraySource& source_;
  std::deque<Begun> begun_;
  std::int64_t ahead_ = 0;  // elements being read
};

}  // namespace

std::vector<StatePiece> pieces_to_save(const ZeroOptimizer& optimizer, bool saves) {
  std::vector<StatePiece> pieces;
  if (!saves) return pieces;
  for (std::size_t u = 0; u < optimizer.units().size(); ++u) {
    const Unit& unit = *optimizer.units()[u];
    for (const std::string& name : optimizer.array_names()) {
      const FlatHome home = optimizer.array(u, name);
      if (!home.defined()) continue;
      for (const StateRun& run : state_runs(unit, unit.own_shard()))
        if (run.counts && (run.trainable || name == "value"))
          pieces.push_back(
              {{{{run.tensor, name}, run.logical, home.dtype()}, run.at}, u, run.flat});
    }
  }
  return pieces;
}

void read_piece(const ZeroOptimizer& optimizer, const StatePiece& piece, std::int64_t begin,
                const Tensor& to) {
  const std::int64_t at = piece.flat.begin + begin;
  optimizer.array(piece.unit, piece.piece.array.name.array).fetch({at, at + to.elements()}, to);
}

void load_state(ZeroOptimizer& optimizer, Backend& device, Backend& host,
                const ArraySource& source) {
  Loader loader(optimizer, device, host, source);
  for (std::size_t u = 0; u < optimizer.units().size(); ++u)
    for (const std::string& name : optimizer.array_names())
      name == "value" ? loader.values(u) : loader.moment(u, name);
  loader.finish();
  optimizer.flush();
}

}  // namespace trireme
