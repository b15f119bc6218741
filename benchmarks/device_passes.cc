// A device library that computes nothing: it counts the work of a program's passes, from the blocks
// that the engine hands to a device. benchmarks/gpu_bounds.py loads it in place of the real one.
#include <algorithm>
#include <cstring>

#include "cuda/cluster_kernels.h"
#include "cuda/windows.h"

namespace qfleet {
namespace device {
namespace {

constexpr int32_t kTileBits = 12, kBankBits = 4;  // of wide states in complex64

// Of an example's gradient by shared exponents, per amplitude of the state. An access is that of an
// amplitude, a read or a write.
struct Work {
  double operations, shared_accesses, device_accesses;
};

Work counted;

void CountPasses(const PassBlock* blocks, int32_t count, Work* work) {
  constexpr double kProduct = 8;  // operations of a complex multiply-add
  for (int32_t b = 0; b < count; ++b) {
    const PassBlock& block = blocks[b];
    const double part = block.is_controlled ? 0.5 : 1, product = kProduct * part * block.size;
    work->operations += product;
    work->shared_accesses += 2 * part;
    if (!NeedsGradient(block, 0)) continue;
    work->operations += (block.gradient[0] ? product : 0) + (block.uncompute[0] ? 2 * product : 0);
    work->shared_accesses += 2 * part * (block.uncompute[0] ? 2 : 1);  // of both states
  }
}

Work CountSmall(const WindowPlan& whole) {
  Work work = {0, 4, 0};  // begins, is measured, and the strings are applied to it
  CountPasses(whole.blocks.data(), static_cast<int32_t>(whole.blocks.size()), &work);
  return work;
}

// As EvolveClusters: an exchange reads and writes each amplitude.
Work CountCluster(const WindowPlan& plan) {
  Work work = CountSmall(plan);
  const size_t earliest = EarliestWindow(plan, 0);
  for (size_t w = 1; w < plan.windows.size(); ++w) work.shared_accesses += w > earliest ? 2 + 4 : 2;
  return work;
}

// As TypedProgram::ForwardWide and BackwardWide.
Work CountWide(const WindowPlan& plan) {
  Work work = {0, 0, 3 - 1};  // measured, and the strings applied; the first window reads nothing
  const size_t earliest = EarliestWindow(plan, 0);
  for (size_t w = 0; w < plan.windows.size(); ++w) {
    const WindowTable& window = plan.windows[w];
    CountPasses(plan.blocks.data() + window.first, window.count, &work);
    double moved = 2;
    const bool is_same = std::memcmp(&window.begin, &window.end, sizeof(window.begin)) == 0;
    if (w >= earliest && (NeedsGradient(plan, window, 0) || !is_same))
      moved += w > earliest ? 4 : 2;
    work.shared_accesses += moved;  // each amplitude of a tile is copied
    work.device_accesses += moved;
  }
  return work;
}

Status Create(int32_t, const ProgramTables* tables, const Program*, Program** program, char*,
              int64_t) {
  const std::vector<BlockTable> blocks(tables->blocks, tables->blocks + tables->block_count);
  const int32_t n = tables->qubits;
  if (n <= kMaxTileBits) {
    WindowPlan whole;
    AppendWindow(blocks, (int64_t{1} << n) - 1, n, kBankBits, &whole);
    counted = CountSmall(whole);
  } else if (n <= kMaxTileBits + kMaxClusterBits) {
    counted = CountCluster(PlanWindows(blocks, n, kMaxTileBits, 0, kBankBits));
  } else {
    counted = CountWide(PlanWindows(blocks, n, kTileBits, kBankBits, kBankBits));
  }
  *program = nullptr;
  return kOk;
}

constexpr Interface kInterface = {kInterfaceVersion, nullptr, Create,  nullptr, nullptr, nullptr,
                                  nullptr,           nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace device
}  // namespace qfleet

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED const qfleet::device::Interface* qfleet_device_interface() {
  return &qfleet::device::kInterface;
}

// Writes the numbers of the last program: operations, and accesses to shared and to device memory.
EXPORTED void counted_work(double* numbers) {
  const qfleet::device::Work& work = qfleet::device::counted;
  numbers[0] = work.operations;
  numbers[1] = work.shared_accesses;
  numbers[2] = work.device_accesses;
}
