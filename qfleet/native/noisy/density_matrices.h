// The real matrices of a density program's blocks, and the gradients of their exponents.
//
// With M the matrix of a unitary U on Pauli coefficients and L a function of its result,
//     dL = sum(G dM) = 2 Re tr(dU U^dagger S),  S = sum_PR (G M^T)_PR R P / D,
// so S takes the place of psi lambda^dagger in program_matrices.h.
#ifndef QFLEET_DENSITY_MATRICES_H_
#define QFLEET_DENSITY_MATRICES_H_

#include <cstdint>
#include <vector>

#include "noisy/noisy_program.h"
#include "program/program_matrices.h"

namespace qfleet {

// A block's matrices [size * size] of one example, or of all.
struct BlockProducts {
  std::vector<std::vector<double>> items;     // each item's own matrix, on all qubits of the block
  std::vector<std::vector<double>> products;  // of the items up to and with each one
};

// Returns the products of consecutive examples; one for all if the block is not per-example.
std::vector<BlockProducts> ProductsOf(const DensityProgram& program, const DensityBlock& block,
                                      const SharedMatrices& shared_matrices,
                                      const Exponents& exponents, int64_t samples);

// As BlockGradients, given dL/dmatrix [size * size] of each sample of `products`.
void DensityBlockGradients(const DensityProgram& program, const DensityBlock& block,
                           const SharedMatrices& shared_matrices, const Exponents& exponents,
                           const std::vector<BlockProducts>& products, bool want_per_example,
                           std::vector<std::vector<double>>* derivatives,
                           std::vector<std::vector<double>>* sequence_sums,
                           double* shared_gradients, double* per_example_gradients);

}  // namespace qfleet

#endif  // QFLEET_DENSITY_MATRICES_H_
