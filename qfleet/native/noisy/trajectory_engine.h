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
//
// Measurements and classically controlled channels branch in the same way.
#ifndef QFLEET_TRAJECTORY_ENGINE_H_
#define QFLEET_TRAJECTORY_ENGINE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu/aligned_array.h"
#include "noisy/trajectory_branches.h"
#include "program/stateless_engine.h"
#include "state/engine.h"
#include "state/kernel_plan.h"

namespace qfleet {

template <class T>
class TrajectoryEngine : public StatelessEngine<T> {
 public:
  TrajectoryEngine(std::shared_ptr<const TrajectoryProgram> program, const Kernels<T>& kernels);

  const TrajectoryProgram& program() const override { return *program_; }
  int64_t WorkspaceBytes(const Batch& batch) const override;
  void Expectation(const Batch& batch, T* values) const override;
  void Gradient(const Batch& batch, const T* upstream, double* shared_gradients,
                double* per_example_gradients) const override;
  int64_t MeasurementBytes(const Batch& batch, int64_t trajectories) const override;
  void Measure(const Batch& batch, const int64_t* order, int64_t trajectories, uint64_t seed,
               const Measured<T>& results) const override;

 private:
  struct Call;
  struct GradientTask;
  class States;
  class Tree;  // some trajectories of one example

  static constexpr int64_t kLeastCopies = 2;  // of each path, whatever the limit of memory

  // Trees of the trajectories of a measured example.
  static int64_t MeasuredTrees(const Batch& batch, int64_t trajectories);
  void RefuseRecords() const;  // throws if the program has measurements
  int64_t StateBytes() const { return layout_.tile_reals * static_cast<int64_t>(sizeof(T)); }
  // Copies of states that each path keeps at most.
  int64_t MaxCopies(const Batch& batch) const;
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
};

}  // namespace qfleet

#endif  // QFLEET_TRAJECTORY_ENGINE_H_
