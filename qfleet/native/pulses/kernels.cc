// The kernels of split_kernels.h, compiled once per instruction set.
#include <algorithm>
#include <cstring>

#include "cpu/split_kernels.h"
#include "cpu/vector_types.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

using Types = VectorTypes<double>;
using V = Types::V;

template <class T>
constexpr int kNumbers = sizeof(T) / sizeof(double);

// The part of each run that vectors take, or single numbers behind them.
template <class T>
struct Span {
  explicit Span(int64_t run) {
    const int64_t whole = run / Types::kLanes * Types::kLanes;
    begin = kNumbers<T> > 1 ? 0 : whole;
    end = kNumbers<T> > 1 ? whole : run;
  }
  int64_t begin, end;
};

template <class T>
double Sum(T value) {
  if constexpr (kNumbers<T> == 1) {
    return value;
  } else {
    double total = 0;
    for (int lane = 0; lane < kNumbers<T>; ++lane) total += value[lane];
    return total;
  }
}

template <class T>
T Load(const double* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void Store(T value, double* to) {
  std::memcpy(to, &value, sizeof(T));
}

// A matrix of M rows, or of any number for M = 0, and their places. A copy, which stores of
// amplitudes cannot change, stays in registers.
template <int M>
struct Matrix {
  static constexpr int kRows = M ? M : kMaxSplitRows;

  Matrix(const SplitPlaces& places, const double* from) : count(places.rows) {
    std::copy_n(places.offsets, rows(), offsets);
    std::copy_n(from, 2 * rows() * rows(), numbers);
  }

  int rows() const { return M ? M : count; }

  const int count;
  int64_t offsets[kRows];
  double numbers[2 * kRows * kRows];
};

template <class T, int M>
struct Rows {
  Rows(const Matrix<M>& matrix, const double* from, int64_t stride) {
    for (int r = 0; r < matrix.rows(); ++r) {
      re[r] = Load<T>(from + matrix.offsets[r]);
      im[r] = Load<T>(from + matrix.offsets[r] + stride);
    }
  }

  void StoreProduct(const Matrix<M>& matrix, double* to, int64_t stride) const {
    for (int r = 0; r < matrix.rows(); ++r) {
      const double* row = matrix.numbers + 2 * r * matrix.rows();
      T real = row[0] * re[0], cross_real = row[1] * im[0];
      T imaginary = row[0] * im[0], cross_imaginary = row[1] * re[0];
      for (int c = 1; c < matrix.rows(); ++c) {
        real += row[2 * c] * re[c];
        cross_real += row[2 * c + 1] * im[c];
        imaginary += row[2 * c] * im[c];
        cross_imaginary += row[2 * c + 1] * re[c];
      }
      Store<T>(real - cross_real, to + matrix.offsets[r]);
      Store<T>(imaginary + cross_imaginary, to + matrix.offsets[r] + stride);
    }
  }

  T re[Matrix<M>::kRows], im[Matrix<M>::kRows];
};

// Calls visit(first amplitude) for the vectors of all runs.
template <class T, class Visit>
void ForEachVector(const SplitPlaces& places, const Visit& visit) {
  const Span<T> span(places.run);
  const int64_t* end = places.bases + places.base_count;
  for (const int64_t* base = places.bases; base != end; ++base)
    for (int64_t i = span.begin; i < span.end; i += kNumbers<T>) visit(*base + i);
}

template <class T, int M>
void ApplySpan(const SplitPlaces& places, const double* numbers, double* state, int64_t stride) {
  const Matrix<M> matrix(places, numbers);
  ForEachVector<T>(places, [&](int64_t at) {
    Rows<T, M>(matrix, state + at, stride).StoreProduct(matrix, state + at, stride);
  });
}

template <class T, int M>
void BackSpan(const SplitPlaces& places, const double* numbers, double* states, int64_t stride,
              double* seeds) {
  const Matrix<M> matrix(places, numbers);
  const int rows = matrix.rows();
  T sums[2 * Matrix<M>::kRows * Matrix<M>::kRows];
  for (int i = 0; i < 2 * rows * rows; ++i) sums[i] = T{};
  ForEachVector<T>(places, [&](int64_t at) {
    double *state = states + at, *behind = state + 2 * stride;
    const Rows<T, M> psi(matrix, state, stride), derivative(matrix, behind, stride);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < rows; ++c) {
        T* sum = sums + 2 * (r * rows + c);
        sum[0] += derivative.re[r] * psi.re[c] + derivative.im[r] * psi.im[c];
        sum[1] += derivative.im[r] * psi.re[c] - derivative.re[r] * psi.im[c];
      }
    psi.StoreProduct(matrix, state, stride);
    derivative.StoreProduct(matrix, behind, stride);
  });
  for (int i = 0; i < 2 * rows * rows; ++i) seeds[i] += Sum<T>(sums[i]);
}

