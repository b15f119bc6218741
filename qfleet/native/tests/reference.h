// What the kernel must find: one example at a time, by plain matrix application in double.
#ifndef QFLEET_TESTS_REFERENCE_H_
#define QFLEET_TESTS_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "circuit.h"

namespace qfleet {
namespace tests {

using Amplitudes = std::vector<Complex>;

struct Slopes {
  std::vector<double> shared, each;
};

Amplitudes State(const Circuit& circuit, const double* shared, const double* each);

// P psi.
Amplitudes Applied(const Pauli& string, const Amplitudes& psi);

// <psi|O_k|psi>.
std::vector<double> Values(const Circuit& circuit, const Amplitudes& psi);

// The derivatives of sum_k upstream_k <O_k>.
Slopes ValueSlopes(const Circuit& circuit, const double* shared, const double* each,
                   const double* upstream);

// The derivatives of Re <upstream|psi>.
Slopes StateSlopes(const Circuit& circuit, const double* shared, const double* each,
                   const Amplitudes& upstream);

}  // namespace tests
}  // namespace qfleet

#endif  // QFLEET_TESTS_REFERENCE_H_
