#include "program/matrix_batch.h"

#include <algorithm>

#include "cpu/kernels.h"

namespace qfleet {

namespace {

const MatrixKernels& MatrixLoops() {
  static const MatrixKernels& kernels = BestMatrixKernels();
  return kernels;
}

}  // namespace

void AddScaled(int64_t samples, double x, double y, const double* v, const double* w, double sign,
               double* re, double* im) {
  MatrixLoops().add_scaled(samples, x, y, v, w, sign, re, im);
}

void Multiply(int32_t size, const double* a, const double* b, double* out) {
  MatrixLoops().multiply(size, a, b, out);
}

void AddPhased(int32_t entries, double x, double y, const double* matrix, double* out) {
  MatrixLoops().add_phased(entries, x, y, matrix, out);
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
          MatrixLoops().add_products(samples_, ar, ai, as, br, bi, bs, re, im);
        }
      }
    }
}

void MatrixBatch::AddProduct(const MatrixBatch& a, bool a_dagger, const MatrixBatch& b,
                             bool b_dagger) {
  MatrixBatch product(size_, samples_);
  product.Product(a, a_dagger, b, b_dagger);
  for (size_t i = 0; i < values_.size(); ++i) values_[i] += product.values_[i];
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

void DualMatrixBatch::Product(const DualMatrixBatch& a, bool a_dagger, const DualMatrixBatch& b,
                              bool b_dagger) {
  value.Product(a.value, a_dagger, b.value, b_dagger);
  tangent.reset();
  if (a.tangent) MakeTangent().Product(*a.tangent, a_dagger, b.value, b_dagger);
  if (b.tangent) MakeTangent().AddProduct(a.value, a_dagger, *b.tangent, b_dagger);
}

MatrixBatch& DualMatrixBatch::MakeTangent() {
  if (!tangent) tangent.emplace(value.size(), value.samples());
  return *tangent;
}

}  // namespace qfleet
