// SIMD vectors as GCC vector extensions. Included by kernels.cc only, which is compiled once per
// instruction set.
#ifndef QFLEET_VECTOR_TYPES_H_
#define QFLEET_VECTOR_TYPES_H_

#include <cstdint>

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
  typedef typename LaneIndex<T>::type I __attribute__((vector_size(QFLEET_BYTES)));
  static constexpr int kLanes = QFLEET_BYTES / sizeof(T);

  // Shuffle indices that read lane `lane ^ by`.
  static I LaneXorIndices(int32_t by) {
    I order = {};
    for (int lane = 0; lane < kLanes; ++lane) order[lane] = lane ^ by;
    return order;
  }
};

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_VECTOR_TYPES_H_
