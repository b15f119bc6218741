// Blocks of one or two qubits applied to the groups of one chunk, and their gradients. Included by
// kernels.cc only; see kernels.h for groups, tuples and rows.
#ifndef QFLEET_BLOCK_KERNELS_H_
#define QFLEET_BLOCK_KERNELS_H_

#include "cpu/kernels.h"
#include "cpu/lane_sums.h"
#include "cpu/vector_types.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

template <class T>
struct BlockKernels : VectorTypes<T> {
  using typename VectorTypes<T>::V;
  using typename VectorTypes<T>::I;
  using VectorTypes<T>::kLanes;
  using VectorTypes<T>::LaneXorIndices;
  using VectorTypes<T>::Shuffle;

  static constexpr int kStripTuples = 16;  // tuples that stay in L1 between two passes
  // Tuples after which sums of T are added to sums of double: the groups of a chunk.
  static constexpr int64_t kFlushTuples = kChunkBytes / (2 * QFLEET_BYTES);
  // Rows whose sums are held in registers at once: 16 sums where there are 32 registers.
  static constexpr int kRowsAtOnce = QFLEET_BYTES == 64 ? 2 : 1;
  static constexpr int kTuplesAtOnce = QFLEET_BYTES == 64 ? 2 : 1;  // likewise

  // The first group of a tuple: the tuple's index with a zero inserted at each of the block's bits.
  template <int ROWS>
  static int64_t FirstGroup(const BlockKernel& kernel, int64_t tuple) {
    if constexpr (ROWS == 1) return tuple;
    int64_t group =
        ((tuple >> kernel.low) << (kernel.low + 1)) | (tuple & ((int64_t{1} << kernel.low) - 1));
    if constexpr (ROWS == 4)
      group = ((group >> kernel.high) << (kernel.high + 1)) |
              (group & ((int64_t{1} << kernel.high) - 1));
    return group;
  }

  // The block's bits of the group index.
  template <int ROWS>
  static int64_t BlockBits(const BlockKernel& kernel) {
    return (ROWS > 1 ? int64_t{1} << kernel.low : 0) | (ROWS > 2 ? int64_t{1} << kernel.high : 0);
  }

  // The first group of the next tuple. Few instructions: others than multiply-adds take their
  // place in the processor, too.
  static int64_t NextGroup(int64_t block_bits, int64_t first) {
    return ((first | block_bits) + 1) & ~block_bits;
  }

  // The inputs of a tuple: each group, in each order of its lanes.
  template <int ROWS, int COLS>
  struct Inputs {
    V re[COLS], im[COLS];

