// A parameter is a declaration; its value and gradient stay empty until a ZeRO Unit points them
// into flat memory.
//
// One descriptor drives initial values, gradient norm, sums over groups, ZeRO layout and
// checkpoints: no per-layer special cases anywhere else. A parameter's local matrix is cut into
// sections by rows; each section is a rectangle of one logical tensor of the unsharded, unpadded
// model ("layers.3.attention.k.weight"). Rows that no section covers are padding: zero, and
// excluded from norms and checkpoints.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/backend/quantized.h"
#include "framework/base/random.h"
#include "framework/base/tensor.h"

namespace trireme {

// The group of ranks over which a gradient must be summed besides the data axis.
enum class SumGroup : std::uint8_t {
  kNone,
  kTensor,      // replicated over tensor ranks but used on own sequence shards or own heads
  kKvReplicas,  // a key/value head held by several tensor ranks
  kEnds,        // tied embedding on the first and last pipeline stage
};

struct Init {
  enum class Kind : std::uint8_t { kZeros, kOnes, kNormal, kUniform } kind = Kind::kZeros;
  double std = 0.0;  // of kNormal, mean 0; kUniform: the bound b of [-b, b)
};

struct Section {
  std::string name;            // of the logical tensor
  Shape logical;               // its whole shape: (rows, columns), or (rows) for a vector
  std::int64_t local_row = 0;  // where the rectangle begins in the local matrix
  std::int64_t rows = 0;       // its extent there; its columns are all local columns
  std::int64_t global_row = 0, global_column = 0;  // where it lies in the logical tensor
  SumGroup sum = SumGroup::kNone;
  bool counts_in_norm = true;  // exactly one holder of each logical element counts it
};

// May inference hold it in 8 or 4 bits? What products x W^T and lookups of rows alone read.
enum class Quantizable : std::uint8_t {
  kNo,
  kLinear,
  kTable,  // of a vocabulary: the first and the last to decide on a token, never below 8 bits
};

struct ParameterSpec {
  std::string name;
  Shape shape;  // local: (rows, columns) or (rows)
  std::vector<Section> sections;
  Init init;
  bool decay = true;  // takes part in weight decay (matrices do, vectors do not)
  bool trainable = true;
  Quantizable quantizable = Quantizable::kNo;
};

// How it is held where inference wants `format`.
WeightFormat held_format(const ParameterSpec& spec, WeightFormat format);

class Parameter {
 public:
  // Throws Error when sections overlap, leave the local matrix, or do not fit their logical tensor.
  explicit Parameter(ParameterSpec spec);

  const ParameterSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name; }

  // Compute type, local shape, or a quantized matrix's bytes; defined while its unit is gathered.
  Tensor value;
  Tensor grad;  // defined between begin and end of its unit's backward

  // Gradients are overwritten by the first contribution of a step and added to after it: true =
  // add.
  bool accumulate() { return std::exchange(written_, true); }
  bool written() const { return written_; }
  void reset_written() { written_ = false; }

  // Takes no part in training. Before a unit takes the parameter: the unit then gives it no
  // gradient.
  void freeze() { spec_.trainable = false; }

  // It is held as held_format() says, for inference. Before a unit takes the parameter; Error where
  // tensor ranks cut groups of int4.
  void hold_as(WeightFormat format);
  WeightFormat format() const { return format_; }
  QuantizedMatrix quantized() const { return {quantized_shape(), value}; }
  QuantizedShape quantized_shape() const;
  // Its value lies in the backend's own order (InferKernels::tile): a plain one that inference
  // alone reads.
  bool tiled() const { return tiled_; }
  void set_tiled() { tiled_ = true; }
  // What it takes in a unit's buffer.
  std::int64_t bytes(DType compute) const;

 private:
  ParameterSpec spec_;
  WeightFormat format_ = WeightFormat::kPlain;
  bool written_ = false, tiled_ = false;
};

using ParameterFn = std::function<void(Parameter&)>;

// Gives the values of one section, or of some of its rows: a rectangle of the logical tensor,
// section.rows x `columns`, row-major.
using SectionSource =
    std::function<void(const Section& section, std::int64_t columns, std::span<double> rectangle)>;

// Rows [first_row, first_row + rows) of a local matrix, put together from its sections; padding
// becomes 0. `out` has `rows` rows. A vector is a matrix of one column.
void local_values(const ParameterSpec& spec, const SectionSource& source, std::int64_t first_row,
                  std::int64_t rows, double* out);
// The same rows with all columns of the logical tensors, of which the local ones may be some.
void whole_rows(const ParameterSpec& spec, const SectionSource& source, std::int64_t first_row,
                std::int64_t rows, double* out);
// Where the local columns lie in those.
QuantizedCut column_cut(const ParameterSpec& spec);
// Extents of the local matrix.
std::int64_t local_rows(const ParameterSpec& spec);
std::int64_t local_columns(const ParameterSpec& spec);

// Initial values, from one scalar routine on the CPU: element (i, j) of a logical tensor is
// std * random_normal(key_from_seed(seed).child(section name), i * columns + j), or std * (2 u - 1)
// with u = random_uniform of the same, so weights do not depend on the layout.
SectionSource initial_values(const Init& init, std::uint64_t seed);

// Section of a whole, unsharded parameter: name, shape as given.
Section whole_section(std::string name, Shape shape);

}  // namespace trireme
