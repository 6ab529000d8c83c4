#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/conformance/comm/comm_cases.h"
#include "tests/support/tensors.h"

namespace trireme::test {

std::vector<double> values_of(int rank, std::int64_t count, DType dtype, std::uint64_t salt) {
  std::vector<double> x = normals(count, 1000 * salt + static_cast<std::uint64_t>(rank));
  for (double& v : x)
    v = is_floating(dtype) ? rounded(v, dtype) : std::floor(std::abs(v) * 30) + rank;
  return x;
}

Tensor tensor_of(CaseContext& context, int rank, std::int64_t count, DType dtype,
                 std::uint64_t salt) {
  const std::vector<double> x = values_of(rank, count, dtype, salt);
  if (is_floating(dtype)) return tensor(context.backend, {count}, dtype, x);
  const Tensor out = context.backend.allocate({count}, dtype, MemoryKind::kActivations);
  const std::vector<std::int32_t> words(x.begin(), x.end());
  const std::vector<std::uint8_t> bytes(x.begin(), x.end());
  const void* host = dtype == DType::kI32 ? static_cast<const void*>(words.data()) : bytes.data();
  context.backend.upload(host, out);
  return out;
}

std::vector<double> result(CaseContext& context, const Tensor& x) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(x.bytes()));
  context.backend.download(x, bytes.data());
  for (const unsigned char byte : bytes)  // FNV-1a
    context.digest = (context.digest ^ byte) * 1099511628211u;
  if (is_floating(x.dtype())) return values(context.backend, x);
  std::vector<double> out(static_cast<std::size_t>(x.elements()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::int32_t word = 0;
    if (x.dtype() == DType::kI32)
      std::copy_n(&bytes[4 * i], 4, reinterpret_cast<unsigned char*>(&word));
    out[i] = x.dtype() == DType::kI32 ? word : bytes[i];
  }
  return out;
}

void same(const std::vector<double>& got, const std::vector<double>& expected,
          const std::string& what) {
  check(got.size() == expected.size(), what, ": ", got.size(), " elements instead of ",
        expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    check(got[i] == expected[i], what, ": element ", i, " of ", got.size(), " is ", got[i],
          " instead of ", expected[i]);
}

std::vector<double> sum_of(const std::vector<int>& ranks, std::int64_t count, DType dtype, DType to,
                           std::uint64_t salt) {
  std::vector<double> sum = values_of(ranks.at(0), count, dtype, salt);
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const std::vector<double> x = values_of(ranks[r], count, dtype, salt);
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] = dtype == DType::kF64 ? sum[i] + x[i]
                                    : static_cast<float>(sum[i]) + static_cast<float>(x[i]);
  }
  for (double& v : sum) v = rounded(v, to);
  return sum;
}

std::vector<double> sum_of_ranks(int ranks, std::int64_t count, DType dtype, DType to,
                                 std::uint64_t salt) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return sum_of(all, count, dtype, to, salt);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  fail("the call ended without an error");
}

void contains(const std::string& text, const std::string& part) {
  check(text.find(part) != std::string::npos, "\"", text, "\" does not contain \"", part, "\"");
}

}  // namespace trireme::test
