// Density programs: values and gradients of noise with a known result, for any width, pair of
// qubits, batch and instruction set, and corrupt programs.
#include <cmath>

#include "noisy/density_engine.h"
#include "noisy_results.h"
#include "program_words.h"
#include "testing.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

constexpr double kShrink = 0.8;

// On qubit a of a pair in |00>: X**x with x of the example, depolarizing noise, X**p. Then the same
// noise on a alone. The readout is 2 Z_a Z_b + 0.5 = 2 kShrink**2 cos(pi (x + p)) + 0.5.
Words NoisyPair(int64_t qubits, int64_t a, int64_t b) {
  Words words;
  words.ints = {3, qubits, 1, 1, 1, 0, 0, 0, 0, 0};  // exact, from |0>
  words.ints.push_back(2);
  for (int64_t exponent : {-1, 0}) words.AddPowerOfX(exponent);
  words.ints.insert(words.ints.end(), {1, 2, 1, 1});  // a sequence: X**p
  words.ints.insert(words.ints.end(), {2, 1, 2});     // channels on one and two qubits
  for (int64_t size : {4, 16})
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j)
        words.reals.push_back(i == j ? (i >= size / 4 ? kShrink : 1) : 0);
  words.ints.insert(words.ints.end(), {2,  // blocks
                                       qubits,
                                       2,
                                       a,
                                       b,
                                       3,  // live, qubits, digits, items
                                       -1,
                                       1,
                                       0,
                                       1,
                                       ~0,  // X**x
                                       1,
                                       2,
                                       0,  // noise
                                       -1,
                                       1,
                                       0,
                                       1,
                                       0,  // X**p
                                       std::max(a, b) + 1,
                                       1,
                                       a,
                                       1,  // a block of one qubit
                                       0,
                                       1,
                                       0});
  words.ints.insert(words.ints.end(),
                    {std::max(a, b) + 1, 1, int64_t{3} << 2 * a | int64_t{3} << 2 * b});
  words.reals.insert(words.reals.end(), {2, 0.5});
  return words;
}

}  // namespace

void DensityResults(bool light) {
  NoisyResults<DensityEngine, DensityProgram>(2 * kShrink * kShrink, NoisyPair, light);
}

void CorruptDensity(bool light) {
  const Words valid = NoisyPair(3, 0, 2);
  TryCorrupted(valid, light);
  Words other = valid;
  other.reals[other.reals.size() - 20] = std::nan("");
  CHECK(IsRejected(other), "a channel that is not finite");
  other = valid;
  other.ints.erase(other.ints.end() - 6, other.ints.end() - 3);
  other.ints[other.ints.size() - 4] = 0;
  CHECK(IsRejected(other), "a block without items");
  other = valid;
  other.ints.back() = int64_t{1} << 6;
  CHECK(IsRejected(other), "a string of a qubit that is traced out");
}

}  // namespace tests
}  // namespace qfleet
