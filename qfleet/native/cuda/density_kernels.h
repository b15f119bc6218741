// Density matrices as real Pauli coefficients: a thread block evolves one example, and walks back
// over the states that it kept before the blocks with a gradient.
#ifndef QFLEET_CUDA_DENSITY_KERNELS_H_
#define QFLEET_CUDA_DENSITY_KERNELS_H_

#include "device_interface.h"
#include "runtime.h"

namespace qfleet {
namespace device {

constexpr int32_t kDensityThreads = 256;  // a thread for each entry of the largest matrix

template <class T>
struct DensityView {
  int64_t coefficients, slots;  // 4**N; kept states of an example
  int64_t shared, per_example;  // matrices
  int32_t block_count, string_count, mode;
  int32_t first;  // block with a gradient; earlier ones are not walked back
  const DensityBlockTable* blocks;
  const int64_t* strings;
  const T *shared_matrices, *own_matrices;
  T* states;                // [examples][slots][4**N]
  T* lambdas;               // [examples][4**N]
  double* means;            // [examples][strings]
  const double* weights;    // [examples][strings]; null: no gradient
  double* shared_sums;      // [examples][shared][kDensityReals]
  double* own_derivatives;  // [examples][per_example][kDensityReals]
};

// The index of a coefficient: a column of a block, with its digits 0.
template <int SIZE>
__device__ __forceinline__ int64_t ColumnAt(const DensityBlockTable& block, int64_t column) {
  const auto insert = [&](int32_t digit) {
    const int64_t low = (int64_t{1} << 2 * digit) - 1;
    column = (column & ~low) << 2 | (column & low);
  };
  if constexpr (SIZE == 16) {
    const bool is_upper_first = block.digits[0] < block.digits[1];
    insert(block.digits[is_upper_first ? 0 : 1]);
    insert(block.digits[is_upper_first ? 1 : 0]);
  } else {
    insert(block.digits[0]);
  }
  return column;
}

template <int SIZE>
__device__ __forceinline__ int64_t RowAt(const DensityBlockTable& block, int32_t row) {
  if constexpr (SIZE == 16)
    return static_cast<int64_t>(row >> 2) << 2 * block.digits[0] | static_cast<int64_t>(row & 3)
                                                                       << 2 * block.digits[1];
  else
    return static_cast<int64_t>(row) << 2 * block.digits[0];
}

template <int SIZE>
__device__ __forceinline__ int64_t ColumnCount(const DensityBlockTable& block) {
  return int64_t{1} << 2 * (block.live - (SIZE == 16 ? 2 : 1));
}

// to = the matrix or its transpose, times `from`, which may be `to`.
template <class T, int SIZE>
__device__ void ApplyDensity(const DensityBlockTable& block, const T* matrix, bool transpose,
                             const T* from, T* to) {
  const int32_t step_row = transpose ? 1 : SIZE, step = transpose ? SIZE : 1;
  for (int64_t c = threadIdx.x; c < ColumnCount<SIZE>(block); c += blockDim.x) {
    const int64_t column = ColumnAt<SIZE>(block, c);
    T x[SIZE];
#pragma unroll
    for (int32_t j = 0; j < SIZE; ++j) x[j] = from[column | RowAt<SIZE>(block, j)];
#pragma unroll 1  // or else the registers do not suffice
    for (int32_t i = 0; i < SIZE; ++i) {
      T sum = 0;
#pragma unroll
      for (int32_t j = 0; j < SIZE; ++j) sum += matrix[i * step_row + j * step] * x[j];
      to[column | RowAt<SIZE>(block, i)] = sum;
    }
  }
}

// derivatives[i][j] = sum over the columns of lambda's row i times row j of the state before.
template <class T, int SIZE>
__device__ void CorrelateDensity(const DensityBlockTable& block, const T* lambda, const T* before,
                                 double* partial, double* derivatives) {
  constexpr int32_t kEntries = SIZE * SIZE;
  const int32_t entry = threadIdx.x % kEntries, lane = threadIdx.x / kEntries;
  const int32_t lanes = blockDim.x / kEntries;
  const int64_t row = RowAt<SIZE>(block, entry / SIZE), from = RowAt<SIZE>(block, entry % SIZE);
  double sum = 0;
  for (int64_t c = lane; c < ColumnCount<SIZE>(block); c += lanes) {
    const int64_t column = ColumnAt<SIZE>(block, c);
    sum += static_cast<double>(lambda[column | row] * before[column | from]);
  }
  partial[threadIdx.x] = sum;
  __syncthreads();
  if (lane != 0) return;
  for (int32_t other = 1; other < lanes; ++other) sum += partial[other * kEntries + entry];
  derivatives[entry] = sum;
}

template <class T>
__device__ __forceinline__ void LoadMatrix(const DensityView<T>& call,
                                           const DensityBlockTable& block, T* matrix) {
  const int64_t own = blockIdx.x * call.per_example + ~static_cast<int64_t>(block.matrix);
  const T* const from = block.matrix >= 0 ? call.shared_matrices + block.matrix * kDensityReals
                                          : call.own_matrices + own * kDensityReals;
  const int32_t i = threadIdx.x;
  if (i < block.size * block.size) matrix[i] = from[i];
}

template <class T>
__device__ void ApplyBlock(const DensityView<T>& call, const DensityBlockTable& block,
                           bool transpose, T* matrix, const T* from, T* to) {
  LoadMatrix(call, block, matrix);
  __syncthreads();
  if (block.size == 16)
    ApplyDensity<T, 16>(block, matrix, transpose, from, to);
  else
    ApplyDensity<T, 4>(block, matrix, transpose, from, to);
  __syncthreads();
}

// The reverse pass of an example, from the state after the last block.
template <class T>
__device__ void ReverseDensity(const DensityView<T>& call, const T* state, T* matrix,
                               double* partial) {
  const int64_t example = blockIdx.x;
  T* const lambda = call.lambdas + example * call.coefficients;
  for (int64_t i = threadIdx.x; i < call.coefficients; i += blockDim.x) lambda[i] = 0;
  __syncthreads();
  if (threadIdx.x == 0)  // strings may be equal
    for (int32_t s = 0; s < call.string_count; ++s)
      lambda[call.strings[s]] += static_cast<T>(call.weights[example * call.string_count + s]);
  __syncthreads();
  for (int32_t b = call.block_count; b-- > call.first;) {
    const DensityBlockTable block = call.blocks[b];
    if (block.gradient[call.mode]) {
      state -= call.coefficients;  // that before the block
      const int64_t own = example * call.per_example + ~static_cast<int64_t>(block.matrix);
      double* const derivatives =
          block.matrix >= 0
              ? call.shared_sums + (example * call.shared + block.matrix) * kDensityReals
              : call.own_derivatives + own * kDensityReals;
      if (block.size == 16)
        CorrelateDensity<T, 16>(block, lambda, state, partial, derivatives);
      else
        CorrelateDensity<T, 4>(block, lambda, state, partial, derivatives);
      __syncthreads();
    }
    if (b > call.first) ApplyBlock(call, block, true, matrix, lambda, lambda);
  }
}

// blockIdx.x is the example. A block with a gradient leaves the state before it.
template <class T>
__global__ void __launch_bounds__(kDensityThreads) EvolveDensity(DensityView<T> call) {
  QFLEET_SHARED_MEMORY(memory);
  double* const partial = reinterpret_cast<double*>(memory);          // [kDensityThreads]
  T* const matrix = reinterpret_cast<T*>(partial + kDensityThreads);  // [kDensityReals]
  const int64_t example = blockIdx.x;
  T* state = call.states + example * call.slots * call.coefficients;
  // |0><0| is (I + Z) / 2: the words of I and Z have coefficients of 1.
  for (int64_t i = threadIdx.x; i < call.coefficients; i += blockDim.x) {
    const int64_t low = i & 0x5555555555555555, high = i >> 1 & 0x5555555555555555;
    state[i] = T(low == high);
  }
  __syncthreads();
  for (int32_t b = 0; b < call.block_count; ++b) {
    const DensityBlockTable block = call.blocks[b];
    T* const to = call.weights && block.gradient[call.mode] ? state + call.coefficients : state;
    ApplyBlock(call, block, false, matrix, state, to);
    state = to;
  }
  for (int32_t s = threadIdx.x; s < call.string_count; s += blockDim.x)
    call.means[example * call.string_count + s] = static_cast<double>(state[call.strings[s]]);
  if (call.weights) ReverseDensity(call, state, matrix, partial);
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_DENSITY_KERNELS_H_
