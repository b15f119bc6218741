// Sums over the threads of a warp or a thread block, always added in the same order.
#ifndef QFLEET_CUDA_WARP_SUMS_H_
#define QFLEET_CUDA_WARP_SUMS_H_

#include "tile.h"

namespace qfleet {
namespace device {

constexpr unsigned kAllLanes = 0xffffffffu;

template <class T>
__device__ __forceinline__ T ShuffleXor(T value, int distance) {
  return __shfl_xor_sync(kAllLanes, value, distance);
}

template <class R>
__device__ __forceinline__ Dual<R> ShuffleXor(Dual<R> value, int distance) {
  return {ShuffleXor(value.value, distance), ShuffleXor(value.tangent, distance)};
}

// Sums COUNT values over each WIDTH lanes, both powers of 2. In each step, a lane hands half of its
// values to another lane and takes over the other half, so that COUNT - 1 shuffles are enough.
// Afterwards, lane l of WIDTH has the sums number l * COUNT / WIDTH and following, COUNT / WIDTH
// or one.
template <int COUNT, int WIDTH, class T>
__device__ __forceinline__ void SumOverLanes(T* values) {
  if constexpr (WIDTH > 1) {
    constexpr int kDistance = WIDTH / 2, kHalf = COUNT / 2;
    if constexpr (COUNT == 1) {
      values[0] += ShuffleXor(values[0], kDistance);
      SumOverLanes<1, kDistance>(values);
    } else {
      const bool upper = threadIdx.x & kDistance;
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        const T given = upper ? values[i] : values[i + kHalf];
        const T kept = upper ? values[i + kHalf] : values[i];
        values[i] = kept + ShuffleXor(given, kDistance);
      }
      SumOverLanes<kHalf, kDistance>(values);
    }
  }
}

// The sum of one value over the lanes of a group, in all of its lanes.
template <int WIDTH, class T>
__device__ __forceinline__ T SumOverGroup(T value) {
#pragma unroll
  for (int distance = WIDTH / 2; distance > 0; distance /= 2) value += ShuffleXor(value, distance);
  return value;
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_WARP_SUMS_H_
