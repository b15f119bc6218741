// Kernels on density matrices as vectors of Pauli coefficients. Included by kernels.cc only.
#ifndef QFLEET_DENSITY_KERNELS_H_
#define QFLEET_DENSITY_KERNELS_H_

#include <algorithm>
#include <cstdint>

#include "cpu/kernels.h"
#include "cpu/vector_types.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

template <class T>
struct DensityKernels : VectorTypes<T> {
  using typename VectorTypes<T>::V;
  using typename VectorTypes<T>::I;
  using VectorTypes<T>::kLanes;

  // Digits in a vector of one example: as many lowest digits as fill it, or none.
  static constexpr int kLaneDigits = kLanes == 16 ? 2 : kLanes == 4 ? 1 : 0;

  // Columns whose sums are added up in registers.
  static constexpr int kColumns = 8;
  // Columns after which sums of T are added to sums of double.
  static constexpr int64_t kFlushColumns = 256;

  // The offset of group g, which has 0 in the block's digits.
  static int64_t Base(const DensityView& view, int64_t group) {
    const int64_t low = group & ((int64_t{1} << view.low_bits) - 1);
    int64_t rest = group >> view.low_bits;
    if (view.size == 4) return low | rest << (view.low_bits + 2);
    const int64_t middle = rest & ((int64_t{1} << view.middle_bits) - 1);
    rest >>= view.middle_bits;
    return low | middle << (view.low_bits + 2) | rest << (view.low_bits + view.middle_bits + 4);
  }

  // Calls visit(row, value) with pointers to the reals of a column. A column is one group of as
  // many examples as lanes, or as many groups of one example.
  template <int SIZE, class Visit>
  static void ForEachReal(const DensityView& view, int64_t column, const Visit& visit) {
    const int64_t first = column * kLanes;
    const int64_t present = std::min<int64_t>(kLanes, view.groups - first);
    for (int64_t lane = 0; lane < present; ++lane) {
      const int64_t base = Base(view, first + lane);
      for (int row = 0; row < SIZE; ++row) visit(row, lane, base + view.rows[row]);
    }
  }

  static bool IsContiguous(const DensityView& view) {
    return view.samples > 1 || (int64_t{1} << view.low_bits) >= kLanes;
  }

  static int64_t ContiguousOffset(const DensityView& view, int64_t column) {
    return view.samples > 1 ? Base(view, column) * view.samples : Base(view, column * kLanes);
  }

  // True if the column of a block with digits in the lanes is whole vectors of other groups, whose
  // lanes and rows change places.
  static bool IsTurnable(const DensityView& view) {
    return kLaneDigits > 0 && view.groups >= kLanes;
  }

  // True if all digits of a block of two are in the lanes.
  template <int SIZE>
  static bool IsInLanes(const DensityView& view) {
    return SIZE == 16 && view.low_bits + view.middle_bits + 2 < 2 * kLaneDigits;
  }

  // For a bit of the lanes: x takes the lanes of y without the bit, in place of its own with it.
  template <int32_t BIT>
  static void Exchange(V* x, V* y) {
    const I order = VectorTypes<T>::LaneXorIndices(BIT);
    const auto is_set = (order & BIT) == 0;
    const V from_y = VectorTypes<T>::Shuffle(*y, order);
    const V from_x = VectorTypes<T>::Shuffle(*x, order);
    *x = is_set ? from_y : *x;
    *y = is_set ? *y : from_x;
  }

  // Exchanges the digit of the lanes at BIT with the numbers of four vectors, `step` apart.
  template <int32_t BIT>
  static void Turn(int step, V* vectors) {
    Exchange<BIT>(vectors, vectors + step);
    Exchange<BIT>(vectors + 2 * step, vectors + 3 * step);
    Exchange<2 * BIT>(vectors, vectors + 2 * step);
    Exchange<2 * BIT>(vectors + step, vectors + 3 * step);
  }

  // The vectors of a column as they are in memory become rows, and rows such vectors.
  template <int SIZE>
  static void TurnRows(const DensityView& view, V* vectors) {
    const bool first = view.low_bits == 0 || IsInLanes<SIZE>(view);
    for (int row = 0; row < SIZE && first; row += 4) Turn<1>(1, vectors + row);
    for (int row = 0; row < SIZE && !first; row += 4) Turn<4>(1, vectors + row);
    if constexpr (SIZE == 16)  // exchanges of different digits commute
      for (int row = 0; row < 4 && IsInLanes<SIZE>(view); ++row) Turn<4>(4, vectors + row);
  }

  // The row of vector i of a turnable column, whose lower digit counts first. It may be the
  // matrix's upper digit.
  template <int SIZE>
  static int RowOf(const DensityView& view, int i) {
    return SIZE == 16 && view.rows[4] < view.rows[1] ? i % 4 * 4 + i / 4 : i;
  }

  // Where vector i of a turnable column is.
  template <int SIZE>
  static int64_t VectorOffset(const DensityView& view, int64_t column, int i) {
    if (IsInLanes<SIZE>(view)) return Base(view, column * kLanes + i);
    // Groups count digits of lanes that are not the block's first.
    return Base(view, column * kLanes + i % 4 * (kLanes / 4)) +
           view.rows[RowOf<SIZE>(view, i / 4 * 4)];
  }

