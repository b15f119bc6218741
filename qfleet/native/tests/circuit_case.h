// A circuit with examples and their expected results.
#ifndef QFLEET_TESTS_CIRCUIT_CASE_H_
#define QFLEET_TESTS_CIRCUIT_CASE_H_

#include <memory>
#include <string>
#include <vector>

#include "program/program.h"
#include "reference_simulator.h"
#include "testing.h"

namespace qfleet {
namespace tests {

template <class T>
constexpr double kTolerance = sizeof(T) == sizeof(float) ? 1e-5 : 1e-10;

// The inputs of one example and the reference results.
struct Example {
  std::vector<double> per_example, upstream;
  Amplitudes state, state_upstream;
  std::vector<double> values;
  Gradients gradients, state_gradients;
};

struct CircuitCase {
  // At most `max_active` per-example exponents of an example differ from 0.
  CircuitCase(const Circuit& circuit, int64_t examples, Random* random, int64_t max_active = 99);

  Circuit circuit;
  std::shared_ptr<const Program> program;
  std::vector<double> shared;
  std::vector<int64_t> order;  // bit i of the program's index is bit order[i] of the state's
  std::vector<Example> examples;
  std::string name;
};

// The results of the engine.
template <class T>
struct Results {
  ExactBuffer<T> values, states;
  ExactBuffer<double> shared, per_example, state_shared, state_each;
  bool operator==(const Results& other) const;
};

// Calls Expectation, Gradient, State and StateGradient for the first `batch` examples and compares
// with the reference. Variants of a call must be bit-identical.
template <class T>
Results<T> Compare(const CircuitCase& test_case, StateVectorEngine<T>* engine, int64_t batch,
                   int64_t threads, const std::string& context);

// Compares values and shared gradients in the batch's subspace, which must exist.
template <class T>
void CompareSubspace(const CircuitCase& test_case, StateVectorEngine<T>* engine, int64_t batch,
                     int64_t threads, const std::string& context);

// Compares values and gradients with the last blocks applied to the observables. Returns false if
// this does not support the batch; the program must have a cut.
template <class T>
bool CompareHeisenberg(const CircuitCase& test_case, const Kernels<T>& kernels, int64_t batch,
                       int64_t threads, const std::string& context);

// Calls all four with `exponent` for every exponent and ignores the results.
template <class T>
void CallAll(const Program& program, StateVectorEngine<T>* engine, int64_t batch, int64_t threads,
             double exponent);

}  // namespace tests
}  // namespace qfleet

#endif  // QFLEET_TESTS_CIRCUIT_CASE_H_
