#include "noisy/density_matrices.h"

#include <algorithm>

namespace qfleet {
namespace {

// A Pauli word on one or two qubits: P|x> = i**ys (-1)**popcount(x & z) |x ^ flip>.
struct PauliWord {
  int32_t flip, z, ys;

  Complex Phase(int32_t x) const {
    static const Complex kPowers[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
    return kPowers[(ys + 2 * __builtin_popcount(x & z)) % 4];
  }
};

// The word of an index, whose lowest digit is the lowest qubit.
PauliWord WordOf(int32_t index, int32_t qubits) {
  PauliWord word = {0, 0, 0};
  for (int32_t q = 0; q < qubits; ++q) {
    const int32_t letter = index >> 2 * q & 3;  // I, X, Y, Z
    word.flip |= (letter == 1 || letter == 2) << q;
    word.z |= (letter == 2 || letter == 3) << q;
    word.ys += letter == 2;
  }
  return word;
}

// The matrix [D**2][D**2] of a unitary u [D * D] (re, im) [samples] of one sample.
std::vector<double> PauliMatrix(const std::vector<double>& u, int32_t qubits, int64_t samples,
                                int64_t s) {
  const int32_t dim = 1 << qubits, size = dim * dim;
  Complex matrix[16], product[16], conjugated[16];
  for (int32_t i = 0; i < size; ++i)
    matrix[i] = {u[2 * i * samples + s], u[(2 * i + 1) * samples + s]};
  std::vector<double> out(size * size);
  for (int32_t q = 0; q < size; ++q) {
    const PauliWord word = WordOf(q, qubits);
    // u Q: column x of it is a column of u times a phase.
    for (int32_t x = 0; x < dim; ++x)
      for (int32_t i = 0; i < dim; ++i)
        product[i * dim + x] = matrix[i * dim + (x ^ word.flip)] * word.Phase(x);
    for (int32_t i = 0; i < dim; ++i)
      for (int32_t j = 0; j < dim; ++j) {
        Complex sum = 0;
        for (int32_t x = 0; x < dim; ++x)
          sum += product[i * dim + x] * std::conj(matrix[j * dim + x]);
        conjugated[i * dim + j] = sum;
      }
    for (int32_t p = 0; p < size; ++p) {
      const PauliWord row = WordOf(p, qubits);
      double trace = 0;
      for (int32_t x = 0; x < dim; ++x)
        trace += (row.Phase(x) * conjugated[x * dim + (x ^ row.flip)]).real();
      out[p * size + q] = trace / dim;
    }
  }
  return out;
}

// out = a b, with b transposed or a transposed.
std::vector<double> Times(const std::vector<double>& a, bool transpose_a,
                          const std::vector<double>& b, bool transpose_b, int32_t size) {
  std::vector<double> out(size * size);
  for (int32_t i = 0; i < size; ++i)
    for (int32_t k = 0; k < size; ++k) {
      const double left = transpose_a ? a[k * size + i] : a[i * size + k];
      if (left == 0) continue;
      for (int32_t j = 0; j < size; ++j)
        out[i * size + j] += left * (transpose_b ? b[j * size + k] : b[k * size + j]);
    }
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

// Writes S, see density_matrices.h, as sums [col * D + row] (re, im) [samples] of one sample.
void WriteSums(const std::vector<double>& correlation, int32_t qubits, int64_t samples, int64_t s,
               std::vector<double>* sums) {
  const int32_t dim = 1 << qubits, size = dim * dim;
  for (int32_t p = 0; p < size; ++p) {
    const PauliWord right = WordOf(p, qubits);
    for (int32_t r = 0; r < size; ++r) {
      const double weight = correlation[p * size + r] / dim;
      if (weight == 0) continue;
      const PauliWord left = WordOf(r, qubits);
      for (int32_t x = 0; x < dim; ++x) {
        const int32_t middle = x ^ right.flip;
        const Complex entry = weight * right.Phase(x) * left.Phase(middle);
        const int64_t at = 2 * ((middle ^ left.flip) * dim + x) * samples + s;
        (*sums)[at] += entry.real();
        (*sums)[at + samples] += entry.imag();
      }
    }
  }
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
      to.products.push_back(to.products.empty()
                                ? matrix
                                : Times(matrix, false, to.products.back(), false, block.size()));
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
  const int32_t size = block.size();
  const int64_t count = products.size();
  for (size_t left = block.items.size(); left > 0; --left) {
    const NoisyItem& item = block.items[left - 1];
    if (item.channel < 0) {
      // A shared item of a per-example block has one sum for all examples.
      const int64_t samples = item.product.per_example ? count : 1;
      const int32_t dim = item.product.size();
      std::vector<double> sums(2 * dim * dim * samples);
      for (int64_t s = 0; s < count; ++s) {
        std::vector<double> correlation =
            Times((*derivatives)[s], false, products[s].products[left - 1], true, size);
        if (block.IsNarrow(item)) correlation = OfOne(correlation, item.place);
        WriteSums(correlation, item.product.qubits, samples, samples == 1 ? 0 : s, &sums);
      }
      BlockGradients(program, item.product, shared_matrices, exponents, samples, want_per_example,
                     sums.data(), nullptr, sequence_sums, shared_gradients, per_example_gradients);
    }
    if (left == 1) return;
    for (int64_t s = 0; s < count; ++s)
      (*derivatives)[s] = Times(products[s].items[left - 1], true, (*derivatives)[s], false, size);
  }
}

}  // namespace qfleet
