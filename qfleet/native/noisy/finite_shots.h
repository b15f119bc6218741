// Readouts of examples from the expectation values of strings, exact or estimated from shots.
#ifndef QFLEET_FINITE_SHOTS_H_
#define QFLEET_FINITE_SHOTS_H_

#include <cstdint>
#include <vector>

#include "noisy/noisy_program.h"
#include "program/program_matrices.h"

namespace qfleet {

// A number of an example that depends on exponents only, so that it draws the same random numbers
// in any batch, in the gradient that follows, and on any thread.
uint64_t ExampleKey(const NoisyProgram& program, const Exponents& exponents);

// Returns an example's readouts, given the expectation value of each string.
std::vector<double> Readouts(const NoisyProgram& program, const Exponents& exponents,
                             const std::vector<double>& strings);

// Returns dL/d<string> of each string of an example, given dL/dreadout.
std::vector<double> StringWeights(const NoisyProgram& program, const std::vector<double>& upstream);

// The number of successes of `trials`, each with this probability. `key` numbers the sample.
int64_t BinomialSample(int64_t trials, double probability, uint64_t seed, uint64_t key,
                       uint64_t example_key);

}  // namespace qfleet

#endif  // QFLEET_FINITE_SHOTS_H_
