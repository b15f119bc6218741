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
#include "program/shared_matrices.h"

namespace qfleet {

// True if a factor is the identity for all of these examples, and no gradients of it are wanted.
bool IsAbsent(const GateTables& program, const Factor& factor, const Exponents& exponents);
// True if all factors of a block are absent.
bool IsAbsent(const GateTables& program, const MatrixProduct& block, const Exponents& exponents);

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

}  // namespace qfleet

#endif  // QFLEET_PROGRAM_MATRICES_H_
