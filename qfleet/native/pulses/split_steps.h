// States under steps of small matrices, and the derivatives by them.
#ifndef QFLEET_SPLIT_STEPS_H_
#define QFLEET_SPLIT_STEPS_H_

#include <cstdint>
#include <vector>

#include "cpu/aligned_array.h"
#include "cpu/split_kernels.h"
#include "pulses/split_plan.h"

namespace qfleet {

class SplitSteps {
 public:
  // Every step applies the operations in their order; the first qubit is leftmost in a state's
  // index. `operations` must outlive it.
  SplitSteps(const std::vector<int32_t>& levels, const std::vector<SplitOperation>& operations,
             int64_t steps, const SplitKernels& kernels = BestSplitKernels());

  // Replaces a state [D] (re, im).
  void Forward(double* state) const;

  // For L = Re <w|psi> of the final state psi, `states` [2][D] (re, im) are psi and w, which become
  // those at the start. Writes the seeds W U^dagger of operations, with W the derivative by their
  // matrices U. Memory does not grow with the steps: they are walked back by their inverses.
  void Backward(double* states) const;

 private:
  template <class Visit>
  void VisitParts(const SplitInstruction& instruction, int64_t step, bool adjoint,
                  const Visit& visit) const;
  void Apply(const SplitInstruction& instruction, int64_t step, bool adjoint, double* state) const;
  void ApplyBack(const SplitInstruction& instruction, int64_t step, double* states) const;

  const std::vector<SplitOperation>& operations_;
  const int64_t steps_;
  const SplitKernels& kernels_;
  const std::vector<SplitInstruction> plan_;
  std::vector<int64_t> sizes_, behind_;  // rows of each matrix, and for a level of its first qubit
  int64_t dimension_, stride_;           // D, and reals from a state's real to its imaginary parts
};

}  // namespace qfleet

#endif  // QFLEET_SPLIT_STEPS_H_
