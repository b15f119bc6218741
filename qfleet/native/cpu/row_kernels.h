// Products of square matrices whose rows are vectors. Included by kernels.cc only.
#ifndef QFLEET_ROW_KERNELS_H_
#define QFLEET_ROW_KERNELS_H_

#include "cpu/kernels.h"
#include "cpu/vector_types.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

template <class T>
struct RowKernels : VectorTypes<T> {
  using VectorTypes<T>::kLanes;

  template <int SIZE>
  struct Row {
    static constexpr int kWidth = SIZE < kLanes ? SIZE : kLanes, kVectors = SIZE / kWidth;
    typedef T V __attribute__((vector_size(kWidth * sizeof(T)), may_alias));
    typedef T InMemory
        __attribute__((vector_size(kWidth * sizeof(T)), may_alias, aligned(sizeof(T))));
  };

  template <int SIZE>
  static void MultiplyOfSize(const T* a, bool adjoint, const T* b, T* out) {
    using V = typename Row<SIZE>::V;
    using InMemory = typename Row<SIZE>::InMemory;
    constexpr int kWidth = Row<SIZE>::kWidth, kVectors = Row<SIZE>::kVectors;
    for (int i = 0; i < SIZE; ++i) {
      // Separate sums: each waits for its own last addition only.
      V re_by_re[kVectors] = {}, im_by_im[kVectors] = {};
      V re_by_im[kVectors] = {}, im_by_re[kVectors] = {};
      for (int k = 0; k < SIZE; ++k) {
        const T x = a[adjoint ? 2 * k * SIZE + i : 2 * i * SIZE + k];
        const T part = a[adjoint ? (2 * k + 1) * SIZE + i : (2 * i + 1) * SIZE + k];
        const T y = adjoint ? -part : part;
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          const T* row = b + 2 * k * SIZE + v * kWidth;
          const V re = *reinterpret_cast<const InMemory*>(row);
          const V im = *reinterpret_cast<const InMemory*>(row + SIZE);
          re_by_re[v] += x * re;
          im_by_im[v] += y * im;
          re_by_im[v] += x * im;
          im_by_re[v] += y * re;
        }
      }
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        T* row = out + 2 * i * SIZE + v * kWidth;
        *reinterpret_cast<InMemory*>(row) += re_by_re[v] - im_by_im[v];
        *reinterpret_cast<InMemory*>(row + SIZE) += re_by_im[v] + im_by_re[v];
      }
    }
  }

  static void Multiply(int64_t size, const T* a, bool adjoint, const T* b, T* out) {
    if (size == 4) return MultiplyOfSize<4>(a, adjoint, b, out);
    if (size == 8) return MultiplyOfSize<8>(a, adjoint, b, out);
    if (size == 16) return MultiplyOfSize<16>(a, adjoint, b, out);
    MultiplyOfSize<32>(a, adjoint, b, out);
  }
};
static_assert(kMaxReducedQubits == 5);

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_ROW_KERNELS_H_
