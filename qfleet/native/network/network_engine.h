// Expectation values of a network program and their gradients, by reverse contraction.
//
// The rows of a network are its instances for every example. As many rows as a vector has lanes are
// contracted side by side. Tensors that do not depend on a row's exponents are contracted once.
//
// With V the value and G = dV/dU for a matrix U that is not conjugated, dV = 2 Re sum(G dU), since
// V is real. So the sums psi lambda^dagger of program_matrices.h are U G^T.
#ifndef QFLEET_NETWORK_ENGINE_H_
#define QFLEET_NETWORK_ENGINE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "network/contraction_plan.h"
#include "network/network_program.h"
#include "program/stateless_engine.h"
#include "state/engine.h"

namespace qfleet {

template <class T>
class NetworkEngine : public StatelessEngine<T> {
 public:
  NetworkEngine(std::shared_ptr<const NetworkProgram> program, const Kernels<T>& kernels);

  const NetworkProgram& program() const override { return *program_; }
  int64_t WorkspaceBytes(const Batch& batch) const override;
  void Expectation(const Batch& batch, T* values) const override;
  void Gradient(const Batch& batch, const T* upstream, double* shared_gradients,
                double* per_example_gradients) const override;
  void HessianVectorProduct(const Batch& batch, const T* upstream, T* value_tangents,
                            double* shared_results, double* per_example_results) const override;

 private:
  // Values of all readouts, or their tangents. With `join_rows`, rows with equal exponents are
  // computed once.
  void AddValues(const Batch& batch, bool join_rows, bool tangents,
                 std::vector<double>* sums) const;
  // Gradients, or their tangents if the batch has tangents.
  void AddGradients(const Batch& batch, bool join_rows, bool tangents, const T* upstream,
                    double* shared, double* per_example) const;

  // Calls work(examples, rows) for groups of examples, whose rows are as many as fit into memory.
  template <class Work>
  void ForEachGroup(const Network& network, const Batch& batch, bool join_rows,
                    const Work& work) const;
  // Calls work(first, end) for ranges of a number of tiles, in parallel, each with its number.
  template <class Work>
  void ForEachChunk(const ContractionPlan& plan, const Batch& batch, int64_t rows, double passes,
                    const Work& work) const;

  std::shared_ptr<const NetworkProgram> program_;
  const Kernels<T>& kernels_;
  std::vector<ContractionPlan> plans_;
};

}  // namespace qfleet

#endif  // QFLEET_NETWORK_ENGINE_H_
