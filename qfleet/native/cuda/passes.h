// The passes over the blocks of a tile: forward, and backward with the sums of each block.
#ifndef QFLEET_CUDA_PASSES_H_
#define QFLEET_CUDA_PASSES_H_

#include "warp_sums.h"

namespace qfleet {
namespace device {

// Where a pass reads the matrices of one example's blocks.
template <class T>
struct Matrices {
  const Complex<T>* shared;    // [matrices][16]
  const Complex<T>* products;  // [products][16], of this example

  __device__ __forceinline__ const Complex<T>* Of(const PassBlock& block) const {
    constexpr int kEntries = kMatrixReals / 2;
    return block.matrix >= 0 ? shared + block.matrix * kEntries
                             : products + ~block.matrix * kEntries;
  }
};

// Where a backward pass leaves the sums of the blocks.
template <class T>
struct SumTargets {
  WideOf<T>* shared;          // [slots][kMatrixReals]: added to
  WideOf<T>* products_added;  // the same for products, or null
  T* products;  // [slots][kMatrixReals]: overwritten, of this example; null for no example
};

template <class T, class Threads>
__device__ void ForwardPass(const PassBlock* blocks, int32_t count, const Matrices<T>& matrices,
                            Threads threads, Complex<T>* psi) {
  for (int32_t b = 0; b < count; ++b) {
    const PassBlock block = LoadBlock(blocks + b);
    ApplyBlock(block, blocks + b, matrices.Of(block), threads, psi);
    threads.Sync();
  }
}

// Position in a matrix of 32 reals of the sum number `at`, a part of psi[j] conj(lambda[r]).
template <int SIZE>
__device__ __forceinline__ int32_t SumPosition(const PassBlock* block, int32_t at) {
  if (SIZE == 4 || !block->is_controlled) return at;
  const int32_t j = at / 4, r = at / 2 % 2, entry = block->entry[r * 2 + j];
  return 2 * (entry % 4 * 4 + entry / 4) + at % 2;
}

// Only one thread adds to a number, so that additions have a fixed order. An atomic one, unlike
// +=, does not wait for the memory.
template <class T>
__device__ __forceinline__ void StoreSum(const PassBlock& block, int32_t position, T value,
                                         const SumTargets<T>& targets) {
  const int64_t at = static_cast<int64_t>(block.sums) * kMatrixReals + position;
  if (block.matrix >= 0)
    AddAtomically(&targets.shared[at], static_cast<WideOf<T>>(value));
  else if (targets.products_added)
    AddAtomically(&targets.products_added[at], static_cast<WideOf<T>>(value));
  else if (targets.products)
    targets.products[at] = value;
}

// Sums of threads in the same warp. A shared block's sums are those of all states of the warp.
template <int SIZE, int LANES, class T>
__device__ __forceinline__ void StoreWarpSums(const PassBlock& block, const PassBlock* memory,
                                              T* sums, const SumTargets<T>& targets) {
  constexpr int kCount = 2 * SIZE * SIZE;
  const int32_t lane = threadIdx.x % kWarp;
  if (block.matrix >= 0) {
    SumOverLanes<kCount, kWarp>(sums);
    constexpr int kLanesPerSum = kWarp / kCount > 0 ? kWarp / kCount : 1;
    if (lane % kLanesPerSum == 0)
      StoreSum(block, SumPosition<SIZE>(memory, lane / kLanesPerSum), sums[0], targets);
    return;
  }
  SumOverLanes<kCount, LANES>(sums);
  constexpr int kLanesPerSum = LANES > kCount ? LANES / kCount : 1;
  constexpr int kSumsPerLane = LANES > kCount ? 1 : kCount / LANES;
  if (lane % kLanesPerSum) return;
#pragma unroll
  for (int i = 0; i < kSumsPerLane; ++i)
    StoreSum(block, SumPosition<SIZE>(memory, lane % LANES / kLanesPerSum * kSumsPerLane + i),
             sums[i], targets);
}

template <class T, int SIZE, int LANES>
__device__ __forceinline__ void ReverseBlock(const PassBlock& block, const PassBlock* memory,
                                             const Complex<T>* matrix, bool gradient,
                                             bool uncompute, Complex<T>* psi, Complex<T>* lambda,
                                             T* warp_sums, const SumTargets<T>& targets) {
  constexpr int kCount = 2 * SIZE * SIZE;
  const Group<LANES> threads;
  Complex<T> sums[SIZE * SIZE] = {};
  ReverseMatrix<T, SIZE>(block, memory, matrix, threads, gradient, uncompute, psi, lambda, sums);
  if (!gradient) {
    threads.Sync();
    return;
  }
  T values[kCount];
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    values[2 * i] = sums[i].re;
    values[2 * i + 1] = sums[i].im;
  }
  if constexpr (LANES != 0) {
    StoreWarpSums<SIZE, LANES>(block, memory, values, targets);
    threads.Sync();
  } else {
    SumOverLanes<kCount, kWarp>(values);
    constexpr int kLanesPerSum = kWarp / kCount;
    const int32_t lane = threadIdx.x % kWarp;
    if (lane % kLanesPerSum == 0)
      warp_sums[threadIdx.x / kWarp * kWarp + lane / kLanesPerSum] = values[0];
    threads.Sync();
    if (threadIdx.x >= kCount) return;
    T total = 0;
    for (uint32_t warp = 0; warp < blockDim.x / kWarp; ++warp)
      total += warp_sums[warp * kWarp + threadIdx.x];
    StoreSum(block, SumPosition<SIZE>(memory, threadIdx.x), total, targets);
  }
}

// Walks both states back through the blocks, last first. `mode` is 1 if gradients of all exponents
// are wanted, and 0 if only those of shared ones are. `warp_sums` has two sets of kWarp numbers for
// each warp, used in turns: one is read while the next one is written.
template <class T, int LANES>
__device__ void BackwardPass(const PassBlock* blocks, int32_t count, const Matrices<T>& matrices,
                             int32_t mode, Complex<T>* psi, Complex<T>* lambda, T* warp_sums,
                             const SumTargets<T>& targets) {
  bool second = false;
  for (int32_t b = count - 1; b >= 0; --b) {
    const PassBlock block = LoadBlock(blocks + b);
    // Not indexed by `mode`, which would move the block to the thread's memory.
    const bool gradient = mode ? block.gradient[1] : block.gradient[0];
    const bool uncompute = mode ? block.uncompute[1] : block.uncompute[0];
    if (!gradient && !uncompute) continue;
    T* sums = warp_sums + (second ? blockDim.x : 0);
    if (block.size == 4)
      ReverseBlock<T, 4, LANES>(block, blocks + b, matrices.Of(block), gradient, uncompute, psi,
                                lambda, sums, targets);
    else
      ReverseBlock<T, 2, LANES>(block, blocks + b, matrices.Of(block), gradient, uncompute, psi,
                                lambda, sums, targets);
    second = !second;
  }
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_PASSES_H_
