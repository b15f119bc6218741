#include "noisy/density_matrices.h"

#include <algorithm>

#include "cpu/kernels.h"

namespace qfleet {
namespace {

// The matrix [D**2][D**2] of a unitary u [D * D] (re, im) [samples] of one sample.
std::vector<double> PauliMatrix(const std::vector<double>& u, int32_t qubits, int64_t samples,
                                int64_t s) {
  const int32_t size = 1 << 2 * qubits;
  double own[2 * 16];
  for (int32_t i = 0; i < 2 * size; ++i) own[i] = u[i * samples + s];
  std::vector<double> out(size * size);
  BestWordKernels().from_unitary(qubits, own, out.data());
  return out;
}

std::vector<double> Times(int32_t qubits, const std::vector<double>& a,
                          const std::vector<double>& b) {
  std::vector<double> out(a.size());
  BestWordKernels().multiply(qubits, a.data(), b.data(), out.data());
  return out;
}

std::vector<double> Transposed(const std::vector<double>& matrix, int32_t size) {
  std::vector<double> out(size * size);
  for (int32_t i = 0; i < size; ++i)
    for (int32_t j = 0; j < size; ++j) out[j * size + i] = matrix[i * size + j];
  return out;
}

// The matrix of one qubit on two, of which it is the upper one (place 0) or the lower one.
std::vector<double> OnTwo(const std::vector<double>& matrix, int32_t place) {
  std::vector<double> out(256);
  const int32_t own = place == 0 ? 4 : 1, other = 5 - own;
  for (int32_t rest = 0; rest < 4; ++rest)
    for (int32_t i = 0; i < 4; ++i)
      for (int32_t j = 0; j < 4; ++j)
        out[(i * own + rest * other) * 16 + j * own + rest * other] = matrix[i * 4 + j];
  return out;
}

// The sum of the entries of a matrix on two qubits that OnTwo would spread.
std::vector<double> OfOne(const std::vector<double>& matrix, int32_t place) {
  std::vector<double> out(16);
  const int32_t own = place == 0 ? 4 : 1, other = 5 - own;
  for (int32_t rest = 0; rest < 4; ++rest)
    for (int32_t i = 0; i < 4; ++i)
      for (int32_t j = 0; j < 4; ++j)
        out[i * 4 + j] += matrix[(i * own + rest * other) * 16 + j * own + rest * other];
  return out;
}

// Adds S, see density_matrices.h, to sums [col * D + row] (re, im) [samples] of one sample.
void AddSums(const std::vector<double>& correlation, int32_t qubits, int64_t samples, int64_t s,
             std::vector<double>* sums) {
  double own[2 * 16];
  BestWordKernels().sums(qubits, correlation.data(), own);
  for (int32_t i = 0; i < 2 << 2 * qubits; ++i) (*sums)[i * samples + s] += own[i];
}

}  // namespace

std::vector<BlockProducts> ProductsOf(const DensityProgram& program, const DensityBlock& block,
                                      const SharedMatrices& shared_matrices,
                                      const Exponents& exponents, int64_t samples) {
  const int64_t count = block.per_example ? samples : 1;
  std::vector<BlockProducts> out(count);
  for (const NoisyItem& item : block.items) {
    const int64_t own = item.channel < 0 && item.product.per_example ? count : 1;
    std::vector<double> unitaries, tangents;
    if (item.channel < 0)
      BlockMatrices(program, item.product, shared_matrices, exponents, own, &unitaries, &tangents);
    std::vector<double> matrix;
    for (int64_t s = 0; s < count; ++s) {
      if (s < own) {
        matrix = item.channel >= 0 ? program.channels[item.channel].matrix
                                   : PauliMatrix(unitaries, item.product.qubits, own, s);
        if (block.IsNarrow(item)) matrix = OnTwo(matrix, item.place);
      }
      BlockProducts& to = out[s];
      to.products.push_back(to.products.empty() ? matrix
                                                : Times(block.qubits, matrix, to.products.back()));
      to.items.push_back(matrix);
    }
  }
  return out;
}

void DensityBlockGradients(const DensityProgram& program, const DensityBlock& block,
                           const SharedMatrices& shared_matrices, const Exponents& exponents,
                           const std::vector<BlockProducts>& products, bool want_per_example,
                           std::vector<std::vector<double>>* derivatives,
                           std::vector<std::vector<double>>* sequence_sums,
                           double* shared_gradients, double* per_example_gradients) {
  const int64_t count = products.size();
  // G is kept transposed, so that all products are of rows: M G^T and G^T M.
  for (std::vector<double>& derivative : *derivatives)
    derivative = Transposed(derivative, block.size());
  for (size_t left = block.items.size(); left > 0; --left) {
    const NoisyItem& item = block.items[left - 1];
    if (item.channel < 0) {
      // A shared item of a per-example block has one sum for all examples.
      const int64_t samples = item.product.per_example ? count : 1;
      const int32_t dim = item.product.size();
      std::vector<double> sums(2 * dim * dim * samples);
      for (int64_t s = 0; s < count; ++s) {
        std::vector<double> correlation =
            Times(block.qubits, products[s].products[left - 1], (*derivatives)[s]);
        if (block.IsNarrow(item)) correlation = OfOne(correlation, item.place);
        AddSums(correlation, item.product.qubits, samples, samples == 1 ? 0 : s, &sums);
      }
      BlockGradients(program, item.product, shared_matrices, exponents, samples, want_per_example,
                     sums.data(), nullptr, sequence_sums, shared_gradients, per_example_gradients);
    }
    if (left == 1) return;
    for (int64_t s = 0; s < count; ++s)
      (*derivatives)[s] = Times(block.qubits, (*derivatives)[s], products[s].items[left - 1]);
  }
}

}  // namespace qfleet
