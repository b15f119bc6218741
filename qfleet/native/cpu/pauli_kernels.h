// Pauli strings and products of states. Included by kernels.cc only.
#ifndef QFLEET_PAULI_KERNELS_H_
#define QFLEET_PAULI_KERNELS_H_

#include "cpu/kernels.h"
#include "cpu/vector_types.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

template <class T>
struct PauliKernels : VectorTypes<T> {
  using typename VectorTypes<T>::V;
  using typename VectorTypes<T>::I;
  using VectorTypes<T>::kLanes;
  using VectorTypes<T>::LaneXorIndices;
  using VectorTypes<T>::Shuffle;

  // sums[k] = sum_i (-1)^|i & k| values[i], in place. Two bits at a time: half of the loads.
  static void WalshHadamard(V* values, int bits) {
    const int64_t size = int64_t{1} << bits;
    const bool odd = bits % 2 == 1;
    for (int64_t i = 0; i < size && odd; i += 2) {
      const V a = values[i], b = values[i + 1];
      values[i] = a + b;
      values[i + 1] = a - b;
    }
    for (int64_t part = odd ? 2 : 1; part < size; part *= 4)
      for (int64_t at = 0; at < size; at += 4 * part)
        for (V* value = values + at; value < values + at + part; ++value) {
          const V a = value[0], b = value[part], c = value[2 * part], d = value[3 * part];
          const V ab = a + b, a_b = a - b, cd = c + d, c_d = c - d;
          value[0] = ab + cd;
          value[part] = a_b + c_d;
          value[2 * part] = ab - cd;
          value[3 * part] = a_b - c_d;
        }
  }

  static int TransformBits(int64_t count) {
    int bits = 0;
    while (bits < kMaxTransformBits && int64_t{2} << bits <= count) ++bits;
    return bits;
  }

  // A product of X, which needs no signs.
  static bool OnlyFlips(const PauliStrings& strings) {
    return strings.count == 1 && strings.z[0] == 0 && strings.ys[0] == 0 &&
           (strings.flip != 0 || strings.lane_xor != 0);
  }

  static void MeasureFlips(const PauliStrings& strings, const V* left, const V* right,
                           int64_t first, int64_t count, double* sums) {
    const int64_t size = int64_t{1} << TransformBits(count);
    const I lane_order = LaneXorIndices(strings.lane_xor);
    for (int64_t at = first; at < first + count; at += size) {
      V re = {}, im = {};
      for (int64_t i = at; i < at + size; ++i) {
        const V *x = left + 2 * i, *y = right + 2 * (i ^ strings.flip);
        re += x[0] * Shuffle(y[0], lane_order);
        im += x[1] * Shuffle(y[1], lane_order);
      }
      re += im;
      for (int lane = 0; lane < kLanes; ++lane) sums[lane] += static_cast<double>(re[lane]);
    }
  }

  static void ApplyFlips(const PauliStrings& strings, const V* psi, V* lambda, int64_t first,
                         int64_t count, V weight, bool add) {
    const I lane_order = LaneXorIndices(strings.lane_xor);
    for (int64_t i = first; i < first + count; ++i) {
      const V* y = psi + 2 * (i ^ strings.flip);
      V* to = lambda + 2 * (i - first);
      const V re = weight * Shuffle(y[0], lane_order), im = weight * Shuffle(y[1], lane_order);
      to[0] = add ? to[0] + re : re;
      to[1] = add ? to[1] + im : im;
    }
  }

  static void Measure(const PauliStrings& strings, const T* left_, const T* right_, int64_t first,
                      int64_t count, double* sums) {
    const V* left = reinterpret_cast<const V*>(left_);
    const V* right = reinterpret_cast<const V*>(right_);
    if (OnlyFlips(strings)) return MeasureFlips(strings, left, right, first, count, sums);
    const int bits = TransformBits(count);
    const int64_t size = int64_t{1} << bits;
    const I lane_order = LaneXorIndices(strings.lane_xor);
    const bool diagonal = strings.flip == 0 && strings.lane_xor == 0;
    V re[1 << kMaxTransformBits], im[1 << kMaxTransformBits];
    for (int64_t at = first; at < first + count; at += size) {
      for (int64_t i = 0; i < size; ++i) {
        const V* x = left + 2 * (at + i);
        if (diagonal) {
          const V* y = right + 2 * (at + i);
          re[i] = x[0] * y[0] + x[1] * y[1];
        } else {
          const V* y = right + 2 * ((at + i) ^ strings.flip);
          const V yr = Shuffle(y[0], lane_order), yi = Shuffle(y[1], lane_order);
          re[i] = x[0] * yr + x[1] * yi;
          im[i] = x[0] * yi - x[1] * yr;
        }
      }
      WalshHadamard(re, bits);
      if (!diagonal) WalshHadamard(im, bits);
      for (int32_t t = 0; t < strings.count; ++t) {
        // Re((-i)^ys q)
        const V* parts = strings.ys[t] % 2 ? im : re;
        bool minus = strings.ys[t] % 4 >= 2;
        minus ^= __builtin_parityll(at & strings.z[t]);
        const T* from = reinterpret_cast<const T*>(&parts[strings.z[t] & (size - 1)]);
        double* to = sums + t * kLanes;
        if (minus)
          for (int lane = 0; lane < kLanes; ++lane) to[lane] -= static_cast<double>(from[lane]);
        else
          for (int lane = 0; lane < kLanes; ++lane) to[lane] += static_cast<double>(from[lane]);
      }
    }
  }

