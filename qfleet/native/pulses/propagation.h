// Propagators of small systems under controls, and their derivatives.
#ifndef QFLEET_PROPAGATION_H_
#define QFLEET_PROPAGATION_H_

#include <cstdint>
#include <vector>

#include "cpu/kernels.h"
#include "program/batch.h"

namespace qfleet {

// Steps exp(A_t), with A_t = sum_k c[t][k] O_k of small matrices. The steps of an example are cut
// into segments, whose products are independent of each other: each is a chain of a kernel's lane.
struct PulseSteps {
  int64_t dimension, operators, examples, steps, segments;  // D, K, B, T, S
  const double* matrices;                                   // O [matrix_sets][K][D][D] (re, im)
  int64_t matrix_sets;                                      // 1, or `examples`
  const double* coefficients;                               // c [coefficient_sets][T][K]
  int64_t coefficient_sets;                                 // 1, or `examples`
  bool unitary;                                             // every O_k is anti-Hermitian
};

class Propagation {
 public:
  // `steps` must outlive it.
  explicit Propagation(const PulseSteps& steps, const PulseKernels& kernels = BestPulseKernels());

  // products [B][S][D][D] (re, im): the product of each segment's exponentials.
  void Products(const Parallel& parallel, double* products) const;

  // For L = Re tr(W^dagger U), with W the derivative of a loss by the segment's product U, `seeds`
  // [B][S][D][D] (re, im) are W U^dagger. Writes dL/dc to gradients [B][T][K].
  void Gradients(const Parallel& parallel, const double* seeds, double* gradients) const;

 private:
  struct Group;  // the chains of one call of a kernel

  void FindEntries();
  void RunGroups(const Parallel& parallel, bool backward, const double* seeds, double* out) const;
  void RunGroup(int64_t first, bool backward, const double* seeds, double* out) const;
  double NormBound(int64_t first, bool centred) const;

  const PulseSteps& steps_;
  const PulseKernels& kernels_;
  const int64_t chains_, segment_steps_;
  const int32_t lanes_;
  std::vector<int32_t> row_starts_, rows_, columns_, mates_, element_starts_, elements_;
  std::vector<double> norms_, centred_norms_;  // bounds of each operator's, over all sets [K]
};

}  // namespace qfleet

#endif  // QFLEET_PROPAGATION_H_