  template <int SIZE>
  static void Load(const DensityView& view, const T* state, int64_t column, V* to, int stride) {
    if (IsContiguous(view)) {
      const T* from = state + ContiguousOffset(view, column);
      for (int row = 0; row < SIZE; ++row)
        to[row * stride] = *reinterpret_cast<const V*>(from + view.rows[row] * view.samples);
      return;
    }
    if (IsTurnable(view)) {
      V vectors[SIZE];
      for (int i = 0; i < SIZE; ++i)
        vectors[i] = *reinterpret_cast<const V*>(state + VectorOffset<SIZE>(view, column, i));
      TurnRows<SIZE>(view, vectors);
      for (int i = 0; i < SIZE; ++i) to[RowOf<SIZE>(view, i) * stride] = vectors[i];
      return;
    }
    for (int row = 0; row < SIZE; ++row) to[row * stride] = V{};
    ForEachReal<SIZE>(view, column, [&](int row, int64_t lane, int64_t at) {
      to[row * stride][lane] = state[at];
    });
  }

  template <int SIZE>
  static void Store(const DensityView& view, T* state, int64_t column, const V* from) {
    if (IsContiguous(view)) {
      T* to = state + ContiguousOffset(view, column);
      for (int row = 0; row < SIZE; ++row)
        *reinterpret_cast<V*>(to + view.rows[row] * view.samples) = from[row];
      return;
    }
    if (IsTurnable(view)) {
      V vectors[SIZE];
      for (int i = 0; i < SIZE; ++i) vectors[i] = from[RowOf<SIZE>(view, i)];
      TurnRows<SIZE>(view, vectors);
      for (int i = 0; i < SIZE; ++i)
        *reinterpret_cast<V*>(state + VectorOffset<SIZE>(view, column, i)) = vectors[i];
      return;
    }
    ForEachReal<SIZE>(view, column,
                      [&](int row, int64_t lane, int64_t at) { state[at] = from[row][lane]; });
  }

  // A matrix entry of all lanes.
  template <bool PER_SAMPLE>
  static V Entry(const T* matrix, int at) {
    if constexpr (PER_SAMPLE)
      return *reinterpret_cast<const V*>(matrix + at * kLanes);
    else
      return V{} + matrix[at];
  }

  template <int SIZE, bool PER_SAMPLE>
  static void ApplyColumns(const DensityView& view, const T* matrix, const T* from, T* to,
                           int64_t first, int64_t end) {
    for (int64_t column = first; column < end; ++column) {
      V in[SIZE], out[SIZE];
      Load<SIZE>(view, from, column, in, 1);
      for (int row = 0; row < SIZE; row += 4) {
        V sums[4] = {};
        for (int j = 0; j < SIZE; ++j)
          for (int r = 0; r < 4; ++r)
            sums[r] += Entry<PER_SAMPLE>(matrix, (row + r) * SIZE + j) * in[j];
        for (int r = 0; r < 4; ++r) out[row + r] = sums[r];
      }
      Store<SIZE>(view, to, column, out);
    }
  }

  static void Apply(const DensityView& view, const T* matrix, bool per_sample, const T* from, T* to,
                    int64_t first, int64_t end) {
    if (view.size == 4)
      (per_sample ? ApplyColumns<4, true> : ApplyColumns<4, false>)(view, matrix, from, to, first,
                                                                    end);
    else
      (per_sample ? ApplyColumns<16, true> : ApplyColumns<16, false>)(view, matrix, from, to, first,
                                                                      end);
  }

  template <int SIZE>
  static void Flush(const DensityView& view, V* sums, double* out) {
    for (int i = 0; i < SIZE * SIZE; ++i) {
      for (int lane = 0; lane < kLanes; ++lane)
        out[view.samples > 1 ? i * kLanes + lane : i] += sums[i][lane];
      sums[i] = V{};
    }
  }

  template <int SIZE>
  static void CorrelateColumns(const DensityView& view, const T* lambda, const T* before,
                               int64_t first, int64_t end, double* out) {
    V sums[SIZE * SIZE] = {};
    V left[SIZE * kColumns], right[SIZE * kColumns];
    for (int64_t column = first; column < end; column += kColumns) {
      const int count = static_cast<int>(std::min<int64_t>(kColumns, end - column));
      for (int c = 0; c < count; ++c) {
        Load<SIZE>(view, lambda, column + c, left + c, kColumns);
        Load<SIZE>(view, before, column + c, right + c, kColumns);
      }
      for (int i = 0; i < SIZE; i += 4)
        for (int j = 0; j < SIZE; j += 4) {
          V block[16] = {};
          for (int c = 0; c < count; ++c)
            for (int r = 0; r < 4; ++r)
              for (int s = 0; s < 4; ++s)
                block[4 * r + s] += left[(i + r) * kColumns + c] * right[(j + s) * kColumns + c];
          for (int r = 0; r < 4; ++r)
            for (int s = 0; s < 4; ++s) sums[(i + r) * SIZE + j + s] += block[4 * r + s];
        }
      if ((column - first) % kFlushColumns == kFlushColumns - kColumns)
        Flush<SIZE>(view, sums, out);
    }
    Flush<SIZE>(view, sums, out);
  }

  static void Correlate(const DensityView& view, const T* lambda, const T* before, int64_t first,
                        int64_t end, double* out) {
    (view.size == 4 ? CorrelateColumns<4> : CorrelateColumns<16>)(view, lambda, before, first, end,
                                                                  out);
  }
};

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_DENSITY_KERNELS_H_
