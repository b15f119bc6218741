#include "program/shared_matrices.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "program/matrix_batch.h"

namespace qfleet {
namespace {

using Matrix = std::array<double, 2 * 4 * 4>;  // [D * D] (re, im)

// The angle of eigenspace k in half-turns, or its tangent.
double Angle(const Factor& factor, int32_t k, const double* shared) {
  const size_t count = factor.exponents.size();
  double sum = 0;
  for (size_t e = 0; e < count; ++e)
    sum += factor.half_turns[k * count + e] * shared[factor.exponents[e]];
  return sum;
}

// sum += a b; null matrices are 0. Returns false if the product is 0.
bool AddProduct(int32_t size, const double* a, const double* b, double* sum) {
  if (!a || !b) return false;
  Matrix product;
  Multiply(size, a, b, product.data());
  for (int32_t i = 0; i < 2 * size * size; ++i) sum[i] += product[i];
  return true;
}

Matrix Adjoint(int32_t size, const double* matrix) {
  Matrix adjoint;
  for (int32_t i = 0; i < size; ++i)
    for (int32_t j = 0; j < size; ++j) {
      adjoint[2 * (j * size + i)] = matrix[2 * (i * size + j)];
      adjoint[2 * (j * size + i) + 1] = -matrix[2 * (i * size + j) + 1];
    }
  return adjoint;
}

// -2 pi Im tr(H Y) for y [D * D] (re, im); see engine.h for the derivation.
double Derivative(const Factor& factor, int64_t e, const double* y) {
  constexpr int kSums = 8;  // of which a vector can hold several
  const int32_t reals = 2 * factor.size * factor.size;
  const double* weights = &factor.derivatives[e * reals];
  double sums[kSums] = {};
  for (int32_t i = 0; i < reals; i += kSums)
    for (int j = 0; j < kSums; ++j) sums[j] += weights[i + j] * y[i + j];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

// The sums of a factor sequence and their tangents.
struct SequenceSums {
  SequenceSums(const std::vector<double>& sums, int32_t size_, bool with_tangents_)
      : size(size_), with_tangents(with_tangents_) {
    const int64_t reals = 2 * size * size;
    std::copy_n(sums.begin(), reals, y.begin());
    if (with_tangents) std::copy_n(sums.begin() + reals, reals, dy.begin());
  }

  const double* differentiated() const { return with_tangents ? dy.data() : y.data(); }

  // y = u^dagger y u, and its tangent; `du` is null if it is 0.
  void Uncompute(const double* u, const double* du) {
    if (with_tangents) {
      Matrix inner = {}, outer = {}, y_times_u;
      AddProduct(size, dy.data(), u, inner.data());
      AddProduct(size, y.data(), du, inner.data());
      AddProduct(size, Adjoint(size, u).data(), inner.data(), outer.data());
      Multiply(size, y.data(), u, y_times_u.data());
      if (du) AddProduct(size, Adjoint(size, du).data(), y_times_u.data(), outer.data());
      dy = outer;
    }
    Conjugate(size, u, y.data());
  }

  int32_t size;
  bool with_tangents;
  Matrix y, dy;
};

}  // namespace

SharedMatrices::SharedMatrices(const GateTables& program, const Exponents& exponents)
    : factors_(program.factors.size()),
      values_((program.factors.size() + program.sequences.size()) * kReals) {
  SetFactors(program, exponents);
  if (exponents.shared_tangents) {
    tangents_.resize(values_.size());
    has_tangent_.resize(program.factors.size() + program.sequences.size());
    SetFactorTangents(program, exponents);
  }
  SetProducts(program);
}

void SharedMatrices::SetFactors(const GateTables& program, const Exponents& exponents) {
  int64_t spaces = 0;
  for (const Factor& factor : program.factors)
    if (!factor.per_example && !factor.exponents.empty()) spaces += factor.spaces;
  phases_.resize(3 * spaces);
  double *cosine = phases_.data(), *sine = cosine + spaces, *turns = sine + spaces;
  for (const Factor& factor : program.factors)
    if (!factor.per_example && !factor.exponents.empty())
      for (int32_t k = 0; k < factor.spaces; ++k) *turns++ = Angle(factor, k, exponents.shared);
  HalfTurns(spaces, turns - spaces, cosine, sine);
  double* matrix = values_.data();
  for (const Factor& factor : program.factors) {
    const int32_t entries = factor.size * factor.size;
    const double* projector = reinterpret_cast<const double*>(factor.projectors.data());
    if (factor.exponents.empty())
      std::copy_n(projector, 2 * entries, matrix);
    else if (!factor.per_example)
      for (int32_t k = 0; k < factor.spaces; ++k, projector += 2 * entries)
        AddPhased(entries, *cosine++, *sine++, projector, matrix);
    matrix += kReals;
  }
}

void SharedMatrices::SetFactorTangents(const GateTables& program, const Exponents& exponents) {
  const int64_t spaces = phases_.size() / 3;
  const double *cosine = phases_.data(), *sine = cosine + spaces;
  for (size_t f = 0; f < program.factors.size(); ++f) {
    const Factor& factor = program.factors[f];
    if (factor.per_example) continue;
    const int32_t entries = factor.size * factor.size;
    const double* projector = reinterpret_cast<const double*>(factor.projectors.data());
    for (int64_t e : factor.exponents)
      if (exponents.shared_tangents[e] != 0) has_tangent_[f] = true;
    if (factor.exponents.empty()) continue;
    for (int32_t k = 0; k < factor.spaces; ++k, projector += 2 * entries) {
      const double rate = M_PI * Angle(factor, k, exponents.shared_tangents);
      const double x = -rate * *sine++, y = rate * *cosine++;
      if (has_tangent_[f]) AddPhased(entries, x, y, projector, &tangents_[f * kReals]);
    }
  }
}

void SharedMatrices::SetProducts(const GateTables& program) {
  for (size_t s = 0; s < program.sequences.size(); ++s) {
    const FactorSequence& sequence = program.sequences[s];
    const int64_t at = factors_ + s;
    Matrix product = {}, next;
    for (int32_t i = 0; i < sequence.size; ++i) product[2 * i * (sequence.size + 1)] = 1;
    for (int64_t f : sequence.factors) {
      if (!tangents_.empty()) {
        Matrix tangent = {};
        const bool by_factor =
            AddProduct(sequence.size, factor_tangent(f), product.data(), tangent.data());
        has_tangent_[at] =
            AddProduct(sequence.size, factor(f), TangentAt(at), tangent.data()) || by_factor;
        std::copy(tangent.begin(), tangent.end(), &tangents_[at * kReals]);
      }
      Multiply(sequence.size, factor(f), product.data(), next.data());
      product = next;
    }
    std::copy(product.begin(), product.end(), &values_[at * kReals]);
  }
}

void ParameterGradients(const GateTables& program, const SharedMatrices& shared_matrices,
                        const std::vector<std::vector<double>>& sequence_sums, bool with_tangents,
                        double* gradients) {
  for (size_t r = 0; r < program.sequences.size(); ++r) {
    const FactorSequence& sequence = program.sequences[r];
    if (!sequence.has_exponents) continue;
    SequenceSums sums(sequence_sums[r], sequence.size, with_tangents);
    for (size_t left = sequence.factors.size(); left > 0; --left) {
      const int64_t f = sequence.factors[left - 1];
      const Factor& factor = program.factors[f];
      for (size_t e = 0; e < factor.exponents.size(); ++e)
        gradients[factor.exponents[e]] += Derivative(factor, e, sums.differentiated());
      if (left > 1) sums.Uncompute(shared_matrices.factor(f), shared_matrices.factor_tangent(f));
    }
  }
}

}  // namespace qfleet
