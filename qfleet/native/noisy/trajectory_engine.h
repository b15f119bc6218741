// Expectation values of a noisy circuit and their gradients, by quantum trajectories.
//
// Trajectories with the same history have the same state, which is evolved once: they form a tree
// that branches where different Kraus operators are drawn. Its root is the initial state.
//
// For gradients, drawn operators K / |K psi| are constants. The result is unbiased for channels
// whose probabilities depend on the state too, since sum_K <psi|K^dagger O K|psi> does not contain
// these. Its derivative is estimated with operators drawn by importance. As in engine.h, states are
// uncomputed: by the inverse of a block's matrix, or from a copy where that would magnify errors.
// At a branching, the backward passes of the branches add up to one.
#ifndef QFLEET_TRAJECTORY_ENGINE_H_
#define QFLEET_TRAJECTORY_ENGINE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/aligned_array.h"
#include "noisy/trajectory_branches.h"
#include "noisy/trajectory_program.h"
#include "state/engine.h"
#include "state/kernel_plan.h"

namespace qfleet {

template <class T>
class TrajectoryEngine {
 public:
  using Real = T;

  TrajectoryEngine(std::shared_ptr<const TrajectoryProgram> program, const Kernels<T>& kernels);

  // Approximate memory of a gradient.
  int64_t WorkspaceBytes(const Batch& batch, int64_t memory_limit) const;

  // values[b][k].
  void Expectation(const Batch& batch, T* values) const;

  // Adds dL/dshared to shared_gradients[E] and, unless it is null, dL/dper_example to
  // per_example_gradients[b][F], given upstream[b][k] = dL/dvalues. Copies of states take at most
  // `memory_limit` bytes, but for kLeastCopies of each path.
  void Gradient(const Batch& batch, int64_t memory_limit, const T* upstream,
                double* shared_gradients, double* per_example_gradients) const;

 private:
  struct Call;
  struct GradientTask;
  class States;
  class Tree;  // some trajectories of one example

  static constexpr int64_t kLeastCopies = 2;

  int64_t StateBytes() const { return layout_.tile_reals * static_cast<int64_t>(sizeof(T)); }
  // Copies of states that each path keeps at most.
  int64_t MaxCopies(const Batch& batch, int64_t memory_limit) const;
  std::vector<int32_t> TrajectoriesOf(int64_t tree) const;

  std::shared_ptr<const TrajectoryProgram> program_;
  const Kernels<T>& kernels_;
  TileLayout layout_;
  KernelPlan plan_;
  ChannelOperators operators_;
  bool depends_on_state_;              // has such a block
  int64_t tree_trajectories_, trees_;  // per tree, and trees per example
  // Jobs of an example, each with consecutive trees: their number bounds the memory of sums.
  int64_t jobs_;
  // Paths that are open at a time: at a branching, the largest branch stays on its path.
  int64_t levels_;
  size_t first_needed_[2];  // the first block with a gradient, as needs_gradient
};

}  // namespace qfleet

#endif  // QFLEET_TRAJECTORY_ENGINE_H_
