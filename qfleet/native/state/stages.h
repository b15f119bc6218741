// The amplitudes that workers exchange between two stages of a distributed state; see
// qfleet/distributed/plan.py.
#ifndef QFLEET_STAGES_H_
#define QFLEET_STAGES_H_

#include <cstdint>
#include <vector>

#include "state/engine.h"

namespace qfleet {

// The amplitudes of a shard by the worker that receives them: bit rank_bits[i] of the group index
// is bit i of that worker's rank.
struct QubitRegion {
  std::vector<int32_t> rank_bits;
  std::vector<int32_t> sorted_bits;  // ascending
  int64_t group_reals;               // reals per group
};

// Copies groups [first, first + count) of each worker's region, over all tiles, to
// packed[workers][count groups] if `pack`, and back from there otherwise.
template <class T>
void CopyRegion(const QubitRegion& region, T* states, T* packed, int64_t first, int64_t count,
                bool pack);

}  // namespace qfleet

#endif  // QFLEET_STAGES_H_
