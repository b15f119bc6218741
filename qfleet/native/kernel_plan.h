// A program lowered to vector kernels for one tile layout.
#ifndef QFLEET_KERNEL_PLAN_H_
#define QFLEET_KERNEL_PLAN_H_

#include <cstdint>
#include <vector>

#include "kernels.h"
#include "program.h"
#include "tile_layout.h"

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
  std::vector<int64_t> matrix_offset;  // per block, in reals
};

KernelPlan MakeKernelPlan(const Program& program, const TileLayout& layout, int32_t lanes);

// Scatters the low bits of `value` to the given bits of an index.
inline int64_t ScatterBits(int64_t value, const std::vector<int32_t>& bits) {
  int64_t index = 0;
  for (size_t i = 0; i < bits.size(); ++i) index |= (value >> i & 1) << bits[i];
  return index;
}

}  // namespace qfleet

#endif  // QFLEET_KERNEL_PLAN_H_
