// Small work around the passes: matrices of gates that differ per example and their gradients,
// coefficients of strings, and sums over rows in a fixed order.
#ifndef QFLEET_CUDA_GATE_KERNELS_H_
#define QFLEET_CUDA_GATE_KERNELS_H_

#include "complex.h"
#include "device_interface.h"
#include "warp_sums.h"

namespace qfleet {
namespace device {

template <class T>
struct GateView {
  int64_t per_example, product_count, product_sums, sequence_sums, derivative_count;
  const ProductTable* products;
  const ItemTable* items;
  const FactorTable* factors;
  const int32_t* exponents;
  const double* half_turns;
  const Complex<T>* factor_matrices;
  const WideOf<T>* shared;          // [E]
  const WideOf<T>* per_example_at;  // [examples][F]
  const Complex<T>* matrices;       // [matrices][16]
};

// The phase of an eigenspace of a factor for one example.
template <class T>
__device__ __forceinline__ Complex<T> PhaseOf(const GateView<T>& gates, const FactorTable& factor,
                                              int32_t space, int64_t example) {
  WideOf<T> angle = 0;
  for (int32_t e = 0; e < factor.exponents; ++e) {
    const int32_t exponent = gates.exponents[factor.first_exponent + e];
    const WideOf<T> value = exponent >= 0
                                ? gates.shared[exponent]
                                : gates.per_example_at[example * gates.per_example + ~exponent];
    angle += gates.half_turns[factor.first_half_turn + space * factor.exponents + e] * value;
  }
  ReduceHalfTurns(&angle);
  Complex<T> phase;
  SineCosinePi(static_cast<T>(angle), &phase.im, &phase.re);
  return phase;
}

// The matrix of a factor for one example.
template <class T, int SIZE>
__device__ __forceinline__ void FactorMatrix(const GateView<T>& gates, const FactorTable& factor,
                                             int64_t example, Complex<T>* u) {
#pragma unroll
  for (int i = 0; i < SIZE * SIZE; ++i) u[i] = {0, 0};
  for (int32_t k = 0; k < factor.spaces; ++k) {
    const Complex<T> phase = PhaseOf(gates, factor, k, example);
    const Complex<T>* projector = gates.factor_matrices + factor.first_matrix + k * SIZE * SIZE;
#pragma unroll
    for (int i = 0; i < SIZE * SIZE; ++i) AddProduct(phase, projector[i], &u[i]);
  }
}

template <class T, int SIZE>
__device__ __forceinline__ void ItemMatrix(const GateView<T>& gates, int32_t item, int64_t example,
                                           Complex<T>* u) {
  if (item < 0) return FactorMatrix<T, SIZE>(gates, gates.factors[~item], example, u);
  const Complex<T>* from = gates.matrices + item * (kMatrixReals / 2);
#pragma unroll
  for (int i = 0; i < SIZE * SIZE; ++i) u[i] = from[i];
}

// Multiplies a column by the matrix of an item.
template <class T, int SIZE>
__device__ __forceinline__ void TimesItem(const GateView<T>& gates, int32_t item, int64_t example,
                                          Complex<T>* column) {
  Complex<T> out[SIZE];
#pragma unroll
  for (int r = 0; r < SIZE; ++r) out[r] = {0, 0};
  const FactorTable factor = item < 0 ? gates.factors[~item] : FactorTable{SIZE, 1, 0, 0, 0, 0};
  for (int32_t space = 0; space < factor.spaces; ++space) {
    const Complex<T>* u = item < 0
                              ? gates.factor_matrices + factor.first_matrix + space * SIZE * SIZE
                              : gates.matrices + item * (kMatrixReals / 2);
    const Complex<T> phase = item < 0 ? PhaseOf(gates, factor, space, example) : Complex<T>{1, 0};
#pragma unroll
    for (int r = 0; r < SIZE; ++r) {
      Complex<T> sum = {0, 0};
#pragma unroll
      for (int j = 0; j < SIZE; ++j) AddProduct(u[r * SIZE + j], column[j], &sum);
      AddProduct(phase, sum, &out[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < SIZE; ++r) column[r] = out[r];
}

template <class T, int SIZE>
__device__ __forceinline__ void WriteColumn(const GateView<T>& gates, const ProductTable& product,
                                            int64_t example, int32_t col, Complex<T>* out) {
  if (col >= SIZE) return;
  Complex<T> column[SIZE];
#pragma unroll
  for (int r = 0; r < SIZE; ++r) column[r] = {T(r == col), 0};
  for (int32_t i = 0; i < product.items; ++i)
    TimesItem<T, SIZE>(gates, gates.items[product.first_item + i].item, example, column);
#pragma unroll
  for (int r = 0; r < SIZE; ++r) out[r * SIZE + col] = column[r];
}

// Four threads compute the columns of one product of one example: products[examples][products][16].
template <class T>
__global__ void __launch_bounds__(128)
    WriteProducts(GateView<T> gates, int64_t examples, Complex<T>* products) {
  const int64_t at = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) / 4;
  const int32_t col = threadIdx.x % 4;
  if (at >= examples * gates.product_count) return;
  const ProductTable product = gates.products[at % gates.product_count];
  Complex<T>* out = products + at * (kMatrixReals / 2);
  if (product.size == 4)
    WriteColumn<T, 4>(gates, product, at / gates.product_count, col, out);
  else
    WriteColumn<T, 2>(gates, product, at / gates.product_count, col, out);
}

template <class T>
struct ProductGradientTargets {
  const T* product_sums;   // [examples][product sums][kMatrixReals]
  T* sequence_sums;        // [examples][sequence sums][kMatrixReals]
  WideOf<T>* derivatives;  // [examples][derivatives]
};

// Takes the factors of a product off its sums, last first; see state/engine.h for the derivation.
template <class T, int SIZE>
__device__ void DifferentiateProduct(const GateView<T>& gates, const ProductTable& product,
                                     int64_t example, int32_t mode,
                                     const ProductGradientTargets<T>& targets) {
  constexpr int kEntries = SIZE * SIZE;
  Complex<T> y[kEntries], u[kEntries], next[kEntries];
  const T* sums =
      targets.product_sums + (example * gates.product_sums + product.sums) * kMatrixReals;
#pragma unroll
  for (int i = 0; i < kEntries; ++i) y[i] = {sums[2 * i], sums[2 * i + 1]};
  for (int32_t i = product.items - 1; i >= 0; --i) {
    const ItemTable item = gates.items[product.first_item + i];
    if (item.item >= 0 && item.sequence_sums >= 0) {
      T* to = targets.sequence_sums +
              (example * gates.sequence_sums + item.sequence_sums) * kMatrixReals;
#pragma unroll
      for (int m = 0; m < kEntries; ++m) {
        to[2 * m] = y[m].re;
        to[2 * m + 1] = y[m].im;
      }
    }
    if (item.item < 0 && item.first_derivative >= 0) {
      const FactorTable factor = gates.factors[~item.item];
      const Complex<T>* generators =
          gates.factor_matrices + factor.first_matrix + factor.spaces * kEntries;
      for (int32_t e = 0; e < factor.exponents; ++e) {
        WideOf<T> derivative = 0;
#pragma unroll
        for (int row = 0; row < SIZE; ++row)
#pragma unroll
          for (int col = 0; col < SIZE; ++col) {
            const Complex<T> h = generators[e * kEntries + row * SIZE + col];
            const Complex<T> entry = y[col * SIZE + row];
            derivative -= static_cast<WideOf<T>>(h.re * entry.im + h.im * entry.re);
          }
        targets.derivatives[example * gates.derivative_count + item.first_derivative + e] =
            2 * M_PI * derivative;
      }
    }
    if (!item.needs_earlier[mode]) return;
    ItemMatrix<T, SIZE>(gates, item.item, example, u);
    MultiplyMatrices<SIZE, false>(y, u, next);
    MultiplyMatrices<SIZE, true>(u, next, y);
  }
}

template <class T>
__global__ void __launch_bounds__(128)
    DifferentiateProducts(GateView<T> gates, int64_t examples, int32_t mode,
                          ProductGradientTargets<T> targets) {
  const int64_t at = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (at >= examples * gates.product_count) return;
  const ProductTable product = gates.products[at % gates.product_count];
  if (product.sums < 0 || !product.gradient[mode]) return;
  if (product.size == 4)
    DifferentiateProduct<T, 4>(gates, product, at / gates.product_count, mode, targets);
  else
    DifferentiateProduct<T, 2>(gates, product, at / gates.product_count, mode, targets);
}

// gradients[example][f] = the sum of the derivatives list[first[f]] ... list[first[f + 1] - 1].
template <class T>
__global__ void __launch_bounds__(128)
    GatherDerivatives(int64_t examples, int64_t per_example, int64_t derivative_count,
                      const int32_t* first, const int32_t* list, const T* derivatives,
                      T* gradients) {
  const int64_t at = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (at >= examples * per_example) return;
  const int64_t example = at / per_example, exponent = at % per_example;
  T sum = 0;
  for (int32_t i = first[exponent]; i < first[exponent + 1]; ++i)
    sum += derivatives[example * derivative_count + list[i]];
  gradients[at] = sum;
}

// coefficients[example][string] = sum_k weights[string][k] upstream[example][k]
template <class T>
__global__ void __launch_bounds__(128)
    WriteCoefficients(int64_t examples, int64_t strings, int64_t readouts, const double* weights,
                      const T* upstream, T* coefficients) {
  const int64_t at = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (at >= examples * strings) return;
  const int64_t example = at / strings, string = at % strings;
  WideOf<T> sum = 0;
  for (int64_t k = 0; k < readouts; ++k)
    sum +=
        weights[string * readouts + k] * static_cast<WideOf<T>>(upstream[example * readouts + k]);
  coefficients[at] = static_cast<T>(sum);
}

// values[example][k] = offsets[k] + sum_s weights[s][k] (sum of the parts of string s), by a warp.
template <class T, class Part>
__global__ void __launch_bounds__(128)
    WriteValues(int64_t examples, int64_t strings, int64_t readouts, const double* weights,
                const double* offsets, const Part* string_values, int32_t parts, T* values) {
  const int64_t at = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) / kWarp;
  const int64_t example = at / readouts, k = at % readouts;
  if (at >= examples * readouts) return;  // the whole warp
  WideOf<T> sum = 0;
  for (int64_t s = 0; s < strings; ++s) {
    const double weight = weights[s * readouts + k];
    if (weight == 0) continue;
    WideOf<T> value = 0;
    for (int32_t part = threadIdx.x % kWarp; part < parts; part += kWarp)
      value += static_cast<WideOf<T>>(string_values[(example * parts + part) * strings + s]);
    sum += weight * value;
  }
  sum = SumOverGroup<kWarp>(sum);
  if (threadIdx.x % kWarp == 0) values[at] = static_cast<T>(offsets[k] + sum);
}

constexpr int32_t kSumColumns = 32, kSumThreads = 512;

// sums[segment][column] = the sum over this segment's rows of in[row][column]; blockIdx.y is the
// segment. Added to `sums` if `add`. A row of `in` is `stride` numbers, of which `width` are used.
template <class From, class To>
__global__ void __launch_bounds__(kSumThreads)
    SumRows(const From* in, int64_t rows, int64_t stride, int64_t width, bool add, To* sums) {
  QFLEET_SHARED_MEMORY(memory);
  using Sum = WideOf<From>;
  Sum* const partial = reinterpret_cast<Sum*>(memory);  // [kSumThreads]
  const int32_t column_in_block = threadIdx.x % kSumColumns;
  const int32_t lane = threadIdx.x / kSumColumns, lanes = kSumThreads / kSumColumns;
  const int64_t column = blockIdx.x * static_cast<int64_t>(kSumColumns) + column_in_block;
  const int64_t per_segment = (rows + gridDim.y - 1) / gridDim.y;
  const int64_t from = blockIdx.y * per_segment;
  const int64_t to = from + per_segment < rows ? from + per_segment : rows;
  Sum sum = 0;
  if (column < width)
    for (int64_t row = from + lane; row < to; row += lanes)
      sum += static_cast<Sum>(in[row * stride + column]);
  partial[threadIdx.x] = sum;
  __syncthreads();
  if (lane != 0 || column >= width) return;
  for (int32_t other = 1; other < lanes; ++other)
    sum += partial[other * kSumColumns + column_in_block];
  To* const out = sums + blockIdx.y * width + column;
  *out = static_cast<To>(add ? static_cast<Sum>(*out) + sum : sum);
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_GATE_KERNELS_H_
