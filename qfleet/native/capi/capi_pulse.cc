// qfleet.h: propagators of pulses.
#include <cmath>

#include "capi/capi_internal.h"
#include "pulses/propagation.h"

namespace qfleet {
namespace {

constexpr int64_t kMaxDimension = 256, kMaxOperators = 4096, kMaxSteps = int64_t{1} << 32;

int64_t InRange(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high)
    throw std::invalid_argument(std::string(name) + " must be from " + std::to_string(low) +
                                " to " + std::to_string(high) + ", not " + std::to_string(value));
  return value;
}

// The sets of an array of `each` numbers per set: one for all examples, or one per example.
int64_t Sets(const char* name, const double* numbers, int64_t count, int64_t each,
             int64_t examples) {
  const int64_t sets = count == each ? 1 : examples;
  CheckBuffer(name, numbers, count, Product(sets, each), sizeof(double));
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(numbers[i]))
      throw std::invalid_argument(std::string(name) + " must be finite, but number " +
                                  std::to_string(i) + " is " + std::to_string(numbers[i]));
  return sets;
}

PulseSteps StepsOf(const qfleet_pulse* pulse) {
  if (!pulse) throw std::invalid_argument("pulse must not be null");
  PulseSteps steps = {};
  steps.dimension = InRange("pulse.dimension", pulse->dimension, 1, kMaxDimension);
  steps.operators = InRange("pulse.operators", pulse->operators, 1, kMaxOperators);
  steps.examples = InRange("pulse.examples", pulse->examples, 1, kMaxSteps);
  steps.steps = InRange("pulse.steps", pulse->steps, 1, kMaxSteps);
  steps.segments = InRange("pulse.segments", pulse->segments, 1, steps.steps);
  const int64_t entries = 2 * steps.operators * steps.dimension * steps.dimension;
  steps.matrices = pulse->matrices;
  steps.matrix_sets =
      Sets("pulse.matrices", pulse->matrices, pulse->matrix_count, entries, steps.examples);
  steps.coefficients = pulse->coefficients;
  steps.coefficient_sets = Sets("pulse.coefficients", pulse->coefficients, pulse->coefficient_count,
                                Product(steps.steps, steps.operators), steps.examples);
  steps.unitary = pulse->unitary != 0;
  return steps;
}

int64_t ProductNumbers(const PulseSteps& steps) {
  return Product(Product(steps.examples, steps.segments), 2 * steps.dimension * steps.dimension);
}

}  // namespace
}  // namespace qfleet

using namespace qfleet;  // NOLINT: the functions of this file are in the global namespace

qfleet_status qfleet_pulse_products(const qfleet_pulse* pulse, double* products,
                                    int64_t product_count) {
  return RunGuarded(__func__, [&] {
    const PulseSteps steps = StepsOf(pulse);
    CheckBuffer("products", products, product_count, ProductNumbers(steps), sizeof(double));
    Propagation(steps).Products(ParallelOver(nullptr), products);
  });
}

qfleet_status qfleet_pulse_gradient(const qfleet_pulse* pulse, const double* seeds,
                                    int64_t seed_count, double* gradients, int64_t gradient_count) {
  return RunGuarded(__func__, [&] {
    const PulseSteps steps = StepsOf(pulse);
    CheckBuffer("seeds", seeds, seed_count, ProductNumbers(steps), sizeof(double));
    CheckBuffer("gradients", gradients, gradient_count,
                Product(steps.examples, Product(steps.steps, steps.operators)), sizeof(double));
    Propagation(steps).Gradients(ParallelOver(nullptr), seeds, gradients);
  });
}
