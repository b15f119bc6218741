// The small matrices of a program's blocks for given exponents, and gradients from their sums.
#ifndef QFLEET_PROGRAM_MATRICES_H_
#define QFLEET_PROGRAM_MATRICES_H_

#include <cstdint>
#include <vector>

#include "program.h"

namespace qfleet {

// Matrices [D * D] (re, im) of one call's shared exponents: the product of each factor sequence,
// and each factor that examples share.
struct SharedMatrices {
  SharedMatrices(const Program& program, const double* shared);
  std::vector<std::vector<double>> products, factors;
};

// Computes a block's matrices [D * D] (re, im) [samples] for consecutive examples. Samples from
// `present` on have zero exponents. A block shared by all examples needs one sample.
void BlockMatrices(const Program& program, const Block& block,
                   const SharedMatrices& shared_matrices, const double* shared,
                   const double* per_example, int64_t present, int64_t samples,
                   std::vector<double>* out);

// Evaluates a block's sums psi lambda^dagger [col * D + row] (re, im) [samples], taken after the
// block:
//   - adds the sums before each factor sequence to sequence_sums[sequence] ([D * D] (re, im));
//   - adds gradients of per-example exponents to per_example_gradients[b][F];
//   - adds gradients of shared exponents in per-example factors to shared_gradients[E].
void BlockGradients(const Program& program, const Block& block,
                    const SharedMatrices& shared_matrices, const double* shared,
                    const double* per_example, int64_t present, int64_t samples,
                    bool want_per_example, const double* sums,
                    std::vector<std::vector<double>>* sequence_sums, double* shared_gradients,
                    double* per_example_gradients);

// Adds the gradients of all factor sequences to gradients[E], given their sums.
void ParameterGradients(const Program& program, const SharedMatrices& shared_matrices,
                        const std::vector<std::vector<double>>& sequence_sums, double* gradients);

}  // namespace qfleet

#endif  // QFLEET_PROGRAM_MATRICES_H_
