// Readouts that are Hermitian matrices O_k [size][size] (re, im) on few qubits, set for row <= col,
// and a reduced density matrix per lane. Included by kernels.cc only; see kernels.h.
#ifndef QFLEET_READOUT_KERNELS_H_
#define QFLEET_READOUT_KERNELS_H_

#include "cpu/kernels.h"
#include "cpu/lane_sums.h"
#include "cpu/vector_types.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

template <class T>
struct ReadoutKernels : VectorTypes<T> {
  using typename VectorTypes<T>::V;
  using VectorTypes<T>::kLanes;

  // tr(rho O) from the entries on and above the diagonal.
  static void Values(const ReducedView& view, int64_t readouts, const double* matrices,
                     const T* density, double* totals) {
    const int64_t size = int64_t{1} << view.qubits;
    const V* rho = reinterpret_cast<const V*>(density);
    for (int64_t k = 0; k < readouts; ++k, matrices += 2 * size * size, totals += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) totals[lane] = 0;
      for (int64_t row = 0; row < size; ++row) {
        V sum = {};
        for (int64_t col = row; col < size; ++col) {
          const int64_t at = 2 * (row * size + col);
          sum += static_cast<T>(matrices[at] * (row == col ? 1 : 2)) * rho[at];
          if (row != col) sum += static_cast<T>(2 * matrices[at + 1]) * rho[at + 1];
        }
        for (int lane = 0; lane < kLanes; ++lane) totals[lane] += static_cast<double>(sum[lane]);
      }
    }
  }

  static void Sum(const ReducedView& view, int64_t readouts, const double* matrices,
                  const T* weights_, T* matrix_) {
    const int64_t size = int64_t{1} << view.qubits;
    const V* weights = reinterpret_cast<const V*>(weights_);
    V* matrix = reinterpret_cast<V*>(matrix_);
    for (int64_t row = 0; row < size; ++row)
      for (int64_t col = row; col < size; ++col) {
        V re = {}, im = {};
        for (int64_t k = 0; k < readouts; ++k) {
          const double* entry = matrices + 2 * ((k * size + row) * size + col);
          re += weights[k] * static_cast<T>(entry[0]);
          im += weights[k] * static_cast<T>(row == col ? 0 : entry[1]);
        }
        V *upper = matrix + 2 * (row * size + col), *lower = matrix + 2 * (col * size + row);
        lower[0] = re;
        lower[1] = -im;
        upper[0] = re;
        upper[1] = im;
      }
  }

  static void AddGradients(const ReducedView& view, int64_t readouts, const T* weights_,
                           const T* density, double* gradients) {
    using Unaligned = typename VectorTypes<double>::Unaligned;
    constexpr int kAtOnce = LaneSums<T>::kAtOnce;
    const int64_t size = int64_t{1} << view.qubits;
    const V* weights = reinterpret_cast<const V*>(weights_);
    Unaligned signs;  // of real and imaginary parts of the transpose
    for (int i = 0; i < kAtOnce; ++i) signs[i] = i % 2 ? -1 : 1;
    for (int64_t k = 0; k < readouts; ++k, gradients += 2 * size * size)
      for (int64_t row = 0; row < size; ++row) {
        // The density matrix is there from the block of the diagonal on, so vectors are full.
        const int64_t at = 2 * (row * size + row / 4 * 4), end = 2 * (row + 1) * size;
        for (int64_t entry = at; entry < end; entry += kAtOnce) {
          const V* rho = reinterpret_cast<const V*>(density) + entry;
          V parts[kAtOnce];
          for (int i = 0; i < kAtOnce; ++i) parts[i] = weights[k] * rho[i];
          *reinterpret_cast<Unaligned*>(gradients + entry) += signs * LaneSums<T>::Of(parts);
        }
      }
  }
};

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_READOUT_KERNELS_H_
