// Pauli strings: their expectation values, and the sum of them applied to a state.
//
// A thread takes a strip of amplitudes at a time, whose indices differ in a few consecutive bits.
// The sums over a strip with the signs of all strings that flip the same bits are one
// Walsh-Hadamard transform, whatever the number of strings.
#ifndef QFLEET_CUDA_STRINGS_H_
#define QFLEET_CUDA_STRINGS_H_

#include "warp_sums.h"

namespace qfleet {
namespace device {

// The amplitudes of a strip: index first | k << shift for k < count, at most 1 << BITS.
template <int BITS>
struct Strip {
  static constexpr int32_t kMost = 1 << BITS;
  int64_t first;
  int32_t shift, count;

  __device__ __forceinline__ int64_t index(int32_t k) const {
    return first | static_cast<int64_t>(k) << shift;
  }
  __device__ __forceinline__ int32_t BitsIn(int64_t mask) const {
    return static_cast<int32_t>(mask >> shift) & (kMost - 1);
  }
  // The sign of a string at the strip's first amplitude, and of its power of -1.
  __device__ __forceinline__ bool IsMinus(const PauliString& string) const {
    return ((string.ys >> 1) ^ __popcll(first & string.z)) & 1;
  }
};

// values[k] = sum_j (-1)**|j & k| values[j]
template <int COUNT, class T>
__device__ __forceinline__ void WalshHadamard(T* values) {
#pragma unroll
  for (int half = 1; half < COUNT; half *= 2)
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      if (!(i & half)) {
        const T a = values[i], b = values[i | half];
        values[i] = a + b;
        values[i | half] = a - b;
      }
}

// Calls visit(string number, sum over this strip) for every string; load(i) is amplitude i.
template <class T, int BITS, class Load, class Visit>
__device__ __forceinline__ void MeasureStrip(const PauliString* strings, int32_t count,
                                             const Strip<BITS>& strip, const Load& load,
                                             const Visit& visit) {
  constexpr int32_t kMost = Strip<BITS>::kMost;
  for (int32_t s = 0; s < count;) {
    const int64_t flip = strings[s].flip;
    T re[kMost], im[kMost];
#pragma unroll
    for (int32_t k = 0; k < kMost; ++k) {
      re[k] = im[k] = 0;
      if (k >= strip.count) continue;
      const Complex<T> x = load(strip.index(k)), y = flip ? load(strip.index(k) ^ flip) : x;
      re[k] = x.re * y.re + x.im * y.im;
      im[k] = x.re * y.im - x.im * y.re;
    }
    WalshHadamard<kMost>(re);
    if (flip) WalshHadamard<kMost>(im);
    for (; s < count && strings[s].flip == flip; ++s) {
      const PauliString string = strings[s];
      const int32_t at = strip.BitsIn(string.z);
      const T sum = string.ys & 1 ? im[at] : re[at];
      visit(s, strip.IsMinus(string) ? -sum : sum);
    }
  }
}

// Calls store(i, sum_s coefficients[s] (string s applied to psi) at i) for the strip.
template <class T, int BITS, class Load, class Store>
__device__ __forceinline__ void ApplyToStrip(const PauliString* strings, int32_t count,
                                             const T* coefficients, const Strip<BITS>& strip,
                                             const Load& load, const Store& store) {
  constexpr int32_t kMost = Strip<BITS>::kMost;
  Complex<T> sum[kMost];
#pragma unroll
  for (int32_t k = 0; k < kMost; ++k) sum[k] = {0, 0};
  for (int32_t s = 0; s < count && coefficients;) {
    const int64_t flip = strings[s].flip;
    T even[kMost] = {}, odd[kMost] = {};  // by the power of -i
    for (; s < count && strings[s].flip == flip; ++s) {
      const PauliString string = strings[s];
      const T c = strip.IsMinus(string) ? -coefficients[s] : coefficients[s];
      (string.ys & 1 ? odd : even)[strip.BitsIn(string.z)] += c;
    }
    WalshHadamard<kMost>(even);
    if (flip) WalshHadamard<kMost>(odd);
#pragma unroll
    for (int32_t k = 0; k < kMost; ++k) {
      if (k >= strip.count) continue;
      const Complex<T> y = load(strip.index(k) ^ flip);
      sum[k].re += even[k] * y.re + odd[k] * y.im;
      sum[k].im += even[k] * y.im - odd[k] * y.re;
    }
  }
#pragma unroll
  for (int32_t k = 0; k < kMost; ++k)
    if (k < strip.count) store(strip.index(k), sum[k]);
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_STRINGS_H_
