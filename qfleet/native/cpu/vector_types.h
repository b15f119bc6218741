// SIMD vectors as the vector extensions of GCC and Clang. Included by kernels.cc only, which is
// compiled once per instruction set.
#ifndef QFLEET_VECTOR_TYPES_H_
#define QFLEET_VECTOR_TYPES_H_

#include <cstdint>
#include <type_traits>

// GCC has a shuffle with variable indices, Clang has none.
#ifdef __clang__
#if QFLEET_BYTES > 16
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#endif

#ifndef QFLEET_SET
#error "Define QFLEET_SET as the instruction set and QFLEET_BYTES as the size of its vectors"
#endif

namespace qfleet {
namespace QFLEET_SET {
namespace {

template <class T>
struct LaneIndex;
template <>
struct LaneIndex<float> {
  using type = int32_t;
};
template <>
struct LaneIndex<double> {
  using type = int64_t;
};

template <class T>
struct VectorTypes {
  typedef T V __attribute__((vector_size(QFLEET_BYTES), may_alias));
  typedef T Unaligned __attribute__((vector_size(QFLEET_BYTES), may_alias, aligned(sizeof(T))));
  typedef typename LaneIndex<T>::type I __attribute__((vector_size(QFLEET_BYTES)));
  static constexpr int kLanes = QFLEET_BYTES / sizeof(T);

  // Shuffle indices that read lane `lane ^ by`.
  static I LaneXorIndices(int32_t by) {
    I order = {};
    for (int lane = 0; lane < kLanes; ++lane) order[lane] = lane ^ by;
    return order;
  }

  // result[lane] = values[order[lane]].
  static V Shuffle(V values, I order) {
#ifndef __clang__
    return __builtin_shuffle(values, order);
#elif QFLEET_BYTES == 64
    if constexpr (sizeof(T) == 8)
      return (V)_mm512_permutexvar_pd((__m512i)order, (__m512d)values);
    else
      return (V)_mm512_permutexvar_ps((__m512i)order, (__m512)values);
#elif QFLEET_BYTES == 32
    if constexpr (sizeof(T) == 8) order = 2 * order + ((2 * order + 1) << 32);  // halves of lanes
    return (V)_mm256_permutevar8x32_ps((__m256)values, (__m256i)order);
#elif defined(__aarch64__)
    // Numbers of bytes: the lane's index times its size in each byte, plus the byte's place.
    using Bytes = std::make_unsigned_t<typename LaneIndex<T>::type>;
    typedef Bytes U __attribute__((vector_size(QFLEET_BYTES)));
    const U ones = ~U{} / 255, places = U{} + static_cast<Bytes>(0x0706050403020100);
    const U bytes = (U)order * sizeof(T) * ones + places;
    return (V)vqtbl1q_u8((uint8x16_t)values, (uint8x16_t)bytes);
#else
    V result;
    for (int lane = 0; lane < kLanes; ++lane) result[lane] = values[order[lane]];
    return result;
#endif
  }
};

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_VECTOR_TYPES_H_