    Inputs(const BlockKernel& kernel, const V* state, int64_t first, const I* lane_order) {
      constexpr int kPatterns = COLS / ROWS;
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r) {
        const V* at = state + 2 * (first + kernel.offset[r]);
        re[r * kPatterns] = at[0];
        im[r * kPatterns] = at[1];
#pragma GCC unroll 4
        for (int d = 1; d < kPatterns; ++d) {
          re[r * kPatterns + d] = Shuffle(at[0], lane_order[d]);
          im[r * kPatterns + d] = Shuffle(at[1], lane_order[d]);
        }
      }
    }
  };

  // Several tuples at once, so that each matrix entry is loaded once for all.
  template <int ROWS, int COLS, int TUPLES, bool ADD, bool REAL>
  __attribute__((always_inline)) static void ApplyTuples(const BlockKernel& kernel, const V* u,
                                                         const V* in, V* out, int64_t block_bits,
                                                         int64_t* group, const I* lane_order) {
    if constexpr (!ADD) in = out;  // lets the compiler share their addresses
    int64_t first[TUPLES];
    V xr[TUPLES][COLS], xi[TUPLES][COLS];
#pragma GCC unroll 4
    for (int n = 0; n < TUPLES; ++n) {
      first[n] = *group;
      *group = NextGroup(block_bits, *group);
      const Inputs<ROWS, COLS> x(kernel, in, first[n], lane_order);
#pragma GCC unroll 4
      for (int j = 0; j < COLS; ++j) {
        xr[n][j] = x.re[j];
        xi[n][j] = x.im[j];
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) {
      V re[TUPLES], im[TUPLES];
#pragma GCC unroll 4
      for (int n = 0; n < TUPLES; ++n) {
        const V* at = out + 2 * (first[n] + kernel.offset[r]);
        re[n] = ADD ? at[0] : V{};
        im[n] = ADD ? at[1] : V{};
      }
#pragma GCC unroll 4
      for (int j = 0; j < COLS; ++j) {
        const V ur = u[2 * (r * COLS + j)], ui = u[2 * (r * COLS + j) + 1];
#pragma GCC unroll 4
        for (int n = 0; n < TUPLES; ++n) {
          re[n] += ur * xr[n][j];
          im[n] += ur * xi[n][j];
          if constexpr (REAL) continue;
          re[n] -= ui * xi[n][j];
          im[n] += ui * xr[n][j];
        }
      }
#pragma GCC unroll 4
      for (int n = 0; n < TUPLES; ++n) {
        V* at = out + 2 * (first[n] + kernel.offset[r]);
        at[0] = re[n];
        at[1] = im[n];
      }
    }
  }

  template <int ROWS, int COLS, bool ADD, bool REAL>
  static void ApplyDense(const BlockKernel& kernel, const void* matrix, const V* in, V* out,
                         int64_t from, int64_t to, const I* lane_order) {
    const V* u = static_cast<const V*>(matrix);
    const int64_t bits = BlockBits<ROWS>(kernel);
    int64_t tuple = from, group = FirstGroup<ROWS>(kernel, from);
    for (; tuple + kTuplesAtOnce <= to; tuple += kTuplesAtOnce)
      ApplyTuples<ROWS, COLS, kTuplesAtOnce, ADD, REAL>(kernel, u, in, out, bits, &group,
                                                        lane_order);
    for (; tuple < to; ++tuple)
      ApplyTuples<ROWS, COLS, 1, ADD, REAL>(kernel, u, in, out, bits, &group, lane_order);
  }

  // Input j of the tuple at `base`: a group, in one order of its lanes.
  template <int ROWS, int COLS>
  static void Input(const BlockKernel& kernel, const V* base, int j, const I* lane_order, V* re,
                    V* im) {
    constexpr int kPatterns = COLS / ROWS;
    const V* at = base + 2 * kernel.offset[j / kPatterns];
    *re = at[0];
    *im = at[1];
    if (kPatterns > 1 && j % kPatterns) {
      *re = Shuffle(*re, lane_order[j % kPatterns]);
      *im = Shuffle(*im, lane_order[j % kPatterns]);
    }
  }

  // Applies CNOT or SWAP on any qubits without arithmetic; returns false for other permutations.
  template <int ROWS, int COLS>
  static bool Permute(const BlockKernel& kernel, const V* u, V* state, int64_t from, int64_t to,
                      const I* lane_order) {
    constexpr int kPatterns = COLS / ROWS;
    const int first = kernel.active_row[0], d = kernel.input[0][0] % kPatterns;
    const int64_t bits = BlockBits<ROWS>(kernel);
    int64_t group = FirstGroup<ROWS>(kernel, from);
    if (kernel.active_rows == 1 && kernel.terms[0] == 1) {  // within one group
      for (int64_t tuple = from; tuple < to; ++tuple, group = NextGroup(bits, group)) {
        V* at = state + 2 * (group + kernel.offset[first]);
        at[0] = Shuffle(at[0], lane_order[d]);
        at[1] = Shuffle(at[1], lane_order[d]);
      }
      return true;
    }
    if (kernel.active_rows != 2) return false;
    const int second = kernel.active_row[1];
    for (int i = 0; i < 2; ++i)
      for (int term = 0; term < kernel.terms[i]; ++term)
        if (kernel.input[i][term] != first * kPatterns &&
            kernel.input[i][term] != second * kPatterns)
          return false;
    // Swap two groups, on all lanes or on some.
    const I swap_mask =
        u[2 * (first * COLS + second * kPatterns)] > T(0.5);  // entries are 0 or 1, up to rounding
    const bool all_lanes = kernel.terms[0] == 1 && kernel.input[0][0] == second * kPatterns;
    for (int64_t tuple = from; tuple < to; ++tuple, group = NextGroup(bits, group)) {
      V* base = state + 2 * group;
      V *x = base + 2 * kernel.offset[first], *y = base + 2 * kernel.offset[second];
      const V xr = x[0], xi = x[1], yr = y[0], yi = y[1];
      x[0] = all_lanes ? yr : (swap_mask ? yr : xr);
      x[1] = all_lanes ? yi : (swap_mask ? yi : xi);
      y[0] = all_lanes ? xr : (swap_mask ? xr : yr);
      y[1] = all_lanes ? xi : (swap_mask ? xi : yi);
    }
    return true;
  }

  template <int ROWS, int COLS, bool ADD>
  static void ApplySparse(const BlockKernel& kernel, const void* matrix, const V* in, V* out,
                          int64_t from, int64_t to, const I* lane_order) {
    if constexpr (!ADD) in = out;
    const V* u = static_cast<const V*>(matrix);
    if (!ADD && kernel.is_permutation && Permute<ROWS, COLS>(kernel, u, out, from, to, lane_order))
      return;
    const int64_t bits = BlockBits<ROWS>(kernel);
    int64_t first = FirstGroup<ROWS>(kernel, from);
    for (int64_t tuple = from; tuple < to; ++tuple, first = NextGroup(bits, first)) {
      V rows[ROWS][2];
      for (int i = 0; i < kernel.active_rows; ++i) {
        const int r = kernel.active_row[i];
        V re = {}, im = {};
        for (int term = 0; term < kernel.terms[i]; ++term) {
          const int j = kernel.input[i][term];
          V xr, xi;
          Input<ROWS, COLS>(kernel, in + 2 * first, j, lane_order, &xr, &xi);
          const V ur = u[2 * (r * COLS + j)], ui = u[2 * (r * COLS + j) + 1];
          re += ur * xr - ui * xi;
          im += ur * xi + ui * xr;
        }
        rows[i][0] = re;
        rows[i][1] = im;
      }
      for (int i = 0; i < kernel.active_rows; ++i) {
        V* at = out + 2 * (first + kernel.offset[kernel.active_row[i]]);
        at[0] = ADD ? at[0] + rows[i][0] : rows[i][0];
        at[1] = ADD ? at[1] + rows[i][1] : rows[i][1];
      }
    }
  }

  // Applies a matrix of the block to these tuples of a state, in place.
  template <int ROWS, int COLS>
  static void Apply(const BlockKernel& kernel, const void* matrix, V* state, int64_t from,
                    int64_t to, const I* lane_order) {
    if (kernel.sparse)
      ApplySparse<ROWS, COLS, false>(kernel, matrix, state, state, from, to, lane_order);
    else if (kernel.is_real)
      ApplyDense<ROWS, COLS, false, true>(kernel, matrix, state, state, from, to, lane_order);
    else
      ApplyDense<ROWS, COLS, false, false>(kernel, matrix, state, state, from, to, lane_order);
  }

  // out += matrix in, for another state `in`.
  template <int ROWS, int COLS>
  static void AddApplied(const BlockKernel& kernel, const void* matrix, const V* in, V* out,
                         int64_t from, int64_t to, const I* lane_order) {
    if (kernel.sparse)
      ApplySparse<ROWS, COLS, true>(kernel, matrix, in, out, from, to, lane_order);
    else
      ApplyDense<ROWS, COLS, true, false>(kernel, matrix, in, out, from, to, lane_order);
  }

  // gradients[r][j] += in[j] conj(lambda[r]), summed over the tuples.
  template <int ROWS, int COLS>
  static void DenseGradient(const BlockKernel& kernel, const V* psi, const V* lambda, int64_t from,
                            int64_t to, const I* lane_order, V* gradients) {
    constexpr int kRows = ROWS < kRowsAtOnce ? ROWS : kRowsAtOnce;
    const int64_t bits = BlockBits<ROWS>(kernel);
    for (int r0 = 0; r0 < ROWS; r0 += kRows) {
      V re[kRows][COLS], im[kRows][COLS];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int j = 0; j < COLS; ++j) {
          re[r][j] = gradients[2 * ((r0 + r) * COLS + j)];
          im[r][j] = gradients[2 * ((r0 + r) * COLS + j) + 1];
        }
      int64_t first = FirstGroup<ROWS>(kernel, from);
      for (int64_t tuple = from; tuple < to; ++tuple, first = NextGroup(bits, first)) {
        const Inputs<ROWS, COLS> in(kernel, psi, first, lane_order);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          const V* at = lambda + 2 * (first + kernel.offset[r0 + r]);
          const V lr = at[0], li = at[1];
#pragma GCC unroll 4
          for (int j = 0; j < COLS; ++j) {
            re[r][j] += in.re[j] * lr;
            re[r][j] += in.im[j] * li;
            im[r][j] += in.im[j] * lr;
            im[r][j] -= in.re[j] * li;
          }
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int j = 0; j < COLS; ++j) {
          gradients[2 * ((r0 + r) * COLS + j)] = re[r][j];
          gradients[2 * ((r0 + r) * COLS + j) + 1] = im[r][j];
        }
    }
  }

  template <int ROWS, int COLS>
  static void SparseGradient(const BlockKernel& kernel, const V* psi, const V* lambda, int64_t from,
                             int64_t to, const I* lane_order, V* gradients) {
    const int64_t bits = BlockBits<ROWS>(kernel);
    for (int i = 0; i < kernel.active_rows; ++i) {
      const int r = kernel.active_row[i];
      for (int term = 0; term < kernel.gradient_terms[i]; ++term) {
        const int j = kernel.gradient_input[i][term];
        V re = gradients[2 * (r * COLS + j)], im = gradients[2 * (r * COLS + j) + 1];
        int64_t first = FirstGroup<ROWS>(kernel, from);
        for (int64_t tuple = from; tuple < to; ++tuple, first = NextGroup(bits, first)) {
          V xr, xi;
          Input<ROWS, COLS>(kernel, psi + 2 * first, j, lane_order, &xr, &xi);
          const V* l = lambda + 2 * (first + kernel.offset[r]);
          re += xr * l[0] + xi * l[1];
          im += xi * l[0] - xr * l[1];
        }
        gradients[2 * (r * COLS + j)] = re;
        gradients[2 * (r * COLS + j) + 1] = im;
      }
    }
  }

  template <int ROWS, int COLS>
  static void AddGradient(const BlockKernel& kernel, const V* psi, const V* lambda, int64_t from,
                          int64_t to, const I* lane_order, V* gradients) {
    if (kernel.sparse)
      SparseGradient<ROWS, COLS>(kernel, psi, lambda, from, to, lane_order, gradients);
    else
      DenseGradient<ROWS, COLS>(kernel, psi, lambda, from, to, lane_order, gradients);
  }

  // Adds sums per lane of all samples to sums in double, where a row is the same in all lanes.
  static void ReduceSamples(const BlockKernel& kernel, const V* gradients, double* sums) {
    const int size = kernel.cols;
    for (int at = 0; at < 2 * kernel.rows * size; at += LaneSums<T>::kAtOnce) {
      const auto parts = LaneSums<T>::Of(gradients + at);
      for (int i = 0; i < LaneSums<T>::kAtOnce; ++i) {
        const int entry = (at + i) / 2, r = entry / size, j = entry % size;
        sums[2 * (kernel.col[j][0] * size + kernel.row[r][0]) + (at + i) % 2] += parts[i];
      }
    }
  }

  // Adds sums per lane to sums in double, per sample or of all.
  static void ReduceLanes(const BlockKernel& kernel, const V* gradients, double* sums,
                          int32_t samples) {
    const int size = kernel.cols;  // D
    const int32_t kept = kernel.per_example ? samples : 1;
    if (samples == kLanes && kept == 1) return ReduceSamples(kernel, gradients, sums);
    for (int r = 0; r < kernel.rows; ++r)
      for (int j = 0; j < kernel.cols; ++j)
        for (int part = 0; part < 2; ++part) {
          const T* from = reinterpret_cast<const T*>(&gradients[2 * (r * kernel.cols + j) + part]);
          if (samples == kLanes) {
            double* to = sums + (2 * (kernel.col[j][0] * size + kernel.row[r][0]) + part) * kept;
            for (int lane = 0; lane < kLanes; ++lane) to[lane] += static_cast<double>(from[lane]);
            continue;
          }
          for (int lane = 0; lane < kLanes; ++lane) {
            const int entry = kernel.col[j][lane] * size + kernel.row[r][lane];
            sums[(2 * entry + part) * kept + (lane & (kept - 1))] +=
                static_cast<double>(from[lane]);
          }
        }
  }

  // The order of a group's lanes in each input of the block.
  template <int ROWS, int COLS>
  struct LaneOrders {
    I order[4];
    explicit LaneOrders(const BlockKernel& kernel) {
      for (int d = 0; d < COLS / ROWS; ++d) order[d] = LaneXorIndices(kernel.lane_xor[d]);
    }
  };

  template <int ROWS, int COLS>
  static void ForwardBlock(const BlockKernel& kernel, V* state) {
    const LaneOrders<ROWS, COLS> lanes(kernel);
    Apply<ROWS, COLS>(kernel, kernel.matrix, state, 0, kernel.groups / ROWS, lanes.order);
  }

  template <int ROWS, int COLS>
  static void BackwardBlock(const BlockKernel& kernel, V* psi, V* lambda, double* sums,
                            int32_t samples) {
    if (!kernel.needs_gradient && !kernel.needs_uncompute) return;
    const LaneOrders<ROWS, COLS> lanes(kernel);
    V gradients[2 * ROWS * COLS] = {};
    const int64_t tuples = kernel.groups / ROWS;
    for (int64_t from = 0; from < tuples; from += kStripTuples) {
      const int64_t to = from + kStripTuples < tuples ? from + kStripTuples : tuples;
      if (kernel.needs_gradient)
        AddGradient<ROWS, COLS>(kernel, psi, lambda, from, to, lanes.order, gradients);
      if (kernel.needs_uncompute) {
        Apply<ROWS, COLS>(kernel, kernel.inverse, psi, from, to, lanes.order);
        Apply<ROWS, COLS>(kernel, kernel.inverse, lambda, from, to, lanes.order);
      }
      if (kernel.needs_gradient && to % kFlushTuples == 0) {
        ReduceLanes(kernel, gradients, sums, samples);
        for (V& sum : gradients) sum = V{};
      }
    }
    if (kernel.needs_gradient) ReduceLanes(kernel, gradients, sums, samples);
  }

  template <int ROWS, int COLS>
  struct Shape {
    static constexpr int kRows = ROWS, kCols = COLS;
  };

  // Calls visit(Shape<rows, cols>()) for the block's shape.
  template <class Visit>
  static void WithShape(const BlockKernel& kernel, const Visit& visit) {
    switch (kernel.rows * 8 + kernel.cols) {
      case 4 * 8 + 4:
        return visit(Shape<4, 4>());
      case 2 * 8 + 4:
        return visit(Shape<2, 4>());
      case 1 * 8 + 4:
        return visit(Shape<1, 4>());
      case 2 * 8 + 2:
        return visit(Shape<2, 2>());
      case 1 * 8 + 2:
        return visit(Shape<1, 2>());
    }
  }

  static void Forward(const BlockKernel& kernel, V* state) {
    WithShape(kernel, [&](auto shape) { ForwardBlock<shape.kRows, shape.kCols>(kernel, state); });
  }

  static void Backward(const BlockKernel& kernel, V* psi, V* lambda, double* sums,
                       int32_t samples) {
    WithShape(kernel, [&](auto shape) {
      BackwardBlock<shape.kRows, shape.kCols>(kernel, psi, lambda, sums, samples);
    });
  }
};

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_BLOCK_KERNELS_H_
