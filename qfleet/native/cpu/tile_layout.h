// Memory layout of a batch of states: tiles of groups of SIMD vectors.
#ifndef QFLEET_TILE_LAYOUT_H_
#define QFLEET_TILE_LAYOUT_H_

#include <cstdint>

namespace qfleet {

constexpr int64_t kMinSharedTileBytes = int64_t{2} << 20;  // larger tiles are shared by threads
constexpr int32_t kAnyLaneQubits = 64;

// A tile holds the states of `samples` examples. A group is one vector of real parts and one of
// imaginary parts: 2**lane_qubits amplitudes for each of the samples.
struct TileLayout {
  int32_t lane_qubits;  // the lowest qubits, which are spread over a vector's lanes
  int32_t samples;      // examples per tile
  int64_t tiles;
  int64_t groups;      // per tile
  int64_t tile_reals;  // per tile
  bool shared_tile;    // all threads work on one tile, rather than on one tile each
};

// Chooses the layout for states of 2**qubits complex amplitudes.
//
// `lanes` is the number of reals per vector and `real_bytes` the size of one real. A
// `max_lane_qubits` other than kAnyLaneQubits makes the choice independent of `threads`.
TileLayout ChooseTileLayout(int32_t qubits, int32_t lanes, int32_t real_bytes, int64_t batch,
                            int64_t threads, int32_t max_lane_qubits = kAnyLaneQubits);

// Rounds down to a power of two and returns its exponent.
inline int32_t Log2(int64_t value) {
  int32_t log = 0;
  while (int64_t{2} << log <= value) ++log;
  return log;
}

// The number of ranges of consecutive tiles that have sums of their own. A thread adds to the sums
// of a range, and ranges are added in their order, so that results do not depend on the timing of
// threads. They depend on the number of threads only if the layout does.
int64_t SumRanges(const TileLayout& layout, int64_t threads, int32_t max_lane_qubits);

}  // namespace qfleet

#endif  // QFLEET_TILE_LAYOUT_H_
