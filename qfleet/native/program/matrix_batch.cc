#include "program/matrix_batch.h"

#include <cmath>

#include "cpu/kernels.h"

namespace qfleet {

namespace {

const MatrixKernels& MatrixLoops() {
  static const MatrixKernels& kernels = BestMatrixKernels();
  return kernels;
}

}  // namespace

void HalfTurns(int64_t samples, const double* t, double* cosine, double* sine) {
  MatrixLoops().half_turns(samples, t, cosine, sine);
  for (int64_t s = 0; s < samples; ++s)
    if (!(std::abs(t[s]) <= kMostHalfTurns)) {
      cosine[s] = std::cos(M_PI * t[s]);
      sine[s] = std::sin(M_PI * t[s]);
    }
}

void Multiply(int32_t size, const double* a, const double* b, double* out) {
  MatrixLoops().multiply(size, a, b, out);
}

void Conjugate(int32_t size, const double* u, double* y) { MatrixLoops().conjugate(size, u, y); }

void AddPhased(int32_t entries, double x, double y, const double* matrix, double* out) {
  MatrixLoops().add_phased(entries, 1, &x, &y, matrix, out);
}

void MatrixBatch::AddPhased(const double* x, const double* y, const double* matrix) {
  MatrixLoops().add_phased(size_ * size_, samples_, x, y, matrix, values_.data());
}

void MatrixBatch::Product(const MatrixBatch& a, bool a_dagger, const MatrixBatch& b,
                          bool b_dagger) {
  if (samples_ == 1 && !a_dagger && !b_dagger)
    return Multiply(size_, a.values_.data(), b.values_.data(), values_.data());
  MatrixLoops().product(size_, samples_, {a.values_.data(), a.samples_ == 1, a_dagger},
                        {b.values_.data(), b.samples_ == 1, b_dagger}, values_.data());
}

void MatrixBatch::AddProduct(const MatrixBatch& a, bool a_dagger, const MatrixBatch& b,
                             bool b_dagger) {
  MatrixBatch product(size_, samples_);
  product.Product(a, a_dagger, b, b_dagger);
  for (size_t i = 0; i < values_.size(); ++i) values_[i] += product.values_[i];
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
