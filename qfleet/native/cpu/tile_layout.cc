#include "cpu/tile_layout.h"

#include <algorithm>

#include "cpu/kernels.h"

namespace qfleet {
namespace {

// Few, since one thread adds the sums of the others from their caches. Enough to balance the load.
constexpr int64_t kRangesPerThread = 8, kFixedRanges = 64;

}  // namespace

TileLayout ChooseTileLayout(int32_t qubits, int32_t lanes, int32_t real_bytes, int64_t batch,
                            int64_t threads, int32_t max_lane_qubits) {
  const int32_t chunk_bits = Log2(kChunkBytes / (2 * lanes * real_bytes));
  const bool any_lane_qubits = max_lane_qubits == kAnyLaneQubits;
  const int32_t most = std::min({Log2(lanes), qubits, max_lane_qubits});
  // Aim at half a chunk, so that psi and lambda both fit into L2.
  int32_t lane_qubits = std::clamp(qubits - (chunk_bits - 1), 0, most);
  const auto tiles = [&] { return (batch + (lanes >> lane_qubits) - 1) / (lanes >> lane_qubits); };
  // Use lanes without an example, and threads without a tile, for qubits instead.
  while (lane_qubits < most &&
         ((lanes >> lane_qubits) / 2 >= batch || (any_lane_qubits && tiles() < threads)))
    ++lane_qubits;
  TileLayout layout;
  layout.lane_qubits = lane_qubits;
  layout.samples = lanes >> lane_qubits;
  layout.tiles = tiles();
  layout.groups = int64_t{1} << (qubits - lane_qubits);
  layout.tile_reals = layout.groups * 2 * lanes;
  layout.shared_tile =
      threads > 1 && qubits - lane_qubits > chunk_bits &&
      (layout.tile_reals * real_bytes > kMinSharedTileBytes || layout.tiles < threads);
  return layout;
}

int64_t SumRanges(const TileLayout& layout, int64_t threads, int32_t max_lane_qubits) {
  const bool any_layout = max_lane_qubits == kAnyLaneQubits;
  return std::min(layout.tiles, any_layout ? kRangesPerThread * threads : kFixedRanges);
}

}  // namespace qfleet