  static void ApplyStrings(const PauliStrings& strings, const T* psi_, T* lambda_, int64_t first,
                           int64_t count, const T* weights_, bool add) {
    const V* psi = reinterpret_cast<const V*>(psi_);
    const V* weights = reinterpret_cast<const V*>(weights_);
    V* lambda = reinterpret_cast<V*>(lambda_);
    if (OnlyFlips(strings)) return ApplyFlips(strings, psi, lambda, first, count, weights[0], add);
    const int bits = TransformBits(count);
    const int64_t size = int64_t{1} << bits;
    const I lane_order = LaneXorIndices(strings.lane_xor);
    const bool diagonal = strings.flip == 0 && strings.lane_xor == 0;
    V re[1 << kMaxTransformBits], im[1 << kMaxTransformBits];
    for (int64_t at = first; at < first + count; at += size) {
      for (int64_t i = 0; i < size; ++i) re[i] = im[i] = V{};
      for (int32_t t = 0; t < strings.count; ++t) {
        // P = (-i)^ys (-1)^|x & z| from x ^ flip to x
        V* parts = strings.ys[t] % 2 ? im : re;
        bool minus = strings.ys[t] % 4 == 1 || strings.ys[t] % 4 == 2;
        minus ^= __builtin_parityll(at & strings.z[t]);
        V& to = parts[strings.z[t] & (size - 1)];
        if (minus)
          to -= weights[t];
        else
          to += weights[t];
      }
      WalshHadamard(re, bits);
      if (!diagonal) WalshHadamard(im, bits);
      for (int64_t i = 0; i < size; ++i) {
        V* to = lambda + 2 * (at - first + i);
        V lr, li;
        if (diagonal) {
          const V* x = psi + 2 * (at + i);
          lr = re[i] * x[0];
          li = re[i] * x[1];
        } else {
          const V* y = psi + 2 * ((at + i) ^ strings.flip);
          const V yr = Shuffle(y[0], lane_order), yi = Shuffle(y[1], lane_order);
          lr = re[i] * yr - im[i] * yi;
          li = re[i] * yi + im[i] * yr;
        }
        to[0] = add ? to[0] + lr : lr;
        to[1] = add ? to[1] + li : li;
      }
    }
  }

  static void Dot(const T* x_, const T* y_, int64_t count, double* sum) {
    const V* x = reinterpret_cast<const V*>(x_);
    const V* y = reinterpret_cast<const V*>(y_);
    V re = {}, im = {};
    for (int64_t group = 0; group < count; ++group) {
      const V xr = x[2 * group], xi = x[2 * group + 1], yr = y[2 * group], yi = y[2 * group + 1];
      re += xr * yr;
      re += xi * yi;
      im += xr * yi;
      im -= xi * yr;
    }
    double total[2] = {0, 0};
    for (int lane = 0; lane < kLanes; ++lane) {
      total[0] += static_cast<double>(re[lane]);
      total[1] += static_cast<double>(im[lane]);
    }
    sum[0] += total[0];
    sum[1] += total[1];
  }

  static void Combine(const T* const* states, const double* weights, int64_t states_count, T* out_,
                      int64_t first, int64_t count) {
    V* out = reinterpret_cast<V*>(out_);
    for (int64_t group = first; group < first + count; ++group) {
      V re = {}, im = {};
      for (int64_t j = 0; j < states_count; ++j) {
        const V* x = reinterpret_cast<const V*>(states[j]) + 2 * group;
        const T wr = static_cast<T>(weights[2 * j]), wi = static_cast<T>(weights[2 * j + 1]);
        re += wr * x[0] - wi * x[1];
        im += wr * x[1] + wi * x[0];
      }
      out[2 * group] = re;
      out[2 * group + 1] = im;
    }
  }
};

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_PAULI_KERNELS_H_
