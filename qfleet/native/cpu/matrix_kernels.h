// Loops over small matrices and the phases that they are made of. Included by kernels.cc only: they
// are short and hot, and use the widest vectors that the machine has.
#ifndef QFLEET_MATRIX_KERNELS_H_
#define QFLEET_MATRIX_KERNELS_H_

#include <cmath>

#include "cpu/kernels.h"
#include "cpu/vector_types.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

struct MatrixLoops : VectorTypes<double> {
  // (-1)^k / n! with k = n / 2: the Taylor coefficients of cosine and sine.
  static constexpr double Coefficient(int n) {
    double factorial = 1;
    for (int i = 2; i <= n; ++i) factorial *= i;
    return (n / 2 % 2 ? -1 : 1) / factorial;
  }
  // pi - M_PI.
  static constexpr double kPiRest = 1.2246467991473532e-16;

  // The upper half of the bits of a number (Veltkamp).
  template <class R>
  static constexpr R UpperHalf(R x) {
    const R scaled = x * 134217729.0;  // 2**27 + 1
    return scaled - (scaled - x);
  }

  // The rounding error of `product` = M_PI x (Dekker).
  static V ProductError(V x, V product) {
    constexpr double kUpper = UpperHalf(M_PI), kLower = M_PI - kUpper;
    const V upper = UpperHalf(x), lower = x - upper;
    return ((upper * kUpper - product) + upper * kLower + lower * kUpper) + lower * kLower;
  }

  // exp(i pi t) of some lanes. The rest of 2 t after rounding is exact, so that multiples of 1/2
  // are; the first terms that are left out are below 1e-19 for |rest| <= 1/4.
  static void Phase(V t, V* cosine, V* sine) {
    constexpr double kRound = 0x1.8p52;  // numbers near it are integers
    const V shifted = 2 * t + kRound;
    const V rest = t - (shifted - kRound) * 0.5, angle = M_PI * rest, z = angle * angle;
    const V error = ProductError(rest, angle) + kPiRest * rest;  // of the angle
    V c = V{} + Coefficient(16), s = V{} + Coefficient(17);
#pragma GCC unroll 6
    for (int n = 14; n >= 4; n -= 2) {
      c = c * z + Coefficient(n);
      s = s * z + Coefficient(n + 1);
    }
    s = s * z + Coefficient(3);
    const V half = 0.5 * z, rounded = 1 - half;
    c = rounded + (((1 - rounded) - half) + (z * z * c - angle * error));
    s = angle + (error * rounded + angle * z * s);
    const I quarter = (I)shifted;  // in its two lowest bits
    const auto is_odd = (quarter & 1) != 0;
    const V first = is_odd ? s : c, second = is_odd ? c : s;
    *cosine = ((quarter + 1) & 2) != 0 ? -first : first;
    *sine = (quarter & 2) != 0 ? -second : second;
  }

  static void HalfTurns(int64_t samples, const double* turns, double* cosine, double* sine) {
    int64_t s = 0;
    for (; s + kLanes <= samples; s += kLanes) {
      V c, d;
      Phase(*reinterpret_cast<const Unaligned*>(turns + s), &c, &d);
      *reinterpret_cast<Unaligned*>(cosine + s) = c;
      *reinterpret_cast<Unaligned*>(sine + s) = d;
    }
    if (s == samples) return;
    V t = {}, c, d;
    for (int64_t lane = 0; s + lane < samples; ++lane) t[lane] = turns[s + lane];
    Phase(t, &c, &d);
    for (int64_t lane = 0; s + lane < samples; ++lane) {
      cosine[s + lane] = c[lane];
      sine[s + lane] = d[lane];
    }
  }

  // A row of a single matrix: (re, im) of each column.
  template <int SIZE>
  struct Row {
    typedef double V __attribute__((vector_size(2 * SIZE * sizeof(double)), may_alias));
    typedef double InMemory
        __attribute__((vector_size(2 * SIZE * sizeof(double)), aligned(sizeof(double)), may_alias));
  };

  // out = i row.
  template <int SIZE>
  static void TimesI(const double* row, typename Row<SIZE>::V* out) {
#pragma GCC unroll 4
    for (int j = 0; j < SIZE; ++j) {
      (*out)[2 * j] = -row[2 * j + 1];
      (*out)[2 * j + 1] = row[2 * j];
    }
  }

