#include "reference_simulator.h"

#include <cmath>

namespace qfleet {
namespace tests {
namespace {

Matrix Dagger(const Matrix& matrix, int64_t size) {
  Matrix dagger(matrix.size());
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < size; ++j) dagger[j * size + i] = std::conj(matrix[i * size + j]);
  return dagger;
}

void Apply(const Matrix& matrix, const std::vector<int64_t>& bits, Amplitudes* psi) {
  const int64_t size = int64_t{1} << bits.size();
  int64_t at[4] = {}, mask = 0;
  for (int64_t row = 0; row < size; ++row)
    for (size_t q = 0; q < bits.size(); ++q)
      at[row] |= (row >> (bits.size() - 1 - q) & 1) << bits[q];
  for (int64_t bit : bits) mask |= int64_t{1} << bit;
  for (int64_t x = 0; x < static_cast<int64_t>(psi->size()); ++x) {
    if (x & mask) continue;
    Complex in[4];
    for (int64_t i = 0; i < size; ++i) in[i] = (*psi)[x | at[i]];
    for (int64_t i = 0; i < size; ++i) {
      Complex sum = 0;
      for (int64_t j = 0; j < size; ++j) sum += matrix[i * size + j] * in[j];
      (*psi)[x | at[i]] = sum;
    }
  }
}

// The adjoint method gate by gate: d psi / d t_e is i pi H_e psi right after the gate.
Gradients AdjointGradients(const Circuit& circuit, const double* shared, const double* per_example,
                           Amplitudes psi, Amplitudes lambda) {
  Gradients gradients = {std::vector<double>(circuit.shared),
                         std::vector<double>(circuit.per_example)};
  for (auto block = circuit.blocks.rbegin(); block != circuit.blocks.rend(); ++block)
    for (auto g = block->gates.rbegin(); g != block->gates.rend(); ++g) {
      const Gate& gate = circuit.gates[*g];
      for (size_t e = 0; e < gate.exponents.size(); ++e) {
        Amplitudes derivative = psi;
        Apply(gate.Generator(e), block->bits, &derivative);
        double gradient = 0;
        for (size_t x = 0; x < psi.size(); ++x)
          gradient += 2 * (std::conj(lambda[x]) * Complex(0, M_PI) * derivative[x]).real();
        const int64_t exponent = gate.exponents[e];
        (exponent < 0 ? gradients.per_example[~exponent] : gradients.shared[exponent]) += gradient;
      }
      const Matrix inverse = Dagger(gate.At(shared, per_example), gate.size);
      Apply(inverse, block->bits, &psi);
      Apply(inverse, block->bits, &lambda);
    }
  return gradients;
}

}  // namespace

Amplitudes State(const Circuit& circuit, const double* shared, const double* per_example) {
  Amplitudes psi(circuit.initial);
  if (psi.empty()) {
    psi.resize(int64_t{1} << circuit.qubits);
    psi[0] = 1;
  }
  for (const Block& block : circuit.blocks)
    for (int64_t g : block.gates) Apply(circuit.gates[g].At(shared, per_example), block.bits, &psi);
  return psi;
}

Amplitudes ApplyPauli(const Pauli& string, const Amplitudes& psi) {
  const Complex powers[] = {1, {0, 1}, -1, {0, -1}};  // of i
  Amplitudes out(psi.size());
  for (int64_t x = 0; x < static_cast<int64_t>(psi.size()); ++x) {
    const double sign = __builtin_parityll(x & string.z) ? -1 : 1;
    out[x ^ string.flip] = powers[string.ys % 4] * sign * psi[x];
  }
  return out;
}

std::vector<double> ExpectationValues(const Circuit& circuit, const Amplitudes& psi) {
  std::vector<double> values = circuit.offsets;
  for (const Pauli& string : circuit.strings) {
    const Amplitudes other = ApplyPauli(string, psi);
    Complex sum = 0;
    for (size_t x = 0; x < psi.size(); ++x) sum += std::conj(psi[x]) * other[x];
    for (size_t k = 0; k < values.size(); ++k) values[k] += string.weights[k] * sum.real();
  }
  return values;
}

// sum_k upstream_k O_k psi.
static Amplitudes ApplyObservables(const Circuit& circuit, const double* upstream,
                                   const Amplitudes& psi) {
  Amplitudes lambda(psi.size());
  for (const Pauli& string : circuit.strings) {
    double weight = 0;
    for (size_t k = 0; k < circuit.offsets.size(); ++k) weight += upstream[k] * string.weights[k];
    const Amplitudes other = ApplyPauli(string, psi);
    for (size_t x = 0; x < psi.size(); ++x) lambda[x] += weight * other[x];
  }
  return lambda;
}

Gradients ExpectationGradients(const Circuit& circuit, const double* shared,
                               const double* per_example, const double* upstream) {
  const Amplitudes psi = State(circuit, shared, per_example);
  return AdjointGradients(circuit, shared, per_example, psi,
                          ApplyObservables(circuit, upstream, psi));
}

// Gate by gate, with the product rule for each.
HessianVectorProduct ExpectationHvp(const Circuit& circuit, const double* shared,
                                    const double* per_example, const double* shared_tangents,
                                    const double* per_example_tangents, const double* upstream) {
  Amplitudes psi(circuit.initial);
  if (psi.empty()) {
    psi.resize(int64_t{1} << circuit.qubits);
    psi[0] = 1;
  }
  const auto apply = [](const Matrix& matrix, const Matrix& tangent,
                        const std::vector<int64_t>& bits, Amplitudes* x, Amplitudes* dx) {
    Amplitudes added = *x;
    Apply(tangent, bits, &added);
    Apply(matrix, bits, x);
    Apply(matrix, bits, dx);
    for (size_t i = 0; i < added.size(); ++i) (*dx)[i] += added[i];
  };
  Amplitudes dpsi(psi.size());
  for (const Block& block : circuit.blocks)
    for (int64_t g : block.gates)
      apply(circuit.gates[g].At(shared, per_example),
            circuit.gates[g].TangentAt(shared, per_example, shared_tangents, per_example_tangents),
            block.bits, &psi, &dpsi);
  HessianVectorProduct hvp = {
      std::vector<double>(circuit.offsets.size()),
      {std::vector<double>(circuit.shared), std::vector<double>(circuit.per_example)}};
  for (const Pauli& string : circuit.strings) {
    const Amplitudes other = ApplyPauli(string, psi);
    double sum = 0;
    for (size_t x = 0; x < psi.size(); ++x) sum += 2 * (std::conj(dpsi[x]) * other[x]).real();
    for (size_t k = 0; k < hvp.value_tangents.size(); ++k)
      hvp.value_tangents[k] += string.weights[k] * sum;
  }
  Amplitudes lambda = ApplyObservables(circuit, upstream, psi),
             dlambda = ApplyObservables(circuit, upstream, dpsi);
  for (auto block = circuit.blocks.rbegin(); block != circuit.blocks.rend(); ++block)
    for (auto g = block->gates.rbegin(); g != block->gates.rend(); ++g) {
      const Gate& gate = circuit.gates[*g];
      for (size_t e = 0; e < gate.exponents.size(); ++e) {
        Amplitudes h_psi = psi, h_dpsi = dpsi;
        Apply(gate.Generator(e), block->bits, &h_psi);
        Apply(gate.Generator(e), block->bits, &h_dpsi);
        double result = 0;
        for (size_t x = 0; x < psi.size(); ++x)
          result += 2 * (Complex(0, M_PI) *
                         (std::conj(dlambda[x]) * h_psi[x] + std::conj(lambda[x]) * h_dpsi[x]))
                            .real();
        const int64_t exponent = gate.exponents[e];
        (exponent < 0 ? hvp.results.per_example[~exponent] : hvp.results.shared[exponent]) +=
            result;
      }
      const Matrix inverse = Dagger(gate.At(shared, per_example), gate.size);
      const Matrix tangent = Dagger(
          gate.TangentAt(shared, per_example, shared_tangents, per_example_tangents), gate.size);
      apply(inverse, tangent, block->bits, &psi, &dpsi);
      apply(inverse, tangent, block->bits, &lambda, &dlambda);
    }
  return hvp;
}

Gradients StateGradients(const Circuit& circuit, const double* shared, const double* per_example,
                         const Amplitudes& upstream) {
  Amplitudes lambda(upstream);
  for (Complex& x : lambda) x /= 2;
  return AdjointGradients(circuit, shared, per_example, State(circuit, shared, per_example),
                          lambda);
}

}  // namespace tests
}  // namespace qfleet
