// Blocks applied to a state and its tangent, the derivative of the state in one direction. Included
// by kernels.cc only; see kernels.h.
#ifndef QFLEET_TANGENT_KERNELS_H_
#define QFLEET_TANGENT_KERNELS_H_

#include "cpu/block_kernels.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

template <class T>
struct TangentKernels : BlockKernels<T> {
  using Base = BlockKernels<T>;
  using typename Base::I;
  using typename Base::V;
  template <int ROWS, int COLS>
  using LaneOrders = typename Base::template LaneOrders<ROWS, COLS>;

  // d(U x) = U dx + dU x.
  template <int ROWS, int COLS>
  static void ApplyWithTangent(const BlockKernel& kernel, const void* matrix, const void* tangent,
                               V* x, V* dx, int64_t from, int64_t to, const I* lane_order) {
    Base::template Apply<ROWS, COLS>(kernel, matrix, dx, from, to, lane_order);
    if (tangent)
      Base::template AddApplied<ROWS, COLS>(kernel, tangent, x, dx, from, to, lane_order);
    Base::template Apply<ROWS, COLS>(kernel, matrix, x, from, to, lane_order);
  }

  template <int ROWS, int COLS>
  static void ForwardBlock(const BlockKernel& kernel, V* psi, V* dpsi) {
    const LaneOrders<ROWS, COLS> lanes(kernel);
    const int64_t tuples = kernel.groups / ROWS;
    for (int64_t from = 0; from < tuples; from += Base::kStripTuples) {
      const int64_t to = from + Base::kStripTuples < tuples ? from + Base::kStripTuples : tuples;
      ApplyWithTangent<ROWS, COLS>(kernel, kernel.matrix, kernel.tangent, psi, dpsi, from, to,
                                   lanes.order);
    }
  }

  template <int ROWS, int COLS>
  static void BackwardBlock(const BlockKernel& kernel, V* const* states, double* sums,
                            int32_t samples) {
    if (!kernel.needs_gradient && !kernel.needs_uncompute) return;
    V *psi = states[0], *dpsi = states[1], *lambda = states[2], *dlambda = states[3];
    const LaneOrders<ROWS, COLS> lanes(kernel);
    V gradients[2 * ROWS * COLS] = {}, tangents[2 * ROWS * COLS] = {};
    const int64_t tuples = kernel.groups / ROWS;
    for (int64_t from = 0; from < tuples; from += Base::kStripTuples) {
      const int64_t to = from + Base::kStripTuples < tuples ? from + Base::kStripTuples : tuples;
      const auto add = [&](const V* x, const V* y, V* sum) {
        Base::template AddGradient<ROWS, COLS>(kernel, x, y, from, to, lanes.order, sum);
      };
      if (kernel.needs_gradient) {
        add(psi, lambda, gradients);
        add(dpsi, lambda, tangents);
        add(psi, dlambda, tangents);
      }
      if (kernel.needs_uncompute) {
        ApplyWithTangent<ROWS, COLS>(kernel, kernel.inverse, kernel.inverse_tangent, psi, dpsi,
                                     from, to, lanes.order);
        ApplyWithTangent<ROWS, COLS>(kernel, kernel.inverse, kernel.inverse_tangent, lambda,
                                     dlambda, from, to, lanes.order);
      }
    }
    if (!kernel.needs_gradient) return;
    Base::ReduceLanes(kernel, gradients, sums, samples);
    Base::ReduceLanes(kernel, tangents, sums + kBlockSumReals * (kernel.per_example ? samples : 1),
                      samples);
  }

  static void Forward(const BlockKernel& kernel, V* psi, V* dpsi) {
    Base::WithShape(kernel,
                    [&](auto shape) { ForwardBlock<shape.kRows, shape.kCols>(kernel, psi, dpsi); });
  }

  static void Backward(const BlockKernel& kernel, V* const* states, double* sums, int32_t samples) {
    Base::WithShape(kernel, [&](auto shape) {
      BackwardBlock<shape.kRows, shape.kCols>(kernel, states, sums, samples);
    });
  }
};

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_TANGENT_KERNELS_H_
