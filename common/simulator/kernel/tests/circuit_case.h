// A circuit with examples, and what the kernel must find for them.
#ifndef QFLEET_TESTS_CIRCUIT_CASE_H_
#define QFLEET_TESTS_CIRCUIT_CASE_H_

#include <memory>
#include <string>
#include <vector>

#include "../program.h"
#include "reference_simulator.h"
#include "testing.h"

namespace qfleet {
namespace tests {

template <class T>
constexpr double kTolerance = sizeof(T) == sizeof(float) ? 1e-5 : 1e-10;

// One example: its inputs, and the reference's results.
struct Example {
  std::vector<double> per_example, upstream;
  Amplitudes state, state_upstream;
  std::vector<double> values;
  Gradients gradients, state_gradients;
};

struct CircuitCase {
  // Of each example's own exponents at most `turned` are not zero.
  CircuitCase(const Circuit& circuit, int64_t examples, Random* random, int64_t max_active = 99);

  Circuit circuit;
  std::shared_ptr<const Program> program;
  std::vector<double> shared;
  std::vector<int64_t> order;  // bit i of the program's index is bit order[i] of the states'
  std::vector<Example> examples;
  std::string name;
};

// What one way of calling found.
template <class T>
struct Results {
  ExactBuffer<T> values, states;
  ExactBuffer<double> shared, per_example, state_shared, state_each;
  bool operator==(const Results& other) const;
};

// Calls Expectation, Gradient, State and StateGradient for the first `batch` examples, in all the
// ways that must find the same bit for bit, and compares with the reference.
template <class T>
Results<T> Compare(const CircuitCase& test_case, StateVectorEngine<T>* engine, int64_t batch,
                   int64_t threads, const std::string& context);

// The same by the batch's span, which there must be: values and slopes by shared exponents.
template <class T>
void CompareSubspace(const CircuitCase& test_case, StateVectorEngine<T>* engine, int64_t batch,
                     int64_t threads, const std::string& context);

// Calls all four with these numbers for every exponent, whatever comes out.
template <class T>
void CallAll(const Program& program, StateVectorEngine<T>* engine, int64_t batch, int64_t threads,
             double exponent);

}  // namespace tests
}  // namespace qfleet

#endif  // QFLEET_TESTS_CIRCUIT_CASE_H_
