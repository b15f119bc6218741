// Pairwise contractions of tensors, one row of the batch per lane. Included by kernels.cc only.
#ifndef QFLEET_CONTRACTION_KERNELS_H_
#define QFLEET_CONTRACTION_KERNELS_H_

#include "cpu/kernels.h"
#include "cpu/vector_types.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

template <class T>
struct ContractionKernels : VectorTypes<T> {
  using typename VectorTypes<T>::V;

  // The sums of ROWS x COLS elements of one group, which stay in registers.
  template <int ROWS, int COLS>
  __attribute__((always_inline)) static void Tile(const Contraction& step, const V* a, const V* b,
                                                  V* out, const int64_t* out_rows,
                                                  const int64_t* out_cols, const int64_t* a_rows,
                                                  const int64_t* b_cols, bool add) {
    V re[ROWS][COLS], im[ROWS][COLS];
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < COLS; ++j) {
        const V* at = out + 2 * (out_rows[i] + out_cols[j]);
        re[i][j] = add ? at[0] : V{};
        im[i][j] = add ? at[1] : V{};
      }
    for (int64_t k = 0; k < step.terms; ++k) {
      const V *from_a = a + 2 * step.a_terms[k], *from_b = b + 2 * step.b_terms[k];
      V br[COLS], bi[COLS];
#pragma GCC unroll 4
      for (int j = 0; j < COLS; ++j) {
        br[j] = from_b[2 * b_cols[j]];
        bi[j] = from_b[2 * b_cols[j] + 1];
      }
#pragma GCC unroll 4
      for (int i = 0; i < ROWS; ++i) {
        const V ar = from_a[2 * a_rows[i]], ai = from_a[2 * a_rows[i] + 1];
#pragma GCC unroll 4
        for (int j = 0; j < COLS; ++j) {
          re[i][j] += ar * br[j];
          im[i][j] += ar * bi[j];
          re[i][j] -= ai * bi[j];
          im[i][j] += ai * br[j];
        }
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < ROWS; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < COLS; ++j) {
        V* at = out + 2 * (out_rows[i] + out_cols[j]);
        at[0] = re[i][j];
        at[1] = im[i][j];
      }
  }

  template <int ROWS, int COLS>
  static void Groups(const Contraction& step, const V* a, const V* b, V* out, bool add) {
    for (int64_t g = 0; g < step.groups; ++g) {
      const V *from_a = a + 2 * step.a_groups[g], *from_b = b + 2 * step.b_groups[g];
      V* to = out + 2 * step.out_groups[g];
      for (int64_t i = 0; i < step.rows; i += ROWS)
        for (int64_t j = 0; j < step.cols; j += COLS)
          Tile<ROWS, COLS>(step, from_a, from_b, to, step.out_rows + i, step.out_cols + j,
                           step.a_rows + i, step.b_cols + j, add);
    }
  }

  template <int COLS>
  static void ByRows(const Contraction& step, const V* a, const V* b, V* out, bool add) {
    if (step.rows >= 4)
      Groups<4, COLS>(step, a, b, out, add);
    else if (step.rows == 2)
      Groups<2, COLS>(step, a, b, out, add);
    else
      Groups<1, COLS>(step, a, b, out, add);
  }

  static void Contract(const Contraction& step, const T* a, const T* b, T* out, bool add) {
    const V *from_a = reinterpret_cast<const V*>(a), *from_b = reinterpret_cast<const V*>(b);
    V* to = reinterpret_cast<V*>(out);
    if (step.cols >= 2)
      ByRows<2>(step, from_a, from_b, to, add);
    else
      ByRows<1>(step, from_a, from_b, to, add);
  }
};

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_CONTRACTION_KERNELS_H_
