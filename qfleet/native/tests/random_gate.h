// Random gates, as matrix powers defined by eigenspaces.
#ifndef QFLEET_TESTS_RANDOM_GATE_H_
#define QFLEET_TESTS_RANDOM_GATE_H_

#include <complex>
#include <cstdint>
#include <random>
#include <vector>

namespace qfleet {
namespace tests {

using Complex = std::complex<double>;
using Matrix = std::vector<Complex>;  // [D * D], row-major
using Random = std::mt19937_64;

double RandomReal(Random* random, double from, double to);
int64_t RandomInt(Random* random, int64_t from, int64_t to);  // inclusive
Matrix Times(const Matrix& a, const Matrix& b, int64_t size);

// sum_k exp(i pi sum_e half_turns[k * E + e] t_e) projectors[k]; projectors[0] without exponents.
struct Gate {
  int64_t size;                    // D: 2 or 4
  std::vector<int64_t> exponents;  // e >= 0: shared[e]; e < 0: per_example[~e]
  std::vector<double> half_turns;
  std::vector<Matrix> projectors;

  Matrix At(const double* shared, const double* per_example) const;
  // The derivative of At in the direction of these tangents.
  Matrix TangentAt(const double* shared, const double* per_example, const double* shared_tangents,
                   const double* per_example_tangents) const;
  Matrix Generator(size_t e) const;  // H of exp(i pi H t_e)
  bool HasPerExample() const;
  bool HasShared() const;
};

enum Kind { kDense, kDiagonal, kPermuting, kControlled, kSingle };

// A gate with random eigenphases; a fixed unitary without exponents. `kSingle` is a one-qubit gate
// in a two-qubit block.
Gate RandomGate(int64_t size, Kind kind, const std::vector<int64_t>& exponents, Random* random);

}  // namespace tests
}  // namespace qfleet

#endif  // QFLEET_TESTS_RANDOM_GATE_H_
