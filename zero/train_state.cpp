#include "zero/train_state.h"

#include <algorithm>

namespace trireme {

namespace {

constexpr std::int64_t kPieceElements = std::int64_t{1} << 20;

// Calls visit(flat, rectangle) for parts of a run of at most kPieceElements: whole rows, or parts
// of one row.
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
  const std::int64_t step = columns == 0 ? run.at.rows : kPieceElements / columns;
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
    // Weights stay whole where masters are shards; where they are the same home, once is enough.
    const bool apart = master.dtype() != weights.dtype();
    for (const StateRun& run : state_runs(*optimizer_.units()[u], weights.range()))
      by_piece(run, [&](Range flat, const Rectangle& at) {
        const Tensor wide = read({run.tensor, "value"}, run.logical, at, master.dtype());
        const Range own = intersect(flat, master.range());
        if (!own.empty()) master.keep(own, wide.elements_at(own.begin - flat.begin, {own.size()}));
        if (!apart) return;
        const Tensor narrow = staging(flat.size(), weights.dtype());
        host_.kernels()->cast(wide, narrow);
        weights.keep(flat, narrow);
      });
  }

  void moment(std::size_t u, const std::string& name) {
    const FlatHome home = optimizer_.array(u, name);
    if (!home.defined()) return;
    for (const StateRun& run : state_runs(*optimizer_.units()[u], home.range())) {
      if (!run.trainable) continue;
      by_piece(run, [&](Range flat, const Rectangle& at) {
        home.keep(flat, read({run.tensor, name}, run.logical, at, home.dtype()));
      });
    }
  }

 private:
  Tensor staging(std::int64_t elements, DType dtype) {
    return allocate_on_host(device_.shared_ledger(), {elements}, dtype, MemoryKind::kCommunication);
  }
  Tensor read(const ArrayName& name, const Shape& logical, const Rectangle& at, DType dtype) {
    const Tensor x = staging(at.elements(), dtype);
    if (at.elements() > 0) source_(name, logical, at, dtype, x.data());
    return x;
  }

  ZeroOptimizer& optimizer_;
  Backend& device_;
  Backend& host_;
  const ArraySource& source_;
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
  optimizer.flush();
}

}  // namespace trireme
