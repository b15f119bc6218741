#include "matrix_batch.h"

#include <algorithm>

namespace qfleet {
namespace {

// These loops are short and hot: use the widest vectors that the machine has.
#if defined(__x86_64__) && defined(__linux__)
#define QFLEET_TARGET_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define QFLEET_TARGET_CLONES
#endif

// As AddScaled, for one factor per sample.
QFLEET_TARGET_CLONES void AddProducts(int64_t samples, const double* x, const double* y, double xs,
                                      const double* v, const double* w, double vs, double* re,
                                      double* im) {
  for (int64_t s = 0; s < samples; ++s) {
    re[s] += x[s] * v[s] - xs * vs * y[s] * w[s];
    im[s] += vs * x[s] * w[s] + xs * y[s] * v[s];
  }
}

}  // namespace

QFLEET_TARGET_CLONES void AddScaled(int64_t samples, double x, double y, const double* v,
                                    const double* w, double sign, double* re, double* im) {
  for (int64_t s = 0; s < samples; ++s) {
    re[s] += x * v[s] - sign * y * w[s];
    im[s] += sign * x * w[s] + y * v[s];
  }
}

QFLEET_TARGET_CLONES void Multiply(int32_t size, const double* a, const double* b, double* out) {
  for (int32_t i = 0; i < size; ++i) {
    double row[8] = {0};
    for (int32_t m = 0; m < size; ++m) {
      const double x = a[2 * (i * size + m)], y = a[2 * (i * size + m) + 1];
      for (int32_t j = 0; j < size; ++j) {
        const double v = b[2 * (m * size + j)], w = b[2 * (m * size + j) + 1];
        row[2 * j] += x * v - y * w;
        row[2 * j + 1] += x * w + y * v;
      }
    }
    for (int32_t j = 0; j < 2 * size; ++j) out[2 * i * size + j] = row[j];
  }
}

QFLEET_TARGET_CLONES void AddPhased(int32_t entries, double x, double y, const double* matrix,
                                    double* out) {
  for (int32_t i = 0; i < entries; ++i) {
    out[2 * i] += x * matrix[2 * i] - y * matrix[2 * i + 1];
    out[2 * i + 1] += x * matrix[2 * i + 1] + y * matrix[2 * i];
  }
}

void MatrixBatch::Product(const MatrixBatch& a, bool a_dagger, const MatrixBatch& b,
                          bool b_dagger) {
  if (samples_ == 1) {
    Multiply(size_, (a_dagger ? a.Adjoint() : a).values_.data(),
             (b_dagger ? b.Adjoint() : b).values_.data(), values_.data());
    return;
  }
  std::fill(values_.begin(), values_.end(), 0.0);
  const double as = a_dagger ? -1 : 1, bs = b_dagger ? -1 : 1;
  for (int32_t i = 0; i < size_; ++i)
    for (int32_t j = 0; j < size_; ++j) {
      double *re = at(i * size_ + j, 0), *im = at(i * size_ + j, 1);
      for (int32_t m = 0; m < size_; ++m) {
        const int32_t ae = a_dagger ? m * size_ + i : i * size_ + m;
        const int32_t be = b_dagger ? j * size_ + m : m * size_ + j;
        const double *ar = a.at(ae, 0), *ai = a.at(ae, 1), *br = b.at(be, 0), *bi = b.at(be, 1);
        if (a.samples_ == 1) {
          AddScaled(samples_, *ar, as * *ai, br, bi, bs, re, im);
        } else if (b.samples_ == 1) {
          AddScaled(samples_, *br, bs * *bi, ar, ai, as, re, im);
        } else {
          AddProducts(samples_, ar, ai, as, br, bi, bs, re, im);
        }
      }
    }
}

MatrixBatch MatrixBatch::Adjoint() const {
  MatrixBatch adjoint(size_, 1);
  for (int32_t i = 0; i < size_; ++i)
    for (int32_t j = 0; j < size_; ++j) {
      *adjoint.at(j * size_ + i, 0) = *at(i * size_ + j, 0);
      *adjoint.at(j * size_ + i, 1) = -*at(i * size_ + j, 1);
    }
  return adjoint;
}
MatrixBatch MatrixBatchOf(const std::vector<double>& values, int32_t size) {
  MatrixBatch batch(size, 1);
  batch.values() = values;
  return batch;
}

}  // namespace qfleet
