// Loops over small matrices. Included by kernels.cc only: they are short and hot, and use the
// widest vectors that the machine has.
#ifndef QFLEET_MATRIX_KERNELS_H_
#define QFLEET_MATRIX_KERNELS_H_

#include "cpu/kernels.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

void AddScaled(int64_t samples, double x, double y, const double* v, const double* w, double sign,
               double* re, double* im) {
  for (int64_t s = 0; s < samples; ++s) {
    re[s] += x * v[s] - sign * y * w[s];
    im[s] += sign * x * w[s] + y * v[s];
  }
}

void AddProducts(int64_t samples, const double* x, const double* y, double xs, const double* v,
                 const double* w, double vs, double* re, double* im) {
  for (int64_t s = 0; s < samples; ++s) {
    re[s] += x[s] * v[s] - xs * vs * y[s] * w[s];
    im[s] += vs * x[s] * w[s] + xs * y[s] * v[s];
  }
}

// With real and imaginary parts apart, so that a row is a vector.
template <int SIZE>
void MultiplyOfSize(const double* a, const double* b, double* out) {
  double re[SIZE][SIZE], im[SIZE][SIZE];
  for (int m = 0; m < SIZE; ++m)
    for (int j = 0; j < SIZE; ++j) {
      re[m][j] = b[2 * (m * SIZE + j)];
      im[m][j] = b[2 * (m * SIZE + j) + 1];
    }
#pragma GCC unroll 4
  for (int i = 0; i < SIZE; ++i) {
    double row_re[SIZE] = {}, row_im[SIZE] = {};
#pragma GCC unroll 4
    for (int m = 0; m < SIZE; ++m) {
      const double x = a[2 * (i * SIZE + m)], y = a[2 * (i * SIZE + m) + 1];
      for (int j = 0; j < SIZE; ++j) {
        row_re[j] += x * re[m][j] - y * im[m][j];
        row_im[j] += x * im[m][j] + y * re[m][j];
      }
    }
    for (int j = 0; j < SIZE; ++j) {
      out[2 * (i * SIZE + j)] = row_re[j];
      out[2 * (i * SIZE + j) + 1] = row_im[j];
    }
  }
}

void Multiply(int32_t size, const double* a, const double* b, double* out) {
  if (size == 4)
    MultiplyOfSize<4>(a, b, out);
  else
    MultiplyOfSize<2>(a, b, out);
}

void AddPhased(int32_t entries, double x, double y, const double* matrix, double* out) {
  for (int32_t i = 0; i < entries; ++i) {
    out[2 * i] += x * matrix[2 * i] - y * matrix[2 * i + 1];
    out[2 * i + 1] += x * matrix[2 * i + 1] + y * matrix[2 * i];
  }
}

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_MATRIX_KERNELS_H_
