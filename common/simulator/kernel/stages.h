// What workers that hold one state exchange between two stages; see common/simulator/split_plan.py.
#ifndef QFLEET_STAGES_H_
#define QFLEET_STAGES_H_

#include <cstdint>
#include <vector>

#include "engine.h"

namespace qfleet {

// Where the amplitudes for each worker lie in a local state: group bit ranks[i] is its rank's bit
// i.
struct QubitRegion {
  std::vector<int32_t> rank_bits;
  std::vector<int32_t> sorted_bits;  // the same, ascending
  int64_t group_reals;               // of a group
};

// Copies groups `first` to `first + count` of what each worker gets of all tiles' states into
// pieces[workers][count groups], or (not `out`) what came from each worker into their places.
template <class T>
void CopyRegion(const QubitRegion& region, T* states, T* packed, int64_t first, int64_t count,
                bool pack);

}  // namespace qfleet

#endif  // QFLEET_STAGES_H_
