#include "tests/framework/checkpoint/random_state.h"

#include <algorithm>
#include <cstring>

namespace trireme::testing {

namespace {

using Random = std::mt19937_64;

std::int64_t below(Random& random, std::int64_t end) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
}

// Finite values, so that comparisons after a conversion mean something.
template <typename T, typename Make>
std::vector<std::byte> values(Random& random, std::int64_t count, const Make& make) {
  std::normal_distribution<double> normal;
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * sizeof(T));
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = make(normal(random));
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

std::vector<std::byte> values_of(Random& random, const LogicalArray& array) {
  const std::int64_t count = array.rows() * array.columns();
  const auto narrow = [](double x) { return static_cast<float>(x); };
  switch (array.dtype) {
    case DType::kF64:
      return values<double>(random, count, [](double x) { return x; });
    case DType::kBF16:
      return values<BFloat16>(random, count, [&](double x) { return BFloat16(narrow(x)); });
    case DType::kF16:
      return values<Float16>(random, count, [&](double x) { return Float16(narrow(x)); });
    default:
      return values<float>(random, count, narrow);
  }
}

// Cuts in two, again and again, along rows or columns.
void split(Random& random, const Rectangle& at, int depth, std::vector<Rectangle>& out) {
  const bool by_rows = at.columns == 1 || (at.rows > 1 && random() % 2 == 0);
  const std::int64_t extent = by_rows ? at.rows : at.columns;
  if (depth == 0 || extent < 2) {
    out.push_back(at);
    return;
  }
  const std::int64_t first = 1 + below(random, extent - 1);
  Rectangle a = at, b = at;
  (by_rows ? a.rows : a.columns) = first;
  (by_rows ? b.row : b.column) += first;
  (by_rows ? b.rows : b.columns) -= first;
  split(random, a, depth - 1, out);
  split(random, b, depth - 1, out);
}

void copy_rows(const RandomState& state, const LogicalArray& array, const Rectangle& at,
               std::byte* to) {
  const std::vector<std::byte>& from = state.bytes[index_of(state, array.name)];
  const auto width = size_of(array.dtype);
  for (std::int64_t row = 0; row < at.rows; ++row)
    std::memcpy(to + row * at.columns * width,
                from.data() + ((at.row + row) * array.columns() + at.column) * width,
                static_cast<std::size_t>(at.columns * width));
}

}  // namespace

RandomState random_state(std::uint64_t seed, std::int64_t largest) {
  Random random(seed);
  RandomState state;
  const auto add = [&](const std::string& tensor, const std::string& array, Shape shape,
                       DType dtype) {
    state.arrays.push_back({{tensor, array}, shape, dtype});
    state.bytes.push_back(values_of(random, state.arrays.back()));
  };
  const auto size = [&] { return 1 + below(random, largest); };
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    const std::string name = "layers." + std::string(name_of(dtype));
    const Shape matrix{size(), size()};
    for (const std::string array : {"value", "exp_avg"}) {
      add(name + ".weight", array, matrix, dtype);
      add(name + ".bias", array, Shape{size()}, dtype);
    }
  }
  add("one", "value", Shape{1}, DType::kF32);
  add("a.row", "value", Shape{1, size()}, DType::kF32);
  add("a.column", "value", Shape{size(), 1}, DType::kF64);
  return state;
}

Cut random_cut(const RandomState& state, std::size_t files, std::uint64_t seed) {
  Random random(seed);
  Cut cut(files);
  for (const LogicalArray& array : state.arrays) {
    std::vector<Rectangle> parts;
    split(random, {0, 0, array.rows(), array.columns()}, static_cast<int>(random() % 4), parts);
    for (const Rectangle& part : parts) cut[random() % files].push_back({array, part});
  }
  return cut;
}

Cut flat_cut(const RandomState& state, std::size_t files) {
  Cut cut(files);
  const auto count = static_cast<std::int64_t>(files);
  for (const LogicalArray& array : state.arrays)
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t all = array.rows() * array.columns();
      Rectangle parts[3];
      const int n = rectangles_of(all * i / count, all * (i + 1) / count, array.columns(), parts);
      for (int p = 0; p < n; ++p) cut[static_cast<std::size_t>(i)].push_back({array, parts[p]});
    }
  return cut;
}

std::size_t index_of(const RandomState& state, const ArrayName& name) {
  const auto found = std::find_if(state.arrays.begin(), state.arrays.end(),
                                  [&](const LogicalArray& array) { return array.name == name; });
  return static_cast<std::size_t>(found - state.arrays.begin());
}

std::vector<std::byte> bytes_of(const RandomState& state, const LogicalArray& array,
                                const Rectangle& at) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(at.elements() * size_of(array.dtype)));
  copy_rows(state, array, at, bytes.data());
  return bytes;
}

std::vector<StoredFile> write_files(Files& files, const std::string& folder,
                                    const RandomState& state, const Cut& cut) {
  std::vector<StoredFile> stored;
  for (std::size_t f = 0; f < cut.size(); ++f) {
    CheckpointWriter writer(files, folder, "ranks-" + std::to_string(f) + ".h5", cut[f]);
    for (std::size_t i = 0; i < cut[f].size(); ++i) {
      const Piece& piece = cut[f][i];
      const auto bytes = bytes_of(state, piece.array, piece.at);
      const std::int64_t all = piece.at.elements(), first = all / 3;
      writer.write(i, 0, first, bytes.data());
      writer.write(i, first, all - first, bytes.data() + first * size_of(piece.array.dtype));
    }
    stored.push_back(writer.finish());
  }
  return stored;
}

Manifest save_state(Files& files, CheckpointFolder& folder, std::int64_t step,
                    const RandomState& state, const Cut& cut) {
  Manifest manifest;
  manifest.run = "0123";
  manifest.step = step;
  manifest.layout = "data " + std::to_string(cut.size());
  manifest.recipe = "[train]\nsteps = 3 # a \"comment\"\n";
  manifest.set_integer("steps_taken", step);
  manifest.set_number("loss_scale", 65536.0);
  manifest.files = write_files(files, folder.begin(step), state, cut);
  folder.commit(manifest);
  return manifest;
}

std::string difference_from(const CheckpointReader& reader, const RandomState& state) {
  if (reader.arrays().size() != state.arrays.size()) return "the number of arrays";
  for (const LogicalArray& array : state.arrays) {
    const Rectangle whole{0, 0, array.rows(), array.columns()};
    const auto expected = bytes_of(state, array, whole);
    std::vector<std::byte> read(expected.size());
    reader.read(array.name, whole, array.dtype, read.data());
    if (read != expected) return describe(array.name);
  }
  return "";
}

}  // namespace trireme::testing
