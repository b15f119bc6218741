// Real matrices on the Pauli words of one or two qubits. Included by kernels.cc only.
#ifndef QFLEET_WORD_KERNELS_H_
#define QFLEET_WORD_KERNELS_H_

#include "cpu/kernels.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

// The words of some qubits, whose lowest digit is that of the lowest qubit:
// P|x> = (re[x][P] + i im[x][P])|x ^ flip[P]>.
template <int QUBITS>
struct PauliWords {
  static constexpr int kDim = 1 << QUBITS, kWords = kDim * kDim;

  constexpr PauliWords() {
    for (int p = 0; p < kWords; ++p) {
      int z = 0, ys = 0;
      for (int q = 0; q < QUBITS; ++q) {
        const int letter = p >> 2 * q & 3;  // I, X, Y, Z
        flip[p] |= (letter == 1 || letter == 2) << q;
        z |= (letter == 2 || letter == 3) << q;
        ys += letter == 2;
      }
      for (int x = 0; x < kDim; ++x) {
        const int signs = (x & z & 1) + ((x & z) >> 1);
        const int quarters = (ys + 2 * signs) % 4;  // the phase is i**quarters
        re[x][p] = quarters == 0 ? 1 : quarters == 2 ? -1 : 0;
        im[x][p] = quarters == 1 ? 1 : quarters == 3 ? -1 : 0;
      }
    }
  }

  int flip[kWords] = {};
  double re[kDim][kWords] = {}, im[kDim][kWords] = {};
};

template <int QUBITS>
struct WordMatrices {
  static constexpr int kDim = 1 << QUBITS, kWords = kDim * kDim;
  static constexpr PauliWords<QUBITS> kPauli = {};
  typedef double V __attribute__((vector_size(kWords * sizeof(double)), may_alias));
  typedef double InMemory
      __attribute__((vector_size(kWords * sizeof(double)), aligned(sizeof(double)), may_alias));

  static const InMemory* Rows(const double* matrix) {
    return reinterpret_cast<const InMemory*>(matrix);
  }
  // A number for each word, for each entry of a matrix of the qubits.
  struct Lanes {
    V& At(int i, int j) { return *reinterpret_cast<V*>(numbers[i][j]); }
    alignas(sizeof(V)) double numbers[kDim][kDim][kWords];
  };

  static void Multiply(const double* a, const double* b, double* out) {
    const InMemory* rows = Rows(b);
    for (int i = 0; i < kWords; i += 4) {
      V sums[4] = {};
      for (int k = 0; k < kWords; ++k) {
        const V row = rows[k];
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) sums[r] += a[(i + r) * kWords + k] * row;
      }
      for (int r = 0; r < 4; ++r) reinterpret_cast<InMemory*>(out)[i + r] = sums[r];
    }
  }

  // Lanes are the words Q of the columns.
  static void FromUnitary(const double* u, double* out) {
    Lanes re, im, turned_re, turned_im;  // u Q, u Q u^dagger
    for (int i = 0; i < kDim; ++i)
      for (int x = 0; x < kDim; ++x)
        for (int q = 0; q < kWords; ++q) {
          const double* entry = u + 2 * (i * kDim + (x ^ kPauli.flip[q]));
          const double c = kPauli.re[x][q], s = kPauli.im[x][q];
          re.numbers[i][x][q] = c * entry[0] - s * entry[1];
          im.numbers[i][x][q] = c * entry[1] + s * entry[0];
        }
    for (int i = 0; i < kDim; ++i)
      for (int j = 0; j < kDim; ++j) {
        V sum_re = {}, sum_im = {};
        for (int x = 0; x < kDim; ++x) {
          const double* entry = u + 2 * (j * kDim + x);
          sum_re += re.At(i, x) * entry[0] + im.At(i, x) * entry[1];
          sum_im += im.At(i, x) * entry[0] - re.At(i, x) * entry[1];
        }
        turned_re.At(i, j) = sum_re;
        turned_im.At(i, j) = sum_im;
      }
    for (int p = 0; p < kWords; ++p) {
      V trace = {};
      for (int x = 0; x < kDim; ++x) {
        const int y = x ^ kPauli.flip[p];
        trace += kPauli.re[x][p] * turned_re.At(x, y) - kPauli.im[x][p] * turned_im.At(x, y);
      }
      reinterpret_cast<InMemory*>(out)[p] = trace * (1.0 / kDim);
    }
  }

  static void Sums(const double* correlation, double* out) {
    Lanes re = {}, im = {};  // sum_R correlation[R] R / D; lanes are words P
    for (int r = 0; r < kWords; ++r) {
      const V row = Rows(correlation)[r] * (1.0 / kDim);
      for (int x = 0; x < kDim; ++x) {
        const int y = x ^ kPauli.flip[r];
        re.At(y, x) += row * kPauli.re[x][r];
        im.At(y, x) += row * kPauli.im[x][r];
      }
    }
    for (int row = 0; row < kDim; ++row)
      for (int x = 0; x < kDim; ++x) {
        double sum_re = 0, sum_im = 0;
        for (int p = 0; p < kWords; ++p) {
          const int middle = x ^ kPauli.flip[p];
          const double c = kPauli.re[x][p], s = kPauli.im[x][p];
          const double a = re.numbers[row][middle][p], b = im.numbers[row][middle][p];
          sum_re += c * a - s * b;
          sum_im += c * b + s * a;
        }
        out[2 * (row * kDim + x)] = sum_re;
        out[2 * (row * kDim + x) + 1] = sum_im;
      }
  }
};

struct WordLoops {
  static void Multiply(int32_t qubits, const double* a, const double* b, double* out) {
    qubits == 1 ? WordMatrices<1>::Multiply(a, b, out) : WordMatrices<2>::Multiply(a, b, out);
  }
  static void FromUnitary(int32_t qubits, const double* u, double* out) {
    qubits == 1 ? WordMatrices<1>::FromUnitary(u, out) : WordMatrices<2>::FromUnitary(u, out);
  }
  static void Sums(int32_t qubits, const double* correlation, double* out) {
    qubits == 1 ? WordMatrices<1>::Sums(correlation, out) : WordMatrices<2>::Sums(correlation, out);
  }
};

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_WORD_KERNELS_H_
