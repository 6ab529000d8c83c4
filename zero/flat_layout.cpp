#include "zero/flat_layout.h"

#include <algorithm>

namespace trireme {

FlatLayout::FlatLayout(std::span<const ParameterSpec* const> parameters, int ranks,
                       std::int64_t element_bytes)
    : ranks_(ranks) {
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const ParameterSpec& spec = *parameters[p];
    offsets_.push_back(elements_);
    const std::int64_t rows = spec.shape.dims() < 2 ? spec.shape.elements() : spec.shape[0];
    const std::int64_t columns = rows == 0 ? 0 : spec.shape.elements() / rows;
    if (spec.trainable)
      for (const Section& s : spec.sections) {
        const Range range{elements_ + s.local_row * columns,
                          elements_ + (s.local_row + s.rows) * columns};
        if (!range.empty())
          segments_.push_back(
              {range, static_cast<std::int64_t>(p), spec.decay, s.counts_in_norm, s.sum});
      }
    elements_ += spec.shape.elements();
  }
  const std::int64_t multiple = ranks * std::max<std::int64_t>(1, 64 / element_bytes);
  padded_ = (elements_ + multiple - 1) / multiple * multiple;
}

FlatLayout FlatLayout::of_bytes(std::span<const std::int64_t> sizes, int ranks) {
  constexpr std::int64_t kAlign = 64;
  FlatLayout layout;
  layout.ranks_ = ranks;
  for (const std::int64_t size : sizes) {
    layout.elements_ = (layout.elements_ + kAlign - 1) / kAlign * kAlign;
    layout.offsets_.push_back(layout.elements_);
    layout.elements_ += size;
  }
  layout.padded_ = (layout.elements_ + kAlign * ranks - 1) / (kAlign * ranks) * kAlign * ranks;
  return layout;
}

}  // namespace trireme
