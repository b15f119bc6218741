// Matrices of blocks, packed into vectors for block_kernels.h. Included by kernels.cc only.
#ifndef QFLEET_PACKING_KERNELS_H_
#define QFLEET_PACKING_KERNELS_H_

#include "cpu/kernels.h"
#include "cpu/vector_types.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

template <class T>
struct PackingKernels : VectorTypes<T> {
  using typename VectorTypes<T>::V;
  using VectorTypes<T>::kLanes;

  // The entry of U, or of its adjoint, that a lane of a row and an input needs.
  static int Entry(const BlockKernel& kernel, int r, int j, int lane, bool inverse) {
    const int row = kernel.row[r][lane], col = kernel.col[j][lane];
    return inverse ? col * kernel.cols + row : row * kernel.cols + col;
  }

  // A matrix of all samples; without qubits in the lanes, all lanes are equal.
  static void PackShared(const BlockKernel& kernel, const double* values, bool inverse, T* out_) {
    V* out = reinterpret_cast<V*>(out_);
    const double sign = inverse ? -1 : 1;
    for (int r = 0; r < kernel.rows; ++r)
      for (int j = 0; j < kernel.cols; ++j, out += 2) {
        const int entry = Entry(kernel, r, j, 0, inverse);
        out[0] = static_cast<T>(values[2 * entry]) - V{};
        out[1] = static_cast<T>(sign * values[2 * entry + 1]) - V{};
      }
  }

  // A matrix per lane, all of which need the same entry.
  static void PackPerLane(const BlockKernel& kernel, const double* values, bool inverse, T* out) {
    for (int r = 0; r < kernel.rows; ++r)
      for (int j = 0; j < kernel.cols; ++j)
        for (int part = 0; part < 2; ++part, out += kLanes) {
          const double* from = values + (2 * Entry(kernel, r, j, 0, inverse) + part) * kLanes;
          const double sign = inverse && part ? -1 : 1;
          for (int lane = 0; lane < kLanes; ++lane) out[lane] = static_cast<T>(sign * from[lane]);
        }
  }

  static void Pack(const BlockKernel& kernel, const double* values, int32_t samples,
                   int32_t tile_samples, bool inverse, T* out) {
    if (samples == 1 && kernel.rows == kernel.cols) return PackShared(kernel, values, inverse, out);
    if (samples == kLanes) return PackPerLane(kernel, values, inverse, out);
    for (int r = 0; r < kernel.rows; ++r)
      for (int j = 0; j < kernel.cols; ++j)
        for (int part = 0; part < 2; ++part, out += kLanes)
          for (int lane = 0; lane < kLanes; ++lane) {
            const int32_t sample = samples == 1 ? 0 : lane & (tile_samples - 1);
            const int entry = Entry(kernel, r, j, lane, inverse);
            const double value = values[(2 * entry + part) * samples + sample];
            out[lane] = static_cast<T>(inverse && part ? -value : value);
          }
  }
};

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_PACKING_KERNELS_H_
