// One network's contraction and its reverse for the rows of a batch, tile by tile. A tile has as
// many rows as a vector has lanes.
//
// For Hessian-vector products, the exponents have tangents. Then every tensor and every derivative
// has a tangent too, by the product rule.
#ifndef QFLEET_NETWORK_CALL_H_
#define QFLEET_NETWORK_CALL_H_

#include <cstdint>
#include <vector>

#include "cpu/aligned_array.h"
#include "network/contraction_plan.h"
#include "network/network_rows.h"
#include "program/program_matrices.h"

namespace qfleet {

// Tensors, one after the other, and their tangents unless these are 0.
template <class T>
struct Tensors {
  Tensors(int64_t reals, bool has_tangents) : value(reals), tangent(has_tangents ? reals : 0) {}
  AlignedArray<T> value, tangent;
};

// Matrices [D * D] (re, im) [samples] and their tangents, which are empty if they are 0.
struct DualMatrices {
  std::vector<double> value, tangent;
};

struct WorkspaceKind {
  bool gradient, tangents;
};

// The tensors of one tile and their derivatives, and sums over tiles.
template <class T>
struct NetworkWorkspace {
  NetworkWorkspace(const Network& network, const ContractionPlan& plan, int64_t lanes,
                   WorkspaceKind kind);
  void Add(const NetworkWorkspace& other);  // the sums

  Tensors<T> values, derivatives;
  std::vector<DualMatrices> product_matrices;  // of products with row exponents
  // Sums:
  Tensors<T> common_derivatives;  // by tensors that are equal for all rows, in each lane
  std::vector<double> shared_gradients;
  std::vector<std::vector<double>> sequence_sums;
};

template <class T>
class NetworkCall {
 public:
  // Contracts the tensors that are equal for all rows. The arguments must outlive this object.
  // `shared_tangents` may be null, also if the rows have tangents.
  NetworkCall(const Network& network, const ContractionPlan& plan, const Kernels<T>& kernels,
              const double* shared, const double* shared_tangents, bool has_tangents);

  int64_t lanes() const { return kernels_.lanes; }
  // Contracts a tile. Then Values returns the values of its rows, or their tangents.
  void Contract(const NetworkRows& rows, int64_t tile, NetworkWorkspace<T>* work) const;
  const T* Values(const NetworkWorkspace<T>& work, bool tangents) const;
  // Reverses a contracted tile: adds to the rows' gradients, if these are wanted, and to the sums;
  // with tangents, it adds those of the gradients instead.
  void Reverse(NetworkRows* rows, int64_t tile, bool want_rows, NetworkWorkspace<T>* work) const;
  // Adds the gradients of shared exponents to gradients[E], given the sums over all tiles.
  void Finish(bool want_rows, NetworkWorkspace<T>* sums, double* gradients) const;

 private:
  int64_t Offset(int64_t tensor) const { return 2 * lanes() * plan_.offset[tensor]; }
  const Tensors<T>& ValuesOf(const NetworkWorkspace<T>* work, int64_t tensor) const {
    return plan_.of_rows[tensor] ? work->values : common_;
  }
  Exponents RowExponents(const NetworkRows& rows, int64_t tile) const;
  void WriteLeaf(int64_t leaf, const DualMatrices& matrix, int64_t samples, Tensors<T>* to) const;
  // Contracts all tensors of one kind into `to`.
  void ContractSteps(bool of_rows, const NetworkWorkspace<T>* work, Tensors<T>* to) const;
  // The derivatives by the operands of a step, given those by its result.
  void ReverseStep(const PlannedStep& step, bool want_rows, const Tensors<T>& derivatives,
                   NetworkWorkspace<T>* work) const;
  // Adds the gradients of a leaf's exponents.
  void AddGradients(int64_t leaf, const Tensors<T>& derivatives, const DualMatrices& matrix,
                    const Exponents& exponents, bool want_rows, double* row_gradients,
                    NetworkWorkspace<T>* sums) const;
  // dL/dU [D * D] (re, im) [samples] of a leaf's matrix.
  std::vector<double> MatrixGradient(int64_t leaf, const T* derivatives) const;

  const Network& network_;
  const ContractionPlan& plan_;
  const Kernels<T>& kernels_;
  bool has_tangents_;
  Exponents shared_;
  SharedMatrices matrices_;
  std::vector<DualMatrices> common_matrices_;
  Tensors<T> common_;
};

}  // namespace qfleet

#endif  // QFLEET_NETWORK_CALL_H_
