// The names and functions of CUDA that kernels use, for the host executor.
#ifndef QFLEET_CUDA_HOST_FUNCTIONS_H_
#define QFLEET_CUDA_HOST_FUNCTIONS_H_

#include <cmath>

#include "host_executor.h"

#define threadIdx (::qfleet::device::HostExecutor::current->thread_index)
#define blockIdx (::qfleet::device::HostExecutor::current->block_index)
#define blockDim (::qfleet::device::HostExecutor::current->block_size)
#define gridDim (::qfleet::device::HostExecutor::current->grid_size)

inline void __syncthreads() { qfleet::device::HostExecutor::current->WaitForBlock(); }

inline void __syncwarp(unsigned = 0xffffffff) {
  qfleet::device::HostExecutor::current->WaitForWarp();
}

template <class T>
T __shfl_xor_sync(unsigned, T value, int lane_mask) {
  auto* const executor = qfleet::device::HostExecutor::current;
  return executor->Exchange(value, executor->lane() ^ lane_mask);
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(static_cast<unsigned>(bits)) : 32; }
inline int __ffs(int bits) { return __builtin_ffs(bits); }

// Fibers of one host thread run one at a time.
template <class T>
T atomicAdd(T* address, T value) {
  const T old = *address;
  *address = old + value;
  return old;
}

// Reduces the angle to a quarter turn first, so that multiples of 1/2 are exact.
inline void sincospi(double x, double* sine, double* cosine) {
  const double reduced = x - 2 * std::rint(x / 2);
  const double quadrant = std::rint(2 * reduced);
  const double angle = M_PI * (reduced - quadrant / 2);
  const double s = std::sin(angle), c = std::cos(angle);
  const int quarter = static_cast<int>(quadrant) & 3;
  *sine = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
  *cosine = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
}

inline void sincospif(float x, float* sine, float* cosine) {
  double s, c;
  sincospi(x, &s, &c);
  *sine = static_cast<float>(s);
  *cosine = static_cast<float>(c);
}

#endif  // QFLEET_CUDA_HOST_FUNCTIONS_H_
