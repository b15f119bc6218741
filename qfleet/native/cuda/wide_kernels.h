// Wide states: they are in the device's memory, and a launch applies a window of blocks on a few
// qubits to all tiles of some states.
#ifndef QFLEET_CUDA_WIDE_KERNELS_H_
#define QFLEET_CUDA_WIDE_KERNELS_H_

#include "small_kernels.h"

namespace qfleet {
namespace device {

// Consecutive blocks on few qubits. Their bits are those of a tile's index.
struct WindowTable {
  int32_t first, count;  // of the window's blocks
  int32_t bit_count;
  int32_t bits[kColumns];  // of the state's index, ascending; then 0
  PlaceTable begin, end;   // places before the first and after the last block
};

// Spreads the bits `from` to `to` of a tile's index over the bits of the state's index.
__device__ __forceinline__ int64_t SpreadOver(const WindowTable& window, uint32_t index,
                                              int32_t from, int32_t to) {
  int64_t spread = 0;
#pragma unroll
  for (int32_t i = 0; i < kMaxTileBits; ++i)
    if (i >= from && i < to) spread |= static_cast<int64_t>(index >> i & 1) << window.bits[i];
  return spread;
}

// Spreads a tile's number over the other bits of the state's index.
__device__ __forceinline__ int64_t SpreadAround(const WindowTable& window, int64_t index) {
  for (int32_t i = 0; i < window.bit_count; ++i) {
    const int64_t low = (int64_t{1} << window.bits[i]) - 1;
    index = (index & ~low) << 1 | (index & low);
  }
  return index;
}

template <class T>
struct WideArguments {
  ProgramView<T> program;
  WindowTable window;
  int64_t tiles;               // of a state
  const PassBlock* blocks;     // of all windows
  const Complex<T>* matrices;  // [matrices][16]
  const Complex<T>* products;  // [examples][products][16]
  Complex<T>*psi, *lambda;     // [examples][2**N]
  WideOf<T>* unit_sums;        // [examples][parts][block sums + product sums][kMatrixReals]
  int32_t fresh;               // 1: the states begin here
  int32_t store;               // 1: earlier blocks need the states
};

constexpr int32_t kTileBatch = 8;

// Calls visit(places in the tile, indices in the state, count) for all amplitudes of a tile.
template <class Visit>
__device__ __forceinline__ void ForEachInTile(const WindowTable& window, const PlaceTable& places,
                                              int64_t tile, const Visit& visit) {
  const Group<0> threads;
  const int32_t size_bits = threads.size_bits();
  const int64_t base =
      SpreadAround(window, tile) | SpreadOver(window, threads.rank(), 0, size_bits);
  int64_t of_batch[kTileBatch];  // indices of a batch without those of its first number
#pragma unroll
  for (int32_t k = 0; k < kTileBatch; ++k)
    of_batch[k] =
        k == 0 ? 0 : of_batch[k & (k - 1)] | int64_t{1} << window.bits[size_bits + BitOf(k)];
  ForEachPlaces<kTileBatch>(places.columns, places.base, window.bit_count, threads,
                            [&](const uint32_t* numbers, const uint32_t* at, int32_t count) {
                              int64_t begin = base;
                              for (uint32_t left = numbers[0] >> size_bits, i = size_bits; left;
                                   left >>= 1, ++i)
                                if (left & 1) begin |= int64_t{1} << window.bits[i];
                              int64_t indices[kTileBatch];
#pragma unroll
                              for (int32_t k = 0; k < kTileBatch; ++k)
                                indices[k] = begin | of_batch[k];
                              visit(at, indices, count);
                            });
}

template <class T>
__device__ __forceinline__ void LoadTile(const WindowTable& window, const PlaceTable& places,
                                         int64_t tile, const Complex<T>* state, Complex<T>* psi) {
  ForEachInTile(window, places, tile,
                [&](const uint32_t* at, const int64_t* indices, int32_t count) {
                  Complex<T> x[kTileBatch];
#pragma unroll
                  for (int32_t k = 0; k < kTileBatch; ++k)
                    if (k < count) x[k] = state[indices[k]];
#pragma unroll
                  for (int32_t k = 0; k < kTileBatch; ++k)
                    if (k < count) At(psi, at[k]) = x[k];
                });
}

template <class T>
__device__ __forceinline__ void StoreTile(const WindowTable& window, const PlaceTable& places,
                                          int64_t tile, Complex<T>* psi, Complex<T>* state) {
  ForEachInTile(window, places, tile,
                [&](const uint32_t* at, const int64_t* indices, int32_t count) {
#pragma unroll
                  for (int32_t k = 0; k < kTileBatch; ++k)
                    if (k < count) state[indices[k]] = At(psi, at[k]);
                });
}

template <class T>
__device__ __forceinline__ void BeginTile(const WindowTable& window, int64_t tile,
                                          const Complex<T>* initial, Complex<T>* psi) {
  if (initial) return LoadTile(window, window.begin, tile, initial, psi);
  ForEachInTile(window, window.begin, tile,
                [&](const uint32_t* at, const int64_t* indices, int32_t count) {
#pragma unroll
                  for (int32_t k = 0; k < kTileBatch; ++k)
                    if (k < count) At(psi, at[k]) = {T(indices[k] == 0), 0};
                });
}

// Thread blocks that share a multiprocessor, which limits the registers.
template <class T>
constexpr int kWideBlocks = kHasTangents<T> ? 1 : 2;

// blockIdx.y is the example, blockIdx.x the part of its tiles.
template <class T>
__global__ void __launch_bounds__(256, kWideBlocks<T>) ForwardWindow(WideArguments<T> call) {
  QFLEET_SHARED_MEMORY(memory);
  Complex<T>* const psi = reinterpret_cast<Complex<T>*>(memory);
  const ProgramView<T>& program = call.program;
  const int64_t example = blockIdx.y;
  const Matrices<T> matrices = {
      call.matrices, call.products + example * program.product_count * (kMatrixReals / 2)};
  Complex<T>* const state = call.psi + (example << program.qubits);
  for (int64_t tile = blockIdx.x; tile < call.tiles; tile += gridDim.x) {
    if (call.fresh)
      BeginTile(call.window, tile, program.initial, psi);
    else
      LoadTile(call.window, call.window.begin, tile, state, psi);
    __syncthreads();
    ForwardPass(call.blocks + call.window.first, call.window.count, matrices, Group<0>(), psi);
    StoreTile(call.window, call.window.end, tile, psi, state);
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(256, kWideBlocks<T>) BackwardWindow(WideArguments<T> call) {
  QFLEET_SHARED_MEMORY(memory);
  Complex<T>* const psi = reinterpret_cast<Complex<T>*>(memory);
  Complex<T>* const lambda = psi + (1u << call.window.bit_count);
  T* const warp_sums = reinterpret_cast<T*>(lambda + (1u << call.window.bit_count));
  const ProgramView<T>& program = call.program;
  const int64_t example = blockIdx.y;
  const Matrices<T> matrices = {
      call.matrices, call.products + example * program.product_count * (kMatrixReals / 2)};
  Complex<T>* const state = call.psi + (example << program.qubits);
  Complex<T>* const adjoint = call.lambda + (example << program.qubits);
  WideOf<T>* const sums = call.unit_sums + (example * gridDim.x + blockIdx.x) *
                                               (program.block_sums + program.product_sums) *
                                               kMatrixReals;
  const SumTargets<T> targets = {sums, sums + program.block_sums * kMatrixReals, nullptr};
  for (int64_t tile = blockIdx.x; tile < call.tiles; tile += gridDim.x) {
    LoadTile(call.window, call.window.end, tile, state, psi);
    LoadTile(call.window, call.window.end, tile, adjoint, lambda);
    __syncthreads();
    BackwardPass<T, 0>(call.blocks + call.window.first, call.window.count, matrices, program.mode,
                       psi, lambda, warp_sums, targets);
    if (call.store) {
      StoreTile(call.window, call.window.begin, tile, psi, state);
      StoreTile(call.window, call.window.begin, tile, lambda, adjoint);
    }
    __syncthreads();
  }
}

constexpr int32_t kMeasuredAtOnce = 64;  // strings

constexpr int32_t kWideStripBits = 4, kWideStrip = 1 << kWideStripBits;

// The strips of a thread block: blockIdx.x and further ones, gridDim.x apart.
__device__ __forceinline__ Strip<kWideStripBits> WideStrip(int32_t qubits, int64_t number) {
  const int32_t shift = 31 - __clz(static_cast<int>(blockDim.x)), left = qubits - shift;
  return {number << (shift + kWideStripBits) | threadIdx.x, shift,
          left >= kWideStripBits ? kWideStrip
          : left < 0             ? threadIdx.x >> qubits == 0
                                 : 1 << left};
}

__device__ __forceinline__ int64_t WideStrips(int32_t qubits) {
  const int32_t bits = qubits - kWideStripBits - (31 - __clz(static_cast<int>(blockDim.x)));
  return bits > 0 ? int64_t{1} << bits : 1;
}

// Writes the sums of each part of the amplitudes: parts[examples][parts][strings]. The shared
// memory has kMeasuredAtOnce numbers for each warp.
template <class T>
__global__ void __launch_bounds__(256)
    MeasureWide(ProgramView<T> program, const Complex<T>* states, WideOf<T>* parts) {
  QFLEET_SHARED_MEMORY(memory);
  WideOf<T>* const sums = reinterpret_cast<WideOf<T>*>(memory);
  const int64_t example = blockIdx.y, strips = WideStrips(program.qubits);
  const Complex<T>* const psi = states + (example << program.qubits);
  WideOf<T>* const out = parts + (example * gridDim.x + blockIdx.x) * program.string_count;
  const int32_t warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp;
  for (int32_t first = 0; first < program.string_count; first += kMeasuredAtOnce) {
    const int32_t left = program.string_count - first;
    const int32_t count = left < kMeasuredAtOnce ? left : kMeasuredAtOnce;
    for (int32_t i = threadIdx.x; i < count * warps; i += blockDim.x) sums[i] = 0;
    __syncthreads();
    for (int64_t number = blockIdx.x; number < strips; number += gridDim.x)
      MeasureStrip<T>(
          program.strings + first, count, WideStrip(program.qubits, number),
          [&](int64_t i) { return psi[i]; },
          [&](int32_t s, T sum) {
            sum = SumOverGroup<kWarp>(sum);
            if (threadIdx.x % kWarp == 0) sums[s * warps + warp] += static_cast<WideOf<T>>(sum);
          });
    __syncthreads();
    for (int32_t s = threadIdx.x; s < count; s += blockDim.x) {
      WideOf<T> total = 0;
      for (int32_t i = 0; i < warps; ++i) total += sums[s * warps + i];
      out[first + s] = total;
    }
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(256)
    ApplyStringsWide(ProgramView<T> program, const Complex<T>* states, const T* coefficients,
                     Complex<T>* lambdas) {
  const int64_t example = blockIdx.y, strips = WideStrips(program.qubits);
  const Complex<T>* const psi = states + (example << program.qubits);
  Complex<T>* const lambda = lambdas + (example << program.qubits);
  for (int64_t number = blockIdx.x; number < strips; number += gridDim.x)
    ApplyToStrip(
        program.strings, program.string_count, coefficients + example * program.string_count,
        WideStrip(program.qubits, number), [&](int64_t i) { return psi[i]; },
        [&](int64_t i, Complex<T> x) { lambda[i] = x; });
}

// The order of the bits of a caller's states: bit i of the program's index is bit order[i].
struct BitOrder {
  int32_t qubits;
  int8_t order[40];

  __device__ __forceinline__ int64_t Of(int64_t index) const {
    int64_t permuted = 0;
    for (int32_t i = 0; i < qubits; ++i) permuted |= (index >> i & 1) << order[i];
    return permuted;
  }
};

// Copies states to or from the caller's order, times a factor.
template <class T>
__global__ void __launch_bounds__(256) PermuteStates(BitOrder order, bool to_caller, T factor,
                                                     const Complex<T>* from, Complex<T>* to) {
  const int64_t first = static_cast<int64_t>(blockIdx.y) << order.qubits;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
       i < int64_t{1} << order.qubits; i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t caller = order.Of(i);
    const Complex<T> x = from[first + (to_caller ? i : caller)];
    to[first + (to_caller ? caller : i)] = {factor * x.re, factor * x.im};
  }
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_WIDE_KERNELS_H_
