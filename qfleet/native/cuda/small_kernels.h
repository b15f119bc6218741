// Small states: one launch evolves, measures and differentiates a batch. Each state stays in shared
// memory from its first block to its last gradient.
#ifndef QFLEET_CUDA_SMALL_KERNELS_H_
#define QFLEET_CUDA_SMALL_KERNELS_H_

#include "passes.h"
#include "strings.h"

namespace qfleet {
namespace device {

// A program in the device's memory.
template <class T>
struct ProgramView {
  int32_t qubits, mode;
  int32_t block_count, string_count, product_count;
  int64_t block_sums, product_sums;
  const PassBlock* blocks;
  const PlaceTable* begin;           // places before the first block
  const PauliString* strings;        // of the state's index
  const PauliString* place_strings;  // of places after the last block
  const Complex<T>* initial;         // [2**N], or null
};

template <class T>
struct SmallArguments {
  ProgramView<T> program;
  int64_t size;
  const Complex<T>* initial_states;  // [size][2**N], or null: all begin at the program's
  const Complex<T>* matrices;        // [matrices][16]
  const Complex<T>* products;        // [size][products][16]
  T* string_values;                  // [size][strings]; null: not wanted
  const T* coefficients;             // [size][strings]; null: no gradient
  WideOf<T>* unit_sums;         // [units][block sums][kMatrixReals], a unit for each warp or block
  T* product_sums;              // [size][product sums][kMatrixReals]
  Complex<T>* state_gradients;  // [size][2**N], half of dL/d(initial states); null: not wanted
};

// A thread's amplitudes of a tile: launches have enough threads for one strip each.
template <int LANES, int STRIP_BITS>
__device__ __forceinline__ Strip<STRIP_BITS> StripOf(int32_t qubits) {
  const Group<LANES> threads;
  const int32_t shift = threads.size_bits(), left = qubits - shift;
  return {threads.rank(), shift, threads.rank() >> qubits ? 0 : left < 0 ? 1 : 1 << left};
}

// Writes values[s], the sum of string s over the strips of the threads; load(i) is amplitude i.
// Strings has the strings and their number, as ProgramView.
template <int LANES, class Strings, int STRIP_BITS, class Load, class T>
__device__ __forceinline__ void MeasureStrings(const Strings& strings,
                                               const Strip<STRIP_BITS>& strip, const Load& load,
                                               T* warp_sums, T* values) {
  constexpr int32_t kAtOnce = 2 * kWarp;  // strings whose sums fit into warp_sums
  const Group<LANES> threads;
  const int32_t warps = blockDim.x / kWarp;
  const int32_t at_once = LANES ? strings.string_count : kAtOnce;
  for (int32_t first = 0; first < strings.string_count; first += at_once) {
    const int32_t left = strings.string_count - first, count = left < at_once ? left : at_once;
    MeasureStrip<T>(strings.place_strings + first, count, strip, load, [&](int32_t s, T sum) {
      sum = SumOverGroup<(LANES ? LANES : kWarp)>(sum);
      if (LANES != 0) {
        if (threads.rank() == 0 && values) values[s] = sum;
      } else if (threadIdx.x % kWarp == 0) {
        warp_sums[s * warps + threadIdx.x / kWarp] = sum;
      }
    });
    if (LANES != 0) continue;
    __syncthreads();
    for (int32_t s = threadIdx.x; s < count; s += blockDim.x) {
      T total = 0;
      for (int32_t warp = 0; warp < warps; ++warp) total += warp_sums[s * warps + warp];
      values[first + s] = total;
    }
    __syncthreads();
  }
}

// lambda = sum of the strings, times their coefficients, applied to psi.
template <class T, int LANES, int STRIP_BITS>
__device__ void ApplyStrings(const ProgramView<T>& program, const Complex<T>* psi,
                             const T* coefficients, Complex<T>* lambda) {
  ApplyToStrip(
      program.place_strings, program.string_count, coefficients,
      StripOf<LANES, STRIP_BITS>(program.qubits), [&](int64_t i) { return psi[i]; },
      [&](int64_t i, Complex<T> x) { lambda[i] = x; });
}

template <class T, class Threads>
__device__ __forceinline__ void BeginState(const ProgramView<T>& program, const Complex<T>* initial,
                                           Threads threads, Complex<T>* psi) {
  constexpr int32_t kBatch = 8;
  ForEachPlaces<kBatch>(program.begin->columns, program.begin->base, program.qubits, threads,
                        [&](const uint32_t* indices, const uint32_t* places, int32_t count) {
                          Complex<T> x[kBatch];
#pragma unroll
                          for (int32_t k = 0; k < kBatch; ++k)
                            if (k < count)
                              x[k] =
                                  initial ? initial[indices[k]] : Complex<T>{T(indices[k] == 0), 0};
#pragma unroll
                          for (int32_t k = 0; k < kBatch; ++k)
                            if (k < count) At(psi, places[k]) = x[k];
                        });
}

// Copies a state from the places before the first block.
template <class T, class Threads>
__device__ __forceinline__ void StoreState(const ProgramView<T>& program, Complex<T>* psi,
                                           Threads threads, Complex<T>* state) {
  constexpr int32_t kBatch = 8;
  ForEachPlaces<kBatch>(program.begin->columns, program.begin->base, program.qubits, threads,
                        [&](const uint32_t* indices, const uint32_t* places, int32_t count) {
#pragma unroll
                          for (int32_t k = 0; k < kBatch; ++k)
                            if (k < count) state[indices[k]] = At(psi, places[k]);
                        });
}

// Examples are dealt to groups of LANES lanes, or thread blocks if LANES is 0, in a fixed order.
// THREADS is the most threads of a block, BLOCKS the blocks that share a multiprocessor, which
// limits the registers. A thread has at most 1 << STRIP_BITS amplitudes.
template <class T, int LANES, int THREADS, int BLOCKS, int STRIP_BITS>
__global__ void __launch_bounds__(THREADS, BLOCKS) EvolveSmall(SmallArguments<T> call) {
  QFLEET_SHARED_MEMORY(memory);
  const ProgramView<T>& program = call.program;
  const Group<LANES> threads;
  const int32_t groups = LANES ? blockDim.x / (LANES ? LANES : 1) : 1;
  const int32_t group = LANES ? threadIdx.x / (LANES ? LANES : 1) : 0;
  const uint32_t amplitudes = 1u << program.qubits;
  Complex<T>* const states = reinterpret_cast<Complex<T>*>(memory);
  Complex<T>* const psi = states + group * amplitudes;
  Complex<T>* const lambda = states + (groups + group) * amplitudes;
  T* const warp_sums = reinterpret_cast<T*>(states + (call.coefficients ? 2 : 1) * amplitudes *
                                                         static_cast<uint32_t>(groups));
  const int64_t unit =
      LANES ? blockIdx.x * static_cast<int64_t>(blockDim.x / kWarp) + threadIdx.x / kWarp
            : blockIdx.x;
  for (int64_t first = blockIdx.x * static_cast<int64_t>(groups); first < call.size;
       first += gridDim.x * static_cast<int64_t>(groups)) {
    const bool present = first + group < call.size;
    const int64_t example = present ? first + group : call.size - 1;
    const Matrices<T> matrices = {
        call.matrices, call.products + example * program.product_count * (kMatrixReals / 2)};
    BeginState(program,
               call.initial_states ? call.initial_states + example * amplitudes : program.initial,
               threads, psi);
    threads.Sync();
    ForwardPass(program.blocks, program.block_count, matrices, threads, psi);
    if (call.string_values)
      MeasureStrings<LANES>(
          program, StripOf<LANES, STRIP_BITS>(program.qubits), [&](int64_t i) { return psi[i]; },
          warp_sums, present ? call.string_values + example * program.string_count : nullptr);
    if (call.coefficients) {
      // An absent example has no coefficients, so that it adds nothing to the sums of its warp.
      ApplyStrings<T, LANES, STRIP_BITS>(
          program, psi, present ? call.coefficients + example * program.string_count : nullptr,
          lambda);
      threads.Sync();
      const SumTargets<T> targets = {
          call.unit_sums + unit * program.block_sums * kMatrixReals, nullptr,
          present ? call.product_sums + example * program.product_sums * kMatrixReals : nullptr};
      BackwardPass<T, LANES>(program.blocks, program.block_count, matrices, program.mode, psi,
                             lambda, warp_sums, targets);
      if (call.state_gradients && present)
        StoreState(program, lambda, threads, call.state_gradients + example * amplitudes);
    }
    threads.Sync();
  }
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_SMALL_KERNELS_H_
