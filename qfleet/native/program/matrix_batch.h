// Small complex matrices of several samples, stored with the samples innermost.
#ifndef QFLEET_MATRIX_BATCH_H_
#define QFLEET_MATRIX_BATCH_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace qfleet {

// cosine, sine = exp(i pi t) for each sample, exact for multiples of 1/2.
void HalfTurns(int64_t samples, const double* t, double* cosine, double* sine);

// out = a b for single matrices [D][D] (re, im); `out` must not overlap `a` or `b`.
void Multiply(int32_t size, const double* a, const double* b, double* out);

// y = u^dagger y u for single matrices [D][D] (re, im); `y` must not overlap `u`.
void Conjugate(int32_t size, const double* u, double* y);

// out [entries] (re, im) += (x + i y) matrix [entries] (re, im), for 4 or 16 entries.
void AddPhased(int32_t entries, double x, double y, const double* matrix, double* out);

// Matrices [D * D] (re, im) [samples].
class MatrixBatch {
 public:
  MatrixBatch(int32_t size, int64_t samples)
      : size_(size), samples_(samples), values_(2 * size * size * samples) {}

  double* at(int32_t entry, int part) { return &values_[(2 * entry + part) * samples_]; }
  const double* at(int32_t entry, int part) const {
    return &values_[(2 * entry + part) * samples_];
  }
  std::vector<double>& values() { return values_; }
  int32_t size() const { return size_; }
  int64_t samples() const { return samples_; }

  // this = a b. `a` or `b` may hold one sample for all; `*_dagger` takes the adjoint.
  void Product(const MatrixBatch& a, bool a_dagger, const MatrixBatch& b, bool b_dagger);
  // this += (x + i y) matrix, for x and y of each sample and a matrix [D * D] (re, im).
  void AddPhased(const double* x, const double* y, const double* matrix);
  // this += a b.
  void AddProduct(const MatrixBatch& a, bool a_dagger, const MatrixBatch& b, bool b_dagger);

 private:
  int32_t size_;
  int64_t samples_;
  std::vector<double> values_;
};

// Matrices as functions of one parameter: dual numbers. Without a tangent, the derivative is 0.
struct DualMatrixBatch {
  DualMatrixBatch(int32_t size, int64_t samples) : value(size, samples) {}

  // this = a b, by the product rule; see MatrixBatch::Product.
  void Product(const DualMatrixBatch& a, bool a_dagger, const DualMatrixBatch& b, bool b_dagger);
  MatrixBatch& MakeTangent();  // a tangent of 0, unless there is one

  MatrixBatch value;
  std::optional<MatrixBatch> tangent;
};

}  // namespace qfleet

#endif  // QFLEET_MATRIX_BATCH_H_
