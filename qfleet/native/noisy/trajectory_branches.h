// What happens to trajectories in one block: the drawn Kraus operators, and the matrices of those
// trajectories that draw the same ones.
#ifndef QFLEET_TRAJECTORY_BRANCHES_H_
#define QFLEET_TRAJECTORY_BRANCHES_H_

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "noisy/noisy_program.h"
#include "program/program_matrices.h"

namespace qfleet {

using SmallMatrix = std::array<double, 32>;  // [D * D] (re, im) of a block

// Trajectories with equal matrices.
struct Branch {
  std::vector<int32_t> trajectories;
  std::vector<SmallMatrix> items;  // of the block, in order
  SmallMatrix product;             // of all items
  bool is_unitary = true;
};

// What trajectories have recorded.
struct Records {
  uint8_t* numbers = nullptr;  // [trajectories][width]
  int64_t width = 0;

  uint8_t& At(int32_t trajectory, int64_t record) const {
    return numbers[trajectory * width + record];
  }
};

// Draws a uniform number for a trajectory and an item of the block.
using Draw = std::function<double(int32_t trajectory, size_t item)>;

// The Kraus operators of all channels, on all qubits of a block. Blocks share them.
class ChannelOperators {
 public:
  explicit ChannelOperators(const TrajectoryProgram& program);
  // Of an item that is a channel.
  const std::vector<SmallMatrix>& Of(const TrajectoryBlock& block, const NoisyItem& item) const {
    return matrices_[item.channel][block.IsNarrow(item) ? 1 + item.place : 0];
  }

 private:
  // Of each channel: as it is, and on two qubits, of which its own is the upper or the lower one.
  std::vector<std::array<std::vector<SmallMatrix>, 3>> matrices_;
};

// The unitaries of a block for an example, or for all if the block is not per-example. Channels
// have empty places.
std::vector<SmallMatrix> BlockUnitaries(const TrajectoryProgram& program,
                                        const TrajectoryBlock& block,
                                        const SharedMatrices& shared_matrices,
                                        const Exponents& exponents);

// Draws the operators of all channels, and records some. `density` is the reduced density matrix of
// the block's qubits, of any trace, if the block depends on the state. The first branch has most
// trajectories.
std::vector<Branch> DrawBranches(const TrajectoryProgram& program, const TrajectoryBlock& block,
                                 const ChannelOperators& operators,
                                 const std::vector<SmallMatrix>& unitaries,
                                 const SmallMatrix* density,
                                 const std::vector<int32_t>& trajectories, const Records& records,
                                 const Draw& draw);

// out = a b, with b replaced by its adjoint if `b_dagger`.
SmallMatrix Times(int32_t size, const SmallMatrix& a, const SmallMatrix& b);
SmallMatrix AdjointOf(int32_t size, const SmallMatrix& matrix);

// Writes the inverse. Returns how much it may magnify errors, infinity if there is none.
double Invert(int32_t size, const SmallMatrix& matrix, SmallMatrix* inverse);

// Adds a branch's gradients as BlockGradients does, given psi lambda^dagger [col * D + row] of psi
// before the block and lambda after it. Drawn operators are constants.
void BranchGradients(const TrajectoryProgram& program, const TrajectoryBlock& block,
                     const SharedMatrices& shared_matrices, const Exponents& exponents,
                     const Branch& branch, const SmallMatrix& correlation, bool want_per_example,
                     std::vector<std::vector<double>>* sequence_sums, double* shared_gradients,
                     double* per_example_gradients);

}  // namespace qfleet

#endif  // QFLEET_TRAJECTORY_BRANCHES_H_
