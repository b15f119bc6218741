// Trajectories in an order in which those with a common beginning are neighbours.
#ifndef QFLEET_TRAJECTORY_ORDER_H_
#define QFLEET_TRAJECTORY_ORDER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "noisy/noisy_program.h"

namespace qfleet {

// A uniform number in [0, 1) for a trajectory and an item of a block.
using DrawInBlock = std::function<double(int32_t trajectory, size_t block, size_t item)>;

// Divides trajectories 0 to `count` - 1 into at most `parts` parts of about equal work, such that
// few of them have a beginning in common with another part. Operators whose probabilities depend on
// the state are drawn for the mixed state, so this is an estimate.
std::vector<std::vector<int32_t>> DivideByHistory(const TrajectoryProgram& program, int64_t count,
                                                  int64_t parts, const DrawInBlock& draw);

}  // namespace qfleet

#endif  // QFLEET_TRAJECTORY_ORDER_H_
