// The memory and the kernel calls of a network's contraction and of its derivatives.
#ifndef QFLEET_CONTRACTION_PLAN_H_
#define QFLEET_CONTRACTION_PLAN_H_

#include <cstdint>
#include <vector>

#include "cpu/kernels.h"
#include "network/network_program.h"

namespace qfleet {

// A contraction with its own tables of offsets.
class ContractionTables {
 public:
  ContractionTables(const Indices& a, const Indices& b, const Indices& out);

  template <class T>
  void Run(const Kernels<T>& kernels, const T* a, const T* b, T* out, bool add) const {
    kernels.contract(step_, swapped_ ? b : a, swapped_ ? a : b, out, add);
  }
  int64_t MultiplyAdds() const { return step_.groups * step_.rows * step_.cols * step_.terms; }

  ContractionTables(ContractionTables&&) = default;  // vectors keep their memory
  ContractionTables(const ContractionTables&) = delete;

 private:
  const int64_t* Offsets(const Indices& varied, const Indices& tensor);

  std::vector<std::vector<int64_t>> tables_;
  Contraction step_ = {};
  bool swapped_ = false;  // the operands are exchanged: rows are the larger side
};

// A step of the contraction, and its derivatives by both operands. The contraction is linear in
// each operand, so the derivative by `a` is the derivative by the result, contracted with `b`.
struct PlannedStep {
  int64_t a, b, out;
  ContractionTables forward, to_a, to_b;
};

// The tensors of a network: leaves, then results of steps.
struct ContractionPlan {
  explicit ContractionPlan(const Network& network);

  // Indexed by whether gradients of row exponents are wanted (1) or only shared ones (0): tensors
  // that depend on such an exponent by a matrix that is not conjugated. The value is real, so that
  // the conjugated ones contribute as much again.
  std::vector<bool> wanted[2];
  std::vector<bool> of_rows;    // depends on the row's exponents; otherwise equal for all rows
  std::vector<int64_t> offset;  // of the first element, among those of its kind
  std::vector<int64_t> elements;
  int64_t row_elements = 0, common_elements = 0;
  int64_t multiply_adds = 0;  // per row, of a forward pass
  std::vector<PlannedStep> steps;
};

}  // namespace qfleet

#endif  // QFLEET_CONTRACTION_PLAN_H_
