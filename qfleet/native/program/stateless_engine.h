// Expectation values of a program whose state vectors are not evolved, and their gradients.
#ifndef QFLEET_STATELESS_ENGINE_H_
#define QFLEET_STATELESS_ENGINE_H_

#include <cstdint>
#include <stdexcept>
#include <string>

#include "program/batch.h"
#include "program/program.h"

namespace qfleet {

// Where results of measured trajectories go.
template <class T>
struct Measured {
  uint8_t* records;  // [b][trajectory][R]
  int64_t* samples;  // [b][trajectory], a basis state of all qubits after the last block, or null
  T* states;         // [b][trajectory][2^qubits] (re, im) after the last block, or null
};

template <class T>
class StatelessEngine {
 public:
  using Real = T;

  virtual ~StatelessEngine() = default;
  virtual const ProgramSizes& program() const = 0;

  // Approximate memory of a gradient.
  virtual int64_t WorkspaceBytes(const Batch& batch) const = 0;

  // values[b][k].
  virtual void Expectation(const Batch& batch, T* values) const = 0;

  // Adds dL/dshared to shared_gradients[E] and, unless it is null, dL/dper_example to
  // per_example_gradients[b][F], given upstream[b][k] = dL/dvalues.
  virtual void Gradient(const Batch& batch, const T* upstream, double* shared_gradients,
                        double* per_example_gradients) const = 0;

  // Approximate memory of Measure.
  virtual int64_t MeasurementBytes(const Batch&, int64_t) const { return 0; }

  // Measures trajectories. Bit i of the program's index is bit order[i] of a basis state.
  virtual void Measure(const Batch&, const int64_t*, int64_t, uint64_t, const Measured<T>&) const {
    throw std::invalid_argument(std::string(program().kind) + " have no measurements");
  }

  // As StateVectorEngine::HessianVectorProduct. `per_example_results` may be null.
  virtual void HessianVectorProduct(const Batch&, const T*, T*, double*, double*) const {
    throw std::invalid_argument(std::string(program().kind) + " have no Hessian-vector products");
  }
};

}  // namespace qfleet

#endif  // QFLEET_STATELESS_ENGINE_H_
