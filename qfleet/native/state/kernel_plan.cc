#include "state/kernel_plan.h"

#include <algorithm>

namespace qfleet {
namespace {

// The program's windows; without any, the whole state is one chunk, with one window for the prefix
// and one for the rest.
std::vector<QubitWindow> WindowsOf(const Program& program) {
  if (!program.windows.empty()) return program.windows;
  std::vector<QubitWindow> windows;
  std::vector<int64_t> all;
  for (int32_t bit = 0; bit < program.qubits; ++bit) all.push_back(bit);
  const int32_t prefix = static_cast<int32_t>(program.prefix);
  const int32_t count = static_cast<int32_t>(program.blocks.size());
  if (prefix) windows.push_back({0, prefix, all});
  if (count > prefix) windows.push_back({prefix, count - prefix, all});
  return windows;
}

// Adds window `w` of the groups below 2**bits; `local` are its bits of the group index, ascending.
void AddWindow(const QubitWindow& source, size_t w, const std::vector<int32_t>& local, int32_t bits,
               KernelPlan* plan) {
  Window window = {};
  window.first = source.first;
  window.count = source.count;
  window.chunk_bits = static_cast<int32_t>(local.size());
  while (window.segment_bits < window.chunk_bits &&
         local[window.segment_bits] == window.segment_bits)
    ++window.segment_bits;
  window.in_place = window.segment_bits == window.chunk_bits;
  const std::vector<int32_t> high(local.begin() + window.segment_bits, local.end());
  for (int64_t i = 0; i < int64_t{1} << high.size(); ++i)
    plan->segments[w].push_back(ScatterBits(i, high));
  for (int32_t bit = 0; bit < bits; ++bit)
    if (!std::binary_search(local.begin(), local.end(), bit)) plan->outside[w].push_back(bit);
  window.segments = plan->segments[w].data();
  window.outside = plan->outside[w].data();
  window.outside_bits = static_cast<int32_t>(plan->outside[w].size());
  plan->windows.push_back(window);
  plan->chunks.push_back(int64_t{1} << window.outside_bits);
}

// For each block, the number of the lowest index bits that may be 1 in a nonzero amplitude.
std::vector<int32_t> ActiveBits(const Program& program, Region region) {
  const size_t count = program.blocks.size();
  std::vector<int32_t> active(count, program.qubits);
  if (region == Region::kAll || program.takes_states || !program.initial.empty()) return active;
  const auto used = [&](size_t b) {
    const Block& block = program.blocks[b];
    return static_cast<int32_t>(*std::max_element(block.bits, block.bits + block.qubits)) + 1;
  };
  int32_t touched = 0;
  for (size_t b = 0; b < count; ++b) active[b] = touched = std::max(touched, used(b));
  if (region == Region::kForward) return active;
  const int mode = region == Region::kBackwardAll;
  int32_t left = 0;  // bits of later blocks that are not uncomputed
  for (size_t b = count; b-- > 0;) {
    const Block& block = program.blocks[b];
    if (block.needs_gradient[mode] || block.needs_uncompute[mode])
      active[b] = std::max(active[b], left);
    if (!block.needs_uncompute[mode]) left = std::max(left, used(b));
  }
  return active;
}

// A block's qubits, by where their bits are; upper bit of the matrix index first.
struct BlockQubits {
  std::vector<int> in_groups, in_lanes;
  int32_t group_bit[2] = {-1, -1};  // of the chunk's group index
  int32_t lane_bit[2] = {-1, -1};   // of the lane number
};

BlockQubits LocateQubits(const Block& block, const TileLayout& layout,
                         const std::vector<int32_t>& local) {
  BlockQubits qubits;
  const int32_t sample_bits = Log2(layout.samples);
  for (int q = 0; q < block.qubits; ++q) {
    if (block.bits[q] < layout.lane_qubits) {
      qubits.lane_bit[q] = sample_bits + static_cast<int32_t>(block.bits[q]);
      qubits.in_lanes.push_back(q);
    } else {
      const int32_t bit = static_cast<int32_t>(block.bits[q]) - layout.lane_qubits;
      qubits.group_bit[q] =
          static_cast<int32_t>(std::lower_bound(local.begin(), local.end(), bit) - local.begin());
      qubits.in_groups.push_back(q);
    }
  }
  return qubits;
}

// The contribution of some of a block's qubits, with values `pattern`, to the matrix index.
int MatrixIndex(const Block& block, const std::vector<int>& qubits, int pattern) {
  int index = 0;
  for (size_t i = 0; i < qubits.size(); ++i)
    index |= (pattern >> (qubits.size() - 1 - i) & 1) << (block.qubits - 1 - qubits[i]);
  return index;
}

// Sets which groups and lanes a block reads and which matrix entries they meet.
void SetIndices(const Block& block, const BlockQubits& qubits, int32_t lanes, BlockKernel* kernel) {
  const std::vector<int>&in_groups = qubits.in_groups, &in_lanes = qubits.in_lanes;
  kernel->rows = 1 << in_groups.size();
  kernel->cols = block.size();
  if (in_groups.size() == 1) kernel->low = qubits.group_bit[in_groups[0]];
  if (in_groups.size() == 2) {
    kernel->low = std::min(qubits.group_bit[0], qubits.group_bit[1]);
    kernel->high = std::max(qubits.group_bit[0], qubits.group_bit[1]);
  }
  const auto lane_pattern = [&](int lane) {
    int pattern = 0;
    for (int q : in_lanes) pattern = 2 * pattern + (lane >> qubits.lane_bit[q] & 1);
    return pattern;
  };
  const int patterns = 1 << in_lanes.size();
  for (int r = 0; r < kernel->rows; ++r) {
    for (size_t i = 0; i < in_groups.size(); ++i)
      kernel->offset[r] |= static_cast<int64_t>(r >> (in_groups.size() - 1 - i) & 1)
                           << qubits.group_bit[in_groups[i]];
    const int upper = MatrixIndex(block, in_groups, r);
    for (int lane = 0; lane < lanes; ++lane) {
      const int pattern = lane_pattern(lane);
      kernel->row[r][lane] = static_cast<uint8_t>(upper | MatrixIndex(block, in_lanes, pattern));
      for (int d = 0; d < patterns; ++d)
        kernel->col[r * patterns + d][lane] =
            static_cast<uint8_t>(upper | MatrixIndex(block, in_lanes, pattern ^ d));
    }
  }
  for (int d = 0; d < patterns; ++d)
    for (size_t i = 0; i < in_lanes.size(); ++i)
      kernel->lane_xor[d] |= (d >> (in_lanes.size() - 1 - i) & 1) << qubits.lane_bit[in_lanes[i]];
}

// Lists the rows that a block changes and the inputs that each needs.
void SetSparsity(const Block& block, int32_t lanes, BlockKernel* kernel) {
  const int32_t size = block.size();
  // On lanes where a row is the identity's, its only input is itself.
  const auto needed = [&](int64_t entries, int r, int j, bool identity) {
    for (int lane = 0; lane < lanes; ++lane) {
      const int row = kernel->row[r][lane], col = kernel->col[j][lane];
      const bool identity_row = !(entries >> (row * size) & ((1 << size) - 1));
      if ((entries >> (row * size + col) & 1) || (identity && identity_row && row == col))
        return true;
    }
    return false;
  };
  int filled = 0;
  for (int r = 0; r < kernel->rows; ++r) {
    bool changes = false;
    for (int j = 0; j < size; ++j) changes |= needed(block.entries, r, j, false);
    if (!changes) continue;
    const int i = kernel->active_rows++;
    kernel->active_row[i] = r;
    for (int j = 0; j < size; ++j) {
      if (needed(block.entries, r, j, true)) kernel->input[i][kernel->terms[i]++] = j;
      if (needed(block.closure, r, j, false))
        kernel->gradient_input[i][kernel->gradient_terms[i]++] = j;
    }
    filled += kernel->terms[i];
  }
  kernel->sparse = filled <= kernel->rows * size / 2;
}

void AddPauliStrings(const Program& program, const TileLayout& layout, KernelPlan* plan) {
  const int32_t lane_qubits = layout.lane_qubits;
  plan->z.resize(program.pauli_groups.size());
  plan->ys.resize(program.pauli_groups.size());
  for (size_t g = 0; g < program.pauli_groups.size(); ++g) {
    const PauliGroup& group = program.pauli_groups[g];
    for (size_t t = 0; t < group.z.size(); ++t) {
      plan->z[g].push_back(group.z[t] >> lane_qubits);
      plan->ys[g].push_back(static_cast<int32_t>(group.ys[t]));
    }
    PauliStrings strings;
    strings.flip = group.flip >> lane_qubits;
    strings.lane_xor = static_cast<int32_t>((group.flip & ((int64_t{1} << lane_qubits) - 1))
                                            << Log2(layout.samples));
    strings.count = static_cast<int32_t>(group.z.size());
    strings.z = plan->z[g].data();
    strings.ys = plan->ys[g].data();
    plan->strings.push_back(strings);
  }
}

}  // namespace

KernelPlan MakeKernelPlan(const Program& program, const TileLayout& layout, int32_t lanes,
                          Region region) {
  KernelPlan plan;
  const std::vector<QubitWindow> windows = WindowsOf(program);
  const std::vector<int32_t> active = ActiveBits(program, region);
  plan.segments.resize(windows.size());
  plan.outside.resize(windows.size());
  for (size_t w = 0; w < windows.size(); ++w) {
    const auto first = active.begin() + windows[w].first;
    const int32_t most = *std::max_element(first, first + windows[w].count);
    std::vector<int32_t> local;
    for (int64_t bit : windows[w].bits)
      if (bit >= layout.lane_qubits && bit < most)
        local.push_back(static_cast<int32_t>(bit) - layout.lane_qubits);
    AddWindow(windows[w], w, local, std::max(most - layout.lane_qubits, 0), &plan);
    int64_t sums = 0;
    for (int32_t b = windows[w].first; b < windows[w].first + windows[w].count; ++b) {
      const Block& block = program.blocks[b];
      BlockKernel kernel = {};
      kernel.per_example = block.per_example;
      kernel.sums = sums;
      sums += kBlockSumReals * (block.per_example ? layout.samples : 1);
      const auto end = std::lower_bound(local.begin(), local.end(), active[b] - layout.lane_qubits);
      kernel.groups = int64_t{1} << (end - local.begin());
      SetIndices(block, LocateQubits(block, layout, local), lanes, &kernel);
      SetSparsity(block, lanes, &kernel);
      plan.block_kernels.push_back(kernel);
      plan.matrix_offset.push_back(plan.matrix_reals);
      const int64_t reals = 2 * kernel.rows * kernel.cols * lanes;
      plan.matrix_reals += reals;
      if (block.per_example) plan.tile_matrix_reals += reals;
    }
    plan.sum_reals.push_back(sums);
  }
  AddPauliStrings(program, layout, &plan);
  return plan;
}

}  // namespace qfleet
