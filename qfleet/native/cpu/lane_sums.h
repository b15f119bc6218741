// Sums over the lanes of vectors, in double. Included by kernels.cc only.
#ifndef QFLEET_LANE_SUMS_H_
#define QFLEET_LANE_SUMS_H_

#include "cpu/vector_types.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

template <class T>
struct LaneSums {
  using V = typename VectorTypes<T>::V;
  using Doubles = VectorTypes<double>;
  static constexpr int kAtOnce = Doubles::kLanes;

  typedef T Part __attribute__((vector_size(Doubles::kLanes * sizeof(T)), may_alias));

  // Lane by lane, since GCC 12 divides a conversion by __builtin_convertvector into several.
  static typename Doubles::V InDouble(Part part) {
    typename Doubles::V widened;
#pragma GCC unroll 8
    for (int lane = 0; lane < Doubles::kLanes; ++lane) widened[lane] = part[lane];
    return widened;
  }

  // The sums of the lanes of kAtOnce vectors. Two vectors become one that holds sums of either in
  // every other lane, and so on.
  static typename Doubles::V Of(const V* from) {
    typename Doubles::V sums[kAtOnce];
#pragma GCC unroll 8
    for (int i = 0; i < kAtOnce; ++i) {
      const Part* parts = reinterpret_cast<const Part*>(from + i);
      sums[i] = InDouble(parts[0]);
      if constexpr (sizeof(T) < sizeof(double)) sums[i] += InDouble(parts[1]);
    }
    typename Doubles::I lanes;
    for (int lane = 0; lane < Doubles::kLanes; ++lane) lanes[lane] = lane;
#pragma GCC unroll 4
    for (int by = 1; by < kAtOnce; by *= 2) {
      const auto even = (lanes & by) == 0;
#pragma GCC unroll 8
      for (int i = 0; i < kAtOnce / (2 * by); ++i) {
        const typename Doubles::V a = sums[2 * i], b = sums[2 * i + 1];
        sums[i] = (even ? a : b) + Doubles::Shuffle(even ? b : a, Doubles::LaneXorIndices(by));
      }
    }
    return sums[0];
  }
};

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_LANE_SUMS_H_