  static void AddPhased(int32_t entries, int64_t samples, const double* x, const double* y,
                        const double* matrix, double* out) {
    if (samples == 1) {
      using Four = Row<4>;  // of the 4 or 16 entries
      for (int32_t i = 0; i < entries; i += 4) {
        const Four::V row = *reinterpret_cast<const Four::InMemory*>(matrix + 2 * i);
        Four::V sum = *reinterpret_cast<const Four::InMemory*>(out + 2 * i), turned;
        TimesI<4>(matrix + 2 * i, &turned);
        sum += *x * row + *y * turned;
        *reinterpret_cast<Four::InMemory*>(out + 2 * i) = sum;
      }
      return;
    }
    for (int32_t i = 0; i < entries; ++i) {
      const double re = matrix[2 * i], im = matrix[2 * i + 1];
      if (re == 0 && im == 0) continue;
      double *out_re = out + 2 * i * samples, *out_im = out_re + samples;
      int64_t s = 0;
      for (; s + kLanes <= samples; s += kLanes) {
        const V a = *reinterpret_cast<const Unaligned*>(x + s);
        const V b = *reinterpret_cast<const Unaligned*>(y + s);
        *reinterpret_cast<Unaligned*>(out_re + s) += re * a - im * b;
        *reinterpret_cast<Unaligned*>(out_im + s) += re * b + im * a;
      }
      for (; s < samples; ++s) {
        out_re[s] += re * x[s] - im * y[s];
        out_im[s] += re * y[s] + im * x[s];
      }
    }
  }

  // An entry of a factor for the lanes of R, a vector or one double.
  template <class R>
  static R Load(const double* at, bool one) {
    if (one) return R{} + *at;
    if constexpr (sizeof(R) == sizeof(double))
      return *at;
    else
      return *reinterpret_cast<const Unaligned*>(at);
  }

  // The product for the lanes of R from sample s on.
  template <class R>
  static void ProductLanes(int32_t size, int64_t samples, const MatrixFactor& a,
                           const MatrixFactor& b, int64_t s, double* out) {
    const int64_t a_step = a.shared ? 1 : samples, b_step = b.shared ? 1 : samples;
    const int64_t a_at = a.shared ? 0 : s, b_at = b.shared ? 0 : s;
    for (int32_t i = 0; i < size; ++i)
      for (int32_t j = 0; j < size; ++j) {
        R re = {}, im = {};
        for (int32_t m = 0; m < size; ++m) {
          const double* x =
              a.values + 2 * (a.adjoint ? m * size + i : i * size + m) * a_step + a_at;
          const double* y =
              b.values + 2 * (b.adjoint ? j * size + m : m * size + j) * b_step + b_at;
          const R xr = Load<R>(x, a.shared), xi = Load<R>(x + a_step, a.shared) * a.sign();
          const R yr = Load<R>(y, b.shared), yi = Load<R>(y + b_step, b.shared) * b.sign();
          re += xr * yr - xi * yi;
          im += xr * yi + xi * yr;
        }
        double* to = out + 2 * (i * size + j) * samples + s;
        if constexpr (sizeof(R) == sizeof(double)) {
          to[0] = re;
          to[samples] = im;
        } else {
          *reinterpret_cast<Unaligned*>(to) = re;
          *reinterpret_cast<Unaligned*>(to + samples) = im;
        }
      }
  }

  static void Product(int32_t size, int64_t samples, const MatrixFactor& a, const MatrixFactor& b,
                      double* out) {
    int64_t s = 0;
    for (; s + kLanes <= samples; s += kLanes) ProductLanes<V>(size, samples, a, b, s, out);
    for (; s < samples; ++s) ProductLanes<double>(size, samples, a, b, s, out);
  }

  // out = a b, or a^dagger b.
  template <int SIZE, bool ADJOINT>
  static void MultiplyOfSize(const double* a, const double* b, double* out) {
    using InMemory = typename Row<SIZE>::InMemory;
    typename Row<SIZE>::V rows[SIZE], turned[SIZE];
#pragma GCC unroll 4
    for (int m = 0; m < SIZE; ++m) {
      rows[m] = *reinterpret_cast<const InMemory*>(b + 2 * m * SIZE);
      TimesI<SIZE>(b + 2 * m * SIZE, &turned[m]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < SIZE; ++i) {
      typename Row<SIZE>::V by_re = {}, by_im = {};
#pragma GCC unroll 4
      for (int m = 0; m < SIZE; ++m) {
        const double* entry = a + 2 * (ADJOINT ? m * SIZE + i : i * SIZE + m);
        by_re += entry[0] * rows[m];
        by_im += entry[1] * turned[m];
      }
      *reinterpret_cast<InMemory*>(out + 2 * i * SIZE) = ADJOINT ? by_re - by_im : by_re + by_im;
    }
  }

  static void Multiply(int32_t size, const double* a, const double* b, double* out) {
    if (size == 4)
      MultiplyOfSize<4, false>(a, b, out);
    else
      MultiplyOfSize<2, false>(a, b, out);
  }

  static void Conjugate(int32_t size, const double* u, double* y) {
    double y_times_u[2 * 4 * 4];
    if (size == 4) {
      MultiplyOfSize<4, false>(y, u, y_times_u);
      MultiplyOfSize<4, true>(u, y_times_u, y);
    } else {
      MultiplyOfSize<2, false>(y, u, y_times_u);
      MultiplyOfSize<2, true>(u, y_times_u, y);
    }
  }
};

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_MATRIX_KERNELS_H_
