// A reference simulator: one example at a time, in double precision, matrix by matrix.
#ifndef QFLEET_TESTS_REFERENCE_SIMULATOR_H_
#define QFLEET_TESTS_REFERENCE_SIMULATOR_H_

#include <cstdint>
#include <vector>

#include "random_circuit.h"

namespace qfleet {
namespace tests {

using Amplitudes = std::vector<Complex>;

struct Gradients {
  std::vector<double> shared, per_example;
};

Amplitudes State(const Circuit& circuit, const double* shared, const double* per_example);

// P psi.
Amplitudes ApplyPauli(const Pauli& string, const Amplitudes& psi);

// <psi|O_k|psi>.
std::vector<double> ExpectationValues(const Circuit& circuit, const Amplitudes& psi);

// The derivatives of sum_k upstream_k <O_k>.
Gradients ExpectationGradients(const Circuit& circuit, const double* shared,
                               const double* per_example, const double* upstream);

// The directional derivatives of the expectation values and of ExpectationGradients.
struct HessianVectorProduct {
  std::vector<double> value_tangents;
  Gradients results;
};
HessianVectorProduct ExpectationHvp(const Circuit& circuit, const double* shared,
                                    const double* per_example, const double* shared_tangents,
                                    const double* per_example_tangents, const double* upstream);

// The derivatives of Re <upstream|psi>.
Gradients StateGradients(const Circuit& circuit, const double* shared, const double* per_example,
                         const Amplitudes& upstream);

}  // namespace tests
}  // namespace qfleet

#endif  // QFLEET_TESTS_REFERENCE_SIMULATOR_H_
