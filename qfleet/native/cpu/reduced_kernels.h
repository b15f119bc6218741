// Reduced density matrices, and matrices that act on the same few qubits. Included by kernels.cc
// only; see ReducedView in kernels.h.
#ifndef QFLEET_REDUCED_KERNELS_H_
#define QFLEET_REDUCED_KERNELS_H_

#include "cpu/kernels.h"
#include "cpu/vector_types.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

template <class T>
struct ReducedKernels : VectorTypes<T> {
  using typename VectorTypes<T>::V;
  using VectorTypes<T>::kLanes;

  // Groups that are packed, row after row, before they are used many times: they stay in L1.
  static constexpr int kStripGroups = 128;
  // Complex sums that are held in registers at once: 8 where there are 32 registers.
  static constexpr int kRowsAtOnce = QFLEET_BYTES == 64 ? 2 : 1;
  static constexpr int kTuplesAtOnce = QFLEET_BYTES == 64 ? 2 : 1;

  // A tuple's index with a zero inserted at each of the view's bits.
  static int64_t FirstGroup(const ReducedView& view, int64_t tuple) {
    for (int i = 0; i < view.qubits; ++i)
      tuple = (tuple >> view.bits[i] << (view.bits[i] + 1)) |
              (tuple & ((int64_t{1} << view.bits[i]) - 1));
    return tuple;
  }

  static void Pack(const ReducedView& view, const V* psi, int64_t tuple, int64_t count, V* strip) {
    const int size = 1 << view.qubits;
    for (int64_t t = 0; t < count; ++t) {
      const V* from = psi + 2 * FirstGroup(view, tuple + t);
      for (int r = 0; r < size; ++r, strip += 2) {
        strip[0] = from[2 * view.rows[r]];
        strip[1] = from[2 * view.rows[r] + 1];
      }
    }
  }

  // density[i + r][j + c] += x[i + r] conj(x[j + c]), summed over the tuples of a strip.
  template <int ROWS, int COLS>
  static void AddProducts(const V* strip, int64_t count, int size, int i, int j, V* density) {
    V re[ROWS][COLS], im[ROWS][COLS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < COLS; ++c) {
        re[r][c] = density[2 * ((i + r) * size + j + c)];
        im[r][c] = density[2 * ((i + r) * size + j + c) + 1];
      }
    for (int64_t t = 0; t < count; ++t) {
      const V* x = strip + 2 * t * size;
#pragma GCC unroll 4
      for (int c = 0; c < COLS; ++c) {
        const V yr = x[2 * (j + c)], yi = x[2 * (j + c) + 1];
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; ++r) {
          const V xr = x[2 * (i + r)], xi = x[2 * (i + r) + 1];
          re[r][c] += xr * yr;
          re[r][c] += xi * yi;
          im[r][c] += xi * yr;
          im[r][c] -= xr * yi;
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < COLS; ++c) {
        density[2 * ((i + r) * size + j + c)] = re[r][c];
        density[2 * ((i + r) * size + j + c) + 1] = im[r][c];
      }
  }

  static void Reduce(const ReducedView& view, const T* psi, int64_t first, int64_t end,
                     T* density_) {
    const int size = 1 << view.qubits;
    const int64_t most = kStripGroups / size;
    V* density = reinterpret_cast<V*>(density_);
    V strip[2 * kStripGroups];
    for (int64_t tuple = first; tuple < end; tuple += most) {
      const int64_t count = end - tuple < most ? end - tuple : most;
      Pack(view, reinterpret_cast<const V*>(psi), tuple, count, strip);
      for (int i = 0; i < size; i += kRowsAtOnce)
        for (int j = i / 4 * 4; j < size; j += 4)  // from the diagonal
          AddProducts<kRowsAtOnce, 4>(strip, count, size, i, j, density);
    }
  }

  // Rows [i, i + 4) of matrix times the tuples [t, t + TUPLES) of a strip.
  template <int TUPLES>
  static void Multiply(const ReducedView& view, const V* matrix, const V* strip, int64_t t, int i,
                       V* const* out) {
    const int size = 1 << view.qubits;
    V re[TUPLES][4] = {}, im[TUPLES][4] = {};
    const V *u = matrix + 2 * i * size, *x = strip + 2 * t * size;
    for (int j = 0; j < size; ++j) {
      V xr[TUPLES], xi[TUPLES];
#pragma GCC unroll 4
      for (int n = 0; n < TUPLES; ++n) {
        xr[n] = x[2 * (n * size + j)];
        xi[n] = x[2 * (n * size + j) + 1];
      }
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        const V ur = u[2 * (r * size + j)], ui = u[2 * (r * size + j) + 1];
#pragma GCC unroll 4
        for (int n = 0; n < TUPLES; ++n) {
          re[n][r] += ur * xr[n];
          im[n][r] += ur * xi[n];
          re[n][r] -= ui * xi[n];
          im[n][r] += ui * xr[n];
        }
      }
    }
#pragma GCC unroll 4
    for (int n = 0; n < TUPLES; ++n)
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        V* to = out[t + n] + 2 * view.rows[i + r];
        to[0] = re[n][r];
        to[1] = im[n][r];
      }
  }

  static void Apply(const ReducedView& view, const T* matrix_, const T* psi, T* lambda,
                    int64_t first, int64_t end) {
    const int size = 1 << view.qubits;
    const int64_t most = kStripGroups / size;
    const V* matrix = reinterpret_cast<const V*>(matrix_);
    V strip[2 * kStripGroups];
    V* out[kStripGroups / 4];
    for (int64_t tuple = first; tuple < end; tuple += most) {
      const int64_t count = end - tuple < most ? end - tuple : most;
      Pack(view, reinterpret_cast<const V*>(psi), tuple, count, strip);
      for (int64_t t = 0; t < count; ++t)
        out[t] = reinterpret_cast<V*>(lambda) + 2 * FirstGroup(view, tuple + t);
      for (int i = 0; i < size; i += 4) {
        int64_t t = 0;
        for (; t + kTuplesAtOnce <= count; t += kTuplesAtOnce)
          Multiply<kTuplesAtOnce>(view, matrix, strip, t, i, out);
        for (; t < count; ++t) Multiply<1>(view, matrix, strip, t, i, out);
      }
    }
  }
};

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_REDUCED_KERNELS_H_
