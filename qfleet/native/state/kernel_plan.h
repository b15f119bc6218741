// A program lowered to vector kernels for one tile layout.
#ifndef QFLEET_KERNEL_PLAN_H_
#define QFLEET_KERNEL_PLAN_H_

#include <cstdint>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/tile_layout.h"
#include "program/program.h"

namespace qfleet {

// The pointers in `windows` and `strings` refer to `segments`, `outside`, `z` and `ys`.
struct KernelPlan {
  std::vector<BlockKernel> block_kernels;  // per block, without matrices
  std::vector<Window> windows;
  std::vector<int64_t> chunks;  // per window
  std::vector<PauliStrings> strings;
  std::vector<std::vector<int64_t>> segments, z;
  std::vector<std::vector<int32_t>> outside, ys;
  int64_t matrix_reals = 0;            // of all matrices together
  int64_t tile_matrix_reals = 0;       // of those of per-example blocks
  std::vector<int64_t> matrix_offset;  // per block, in reals
  std::vector<int64_t> sum_reals;      // per window, of the gradient sums of its blocks
};

// The amplitudes that a pass has to visit. A state that starts at |0...0> is 0 where a qubit that
// no block has touched yet is 1, and its gradient needs no other amplitudes.
enum class Region {
  kAll,             // the state starts at any amplitudes
  kForward,         // those that can differ from 0
  kBackwardShared,  // the same, and those of blocks that are not uncomputed
  kBackwardAll,     // likewise, if gradients of all exponents are wanted
};

KernelPlan MakeKernelPlan(const Program& program, const TileLayout& layout, int32_t lanes,
                          Region region);

// Scatters the low bits of `value` to the given bits of an index.
inline int64_t ScatterBits(int64_t value, const std::vector<int32_t>& bits) {
  int64_t index = 0;
  for (size_t i = 0; i < bits.size(); ++i) index |= (value >> i & 1) << bits[i];
  return index;
}

}  // namespace qfleet

#endif  // QFLEET_KERNEL_PLAN_H_
