// Random numbers of examples, and expectation values estimated from a finite number of shots.
#ifndef QFLEET_FINITE_SHOTS_H_
#define QFLEET_FINITE_SHOTS_H_

#include <cstdint>

#include "program/noisy_block.h"
#include "program/program_matrices.h"

namespace qfleet {

// A number of an example that depends on exponents only, so that it draws the same random numbers
// in any batch, in the gradient that follows, and on any thread.
uint64_t ExampleKey(const ProgramSizes& program, const ShotSettings& settings,
                    const Exponents& exponents);

// The mean of a Pauli string over `settings.shots` measurements, given its expectation value: a
// binomial sample. Without shots, the expectation value itself.
double SampledMean(const ShotSettings& settings, double expectation, int64_t string,
                   uint64_t example_key);

// The number of successes of `trials`, each with this probability. `key` numbers the sample.
int64_t BinomialSample(int64_t trials, double probability, uint64_t seed, uint64_t key,
                       uint64_t example_key);

}  // namespace qfleet

#endif  // QFLEET_FINITE_SHOTS_H_
