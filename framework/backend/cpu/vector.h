// Vectors of f32 over GCC's vector types: the one way in which the cpu backend's own kernels are
// written.
//
// A kernel is a lambda called once per vector by `each`: with a `Whole` count for full vectors and
// an int for the tail. Both run the same arithmetic, so a result depends neither on the length of a
// row nor on where it lies in memory. Memory may hold f32, bf16 or f16: Reader and Writer convert
// on the way (bf16 to nearest even, like BFloat16). Arithmetic is fused only where it says fma.
#pragma once

#include "framework/backend/cpu/vector_isa.h"
#include "framework/base/dtype.h"
#include "framework/base/tensor.h"

namespace trireme::vec {

struct Whole {};  // the count of a full vector

inline F32 set1(float a) { return F32{} + a; }
inline U32 bits(F32 a) { return (U32)a; }
inline F32 from_bits(U32 a) { return (F32)a; }

inline F32 load(const float* p, Whole = {}) { return load_as<F32>(p); }
inline F32 load(const float* p, int n) { return load_partial(p, n); }
inline void store(float* p, F32 v, Whole = {}) { store_as(p, v); }
inline void store(float* p, F32 v, int n) { store_partial(p, v, n); }

inline F32 from_bf16(U16 v) { return from_bits(widen(v) << 16); }
inline U16 to_bf16(F32 v) {
  const U32 u = bits(v);
  const U32 rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const U32 quiet_nan = (u >> 16) | 0x40u;
  return narrow(v == v ? rounded : quiet_nan);
}
inline U16 load(const std::uint16_t* p, Whole) { return load_as<U16>(p); }
inline U16 load(const std::uint16_t* p, int n) { return load_partial(p, n); }
inline void store(std::uint16_t* p, U16 v, Whole) { store_as(p, v); }
inline void store(std::uint16_t* p, U16 v, int n) { store_partial(p, v, n); }

// Elements of a tensor, read as f32.
struct Reader {
  const std::byte* data;
  DType type;
  Reader(const void* p, DType t) : data(static_cast<const std::byte*>(p)), type(t) {}
  explicit Reader(const Tensor& t) : Reader(t.data(), t.dtype()) {}
  Reader at(std::int64_t offset) const { return {data + offset * size_of(type), type}; }
  template <typename Count>
  F32 load(std::int64_t i, Count n) const {
    if (type == DType::kF32) return vec::load(reinterpret_cast<const float*>(data) + i, n);
    const U16 v = vec::load(reinterpret_cast<const std::uint16_t*>(data) + i, n);
    return type == DType::kBF16 ? from_bf16(v) : from_f16(v);
  }
  float one(std::int64_t i) const { return load(i, 1)[0]; }
};

// Elements of a tensor, written from f32.
struct Writer {
  std::byte* data;
  DType type;
  Writer(void* p, DType t) : data(static_cast<std::byte*>(p)), type(t) {}
  explicit Writer(const Tensor& t) : Writer(t.data(), t.dtype()) {}
  Writer at(std::int64_t offset) const { return {data + offset * size_of(type), type}; }
  Reader reader() const { return {data, type}; }
  template <typename Count>
  void store(std::int64_t i, F32 v, Count n) const {
    if (type == DType::kF32)
      vec::store(reinterpret_cast<float*>(data) + i, v, n);
    else
      vec::store(reinterpret_cast<std::uint16_t*>(data) + i,
                 type == DType::kBF16 ? to_bf16(v) : to_f16(v), n);
  }
  void one(std::int64_t i, float v) const { store(i, set1(v), 1); }
};

// f(offset, count) over [begin, end), a vector at a time.
template <typename F>
inline void each(std::int64_t begin, std::int64_t end, F f) {
  std::int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) f(i, Whole{});
  if (i < end) f(i, static_cast<int>(end - i));
}

// v in the lanes that count, `other` in the rest.
inline F32 keep(F32 v, F32, Whole) { return v; }
inline F32 keep(F32 v, F32 other, int n) {
  I32 lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return lane < n ? v : other;
}

// 2^n for whole n in [-126, 127].
inline F32 power_of_two(F32 n) { return (F32)((__builtin_convertvector(n, I32) + 127) << 23); }

// 2^x, relative error 1e-7; x is clamped to [-126, 127]. Coefficients: Cephes exp2f.
inline F32 exp2(F32 x) {
  x = max(set1(-126.0f), min(set1(127.0f), x));
  const F32 n = round(x);
  const F32 f = x - n;
  F32 p = set1(1.535336188319500e-4f);
  p = fma(p, f, set1(1.339887440266574e-3f));
  p = fma(p, f, set1(9.618437357674640e-3f));
  p = fma(p, f, set1(5.550332471162809e-2f));
  p = fma(p, f, set1(2.402264791363012e-1f));
  p = fma(p, f, set1(6.931472028550421e-1f));
  return fma(p, f, set1(1.0f)) * power_of_two(n);
}

// e^x, relative error 1e-7; x is clamped to [-87, 88]. Coefficients: Cephes expf.
inline F32 exp(F32 x) {
  x = max(set1(-87.0f), min(set1(88.0f), x));
  const F32 n = round(x * 1.44269504088896341f);
  F32 r = fma(n, set1(-0.693359375f), x);
  r = fma(n, set1(2.12194440e-4f), r);
  F32 p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  return (fma(p, r * r, r) + 1.0f) * power_of_two(n);
}

// 1 / (1 + e^-x)
inline F32 sigmoid(F32 x) { return reciprocal(1.0f + exp(-x)); }

}  // namespace trireme::vec
