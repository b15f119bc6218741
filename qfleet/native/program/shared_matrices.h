// The matrices of exponents that all examples share, and gradients by these exponents.
#ifndef QFLEET_SHARED_MATRICES_H_
#define QFLEET_SHARED_MATRICES_H_

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace qfleet {

// The exponents of consecutive examples and their tangents; null tangents are 0.
struct Exponents {
  const double* shared;                          // [E]
  const double* shared_tangents = nullptr;       // [E]
  const double* per_example = nullptr;           // [present][F]
  const double* per_example_tangents = nullptr;  // [present][F]
  int64_t present = 0;                           // the samples after these have exponents of 0
  bool zeros_are_absent = false;                 // factors with exponents of 0 have no gradients
};

// Matrices [D * D] (re, im) of one call's shared exponents: each factor that examples share, and
// the product of each factor sequence. Their tangents are null where they are 0.
class SharedMatrices {
 public:
  SharedMatrices(const GateTables& program, const Exponents& exponents);

  const double* factor(int64_t f) const { return &values_[f * kReals]; }
  const double* factor_tangent(int64_t f) const { return TangentAt(f); }
  const double* product(int64_t sequence) const { return &values_[(factors_ + sequence) * kReals]; }
  const double* product_tangent(int64_t sequence) const { return TangentAt(factors_ + sequence); }

 private:
  static constexpr int64_t kReals = 2 * 4 * 4;  // of a matrix, and from one to the next

  void SetFactors(const GateTables& program, const Exponents& exponents);
  void SetFactorTangents(const GateTables& program, const Exponents& exponents);
  void SetProducts(const GateTables& program);
  const double* TangentAt(int64_t at) const {
    return !tangents_.empty() && has_tangent_[at] ? &tangents_[at * kReals] : nullptr;
  }

  int64_t factors_;
  std::vector<double> phases_;  // of each eigenspace of each shared factor: cosines, then sines
  std::vector<double> values_, tangents_;  // of factors, then of products
  std::vector<char> has_tangent_;
};

// Adds the gradients of all factor sequences to gradients[E], given their sums, or their tangents
// if `with_tangents`.
void ParameterGradients(const GateTables& program, const SharedMatrices& shared_matrices,
                        const std::vector<std::vector<double>>& sequence_sums, bool with_tangents,
                        double* gradients);

}  // namespace qfleet

#endif  // QFLEET_SHARED_MATRICES_H_