// Calls run(T) with the types of numbers that a run has.
template <class Run>
void ForEachType(const SplitPlaces& places, const Run& run) {
  if (places.run >= Types::kLanes) run(V{});
  if (places.run % Types::kLanes) run(double{});
}

template <int M>
void ApplyRows(const SplitPlaces& places, const double* matrix, double* state, int64_t stride) {
  ForEachType(places,
              [&](auto type) { ApplySpan<decltype(type), M>(places, matrix, state, stride); });
}

template <int M>
void BackRows(const SplitPlaces& places, const double* matrix, double* states, int64_t stride,
              double* seeds) {
  ForEachType(places, [&](auto type) {
    BackSpan<decltype(type), M>(places, matrix, states, stride, seeds);
  });
}

void Apply(const SplitPlaces& places, const double* matrix, double* state, int64_t stride) {
  switch (places.rows) {
    case 1:
      return ApplyRows<1>(places, matrix, state, stride);
    case 2:
      return ApplyRows<2>(places, matrix, state, stride);
    case 3:
      return ApplyRows<3>(places, matrix, state, stride);
    case 4:
      return ApplyRows<4>(places, matrix, state, stride);
    default:
      return ApplyRows<0>(places, matrix, state, stride);
  }
}

void ApplyBack(const SplitPlaces& places, const double* matrix, double* states, int64_t stride,
               double* seeds) {
  switch (places.rows) {
    case 1:
      return BackRows<1>(places, matrix, states, stride, seeds);
    case 2:
      return BackRows<2>(places, matrix, states, stride, seeds);
    case 3:
      return BackRows<3>(places, matrix, states, stride, seeds);
    case 4:
      return BackRows<4>(places, matrix, states, stride, seeds);
    default:
      return BackRows<0>(places, matrix, states, stride, seeds);
  }
}

void SwapLanes(int64_t low, int64_t high, double* reals, int64_t size) {
  using I = Types::I;
  const I order = Types::LaneXorIndices(static_cast<int32_t>(low));
  I set = {};
  for (int lane = 0; lane < Types::kLanes; ++lane) set[lane] = lane & low ? -1 : 0;
  for (int64_t base = 0; base < size; base += 2 * high)
    for (double* at = reals + base; at < reals + base + high; at += Types::kLanes) {
      const V first = Load<V>(at), second = Load<V>(at + high);
      const I moved_first = (I)Types::Shuffle(first, order);
      const I moved_second = (I)Types::Shuffle(second, order);
      Store<V>((V)((moved_second & set) | ((I)first & ~set)), at);
      Store<V>((V)(((I)second & set) | (moved_first & ~set)), at + high);
    }
}

void Swap(int64_t low, int64_t high, double* reals, int64_t size) {
  if (low < Types::kLanes) return SwapLanes(low, high, reals, size);
  for (int64_t base = 0; base < size; base += 2 * high)
    for (double* at = reals + base; at < reals + base + high; at += 2 * low)
      std::swap_ranges(at + low, at + 2 * low, at + high);
}

}  // namespace

extern const SplitKernels kSplit;
const SplitKernels kSplit = {Types::kLanes, Apply, ApplyBack, Swap};

}  // namespace QFLEET_SET
}  // namespace qfleet
