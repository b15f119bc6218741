// The small matrices of a program's blocks for given exponents, and gradients from their sums.
//
// If the exponents have tangents, so have the matrices: their derivatives in this direction. The
// sums of a block then have tangents too, and the results are tangents of gradients, the product
// of the Hessian and the direction: H in dL/dt = -2 pi Im tr(H Y) does not depend on exponents.
#ifndef QFLEET_PROGRAM_MATRICES_H_
#define QFLEET_PROGRAM_MATRICES_H_

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
};

// Matrices [D * D] (re, im) of one call's shared exponents: the product of each factor sequence,
// and each factor that examples share. The tangent of a constant matrix is empty.
struct SharedMatrices {
  SharedMatrices(const GateTables& program, const Exponents& exponents);
  std::vector<std::vector<double>> products, factors;
  std::vector<std::vector<double>> product_tangents, factor_tangents;
};

// Computes a block's matrices [D * D] (re, im) [samples] for consecutive examples, and their
// tangents, which are empty if they are 0. A block shared by all examples needs one sample.
void BlockMatrices(const GateTables& program, const MatrixProduct& block,
                   const SharedMatrices& shared_matrices, const Exponents& exponents,
                   int64_t samples, std::vector<double>* out, std::vector<double>* tangents);

// Evaluates a block's sums psi lambda^dagger [col * D + row] (re, im) [samples], taken after the
// block:
//   - adds the sums before each factor sequence to sequence_sums[sequence] ([D * D] (re, im), and
//     then their tangents);
//   - adds gradients of per-example exponents to per_example_gradients[b][F];
//   - adds gradients of shared exponents in per-example factors to shared_gradients[E].
// `sum_tangents` is null for gradients.
void BlockGradients(const GateTables& program, const MatrixProduct& block,
                    const SharedMatrices& shared_matrices, const Exponents& exponents,
                    int64_t samples, bool want_per_example, const double* sums,
                    const double* sum_tangents, std::vector<std::vector<double>>* sequence_sums,
                    double* shared_gradients, double* per_example_gradients);

// What the reverse passes of some examples add up, for all of them.
struct GradientSums {
  explicit GradientSums(const GateTables& program);
  void Add(const GradientSums& other);

  std::vector<std::vector<double>> sequences;  // as sequence_sums of BlockGradients
  std::vector<double> shared;                  // of shared exponents in per-example factors
};

// Adds the gradients of all factor sequences to gradients[E], given their sums, or their tangents
// if `with_tangents`.
void ParameterGradients(const GateTables& program, const SharedMatrices& shared_matrices,
                        const std::vector<std::vector<double>>& sequence_sums, bool with_tangents,
                        double* gradients);

}  // namespace qfleet

#endif  // QFLEET_PROGRAM_MATRICES_H_
