// Shared by the engine's source files: buffers, calls and loops over tiles.
#ifndef QFLEET_ENGINE_INTERNAL_H_
#define QFLEET_ENGINE_INTERNAL_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "cpu/aligned_array.h"
#include "program/program_matrices.h"
#include "state/engine.h"
#include "state/kernel_plan.h"

namespace qfleet {

// Buffers up to this size are pooled for the next call.
constexpr int64_t kMaxPooledBytes = int64_t{128} << 20;
// Buffers of this size and more ask for huge pages.
constexpr int64_t kHugePageThresholdBytes = int64_t{4} << 20;
// A state up to this size is cached after the prefix, for all tiles.
constexpr int64_t kMaxPrefixBytes = int64_t{256} << 20;
// Sums over a shared tile are split into at most this many ranges, whatever the number of threads,
// so that results do not depend on it.
constexpr int64_t kMaxRanges = 64;

inline void RunSerially(int64_t count, int64_t, const Work& work) {
  for (int64_t i = 0; i < count; ++i) work(i);
}

// Differs among the threads alive.
inline uintptr_t ThisThread() {
  static thread_local char here;
  return reinterpret_cast<uintptr_t>(&here);
}

// Takes the newest item that `fits`, if there is one. Items that this thread used last come first,
// since the others are in the caches of other cores.
template <class Item, class Fits>
std::unique_ptr<Item> TakePooled(std::vector<std::unique_ptr<Item>>* pool, const Fits& fits) {
  const auto find = [pool, &fits](bool any_thread) {
    return std::find_if(pool->rbegin(), pool->rend(), [&](const std::unique_ptr<Item>& item) {
      return fits(*item) && (any_thread || item->last_thread == ThisThread());
    });
  };
  auto found = find(false);
  if (found == pool->rend()) found = find(true);
  if (found == pool->rend()) return nullptr;
  std::unique_ptr<Item> taken = std::move(*found);
  pool->erase(std::next(found).base());
  return taken;
}

template <class T>
struct StateVectorEngine<T>::Buffer {
  explicit Buffer(int64_t count) : reals(count) {
    const int64_t bytes = count * sizeof(T);
    const int64_t alignment = bytes >= kHugePageThresholdBytes ? int64_t{2} << 20 : kAlignmentBytes;
    const int64_t size = (bytes + alignment - 1) / alignment * alignment;
    data = static_cast<T*>(std::aligned_alloc(alignment, std::max(size, alignment)));
    if (!data) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (size >= kHugePageThresholdBytes) madvise(data, size, MADV_HUGEPAGE);
#endif
  }
  ~Buffer() { std::free(data); }
  Buffer(const Buffer&) = delete;
  int64_t reals;
  T* data;
  uintptr_t last_thread = 0;  // that used it
};

// Sums of the gradients of each range of tiles, as BlockGradients adds them. Their memory is
// pooled, too.
template <class T>
struct StateVectorEngine<T>::RangeSums {
  std::vector<std::vector<std::vector<double>>> sequences;
  std::vector<std::vector<double>> shared;
};

// The blocks of one tile, and the memory in which its matrices and sums are computed.
template <class T>
struct StateVectorEngine<T>::TileBlocks {
  uintptr_t last_thread = 0;         // that used them
  int64_t tile = -1;                 // whose inverses these are, for its AdjointBackward; -1: none
  std::vector<BlockKernel> kernels;  // those of the call, with matrices for per-example blocks
  std::unique_ptr<Buffer> matrices, inverses;
  std::vector<double> values, tangents;  // of one block
  std::vector<double> sums;              // of one window
};

// The state of one call of the engine.
template <class T>
struct StateVectorEngine<T>::Call {
  Call(const Batch& batch_, const TileLayout& layout_) : batch(&batch_), layout(layout_) {}
  const Batch* batch;
  TileLayout layout;
  const KernelPlan* plan;
  std::shared_ptr<const SharedMatrices> shared_matrices;
  std::vector<BlockKernel> block_kernels;  // with matrices for shared blocks
  std::unique_ptr<Buffer> matrices, inverses;
  mutable std::vector<std::unique_ptr<TileBlocks>> tile_blocks;  // not in use; under pool_mutex_
  std::vector<T> initial;
  bool with_inverses = false;
  int mode = 0;                    // index of Block::needs_gradient
  std::unique_ptr<Buffer> prefix;  // one tile's state after the prefix

  // The number of examples in a tile.
  int64_t present(int64_t tile) const {
    return std::min<int64_t>(layout.samples, batch->size - tile * layout.samples);
  }
  bool has_tangents() const { return batch->shared_tangents || batch->per_example_tangents; }
  // The exponents of the call, and of the examples in a tile of `width` exponents each.
  Exponents exponents() const { return {batch->shared, batch->shared_tangents}; }
  Exponents exponents(int64_t tile, int64_t width) const {
    Exponents exponents = this->exponents();
    const int64_t first = tile * layout.samples * width;
    exponents.per_example = batch->per_example + first;
    if (batch->per_example_tangents)
      exponents.per_example_tangents = batch->per_example_tangents + first;
    exponents.present = present(tile);
    exponents.zeros_are_absent = batch->zeros_are_absent && !has_tangents();
    return exponents;
  }
};

// Divides [0, count) into at most kMaxRanges ranges and calls work(range, from, to) for each.
template <class RangeWork>
void ForEachRange(const Parallel& parallel, int64_t count, int64_t cost, const RangeWork& work) {
  const int64_t ranges = std::min(count, kMaxRanges);
  // A product that may exceed an int64_t.
  const double total = static_cast<double>(cost) * static_cast<double>(count / ranges);
  parallel(ranges, static_cast<int64_t>(std::min(total, 1e18)), [&](int64_t range) {
    work(range, range * count / ranges, (range + 1) * count / ranges);
  });
}

// Adds the sums of later ranges to those of the first, each of `width` numbers, in their order.
inline void AddRanges(int64_t width, std::vector<double>* sums) {
  for (size_t from = width; from < sums->size(); from += width)
    for (int64_t i = 0; i < width; ++i) (*sums)[i] += (*sums)[from + i];
}

template <class T>
template <class Job>
void StateVectorEngine<T>::ForEachTileRange(const Call& call, int64_t ranges, const Job& job) {
  const Batch& batch = *call.batch;
  const int64_t tiles = call.layout.tiles;
  if (call.layout.shared_tile) {
    for (int64_t range = 0; range < ranges; ++range)
      job(range, range * tiles / ranges, (range + 1) * tiles / ranges, batch.parallel);
    return;
  }
  const int64_t cost = call.layout.groups * 4 * static_cast<int64_t>(program_->blocks.size() + 1);
  batch.parallel(ranges, cost * (tiles / ranges), [&](int64_t range) {
    job(range, range * tiles / ranges, (range + 1) * tiles / ranges, RunSerially);
  });
}

template <class T>
template <class Job>
void StateVectorEngine<T>::ForEachTile(const Call& call, const Job& job) {
  ForEachTileRange(
      call, call.layout.tiles,
      [&](int64_t tile, int64_t, int64_t, const Parallel& parallel) { job(tile, parallel); });
}

template <class T>
template <class Job>
void StateVectorEngine<T>::AdjointOverTiles(const Batch& batch, const TileLayout& layout,
                                            bool want_per_example, double* shared_gradients,
                                            double* per_example_gradients, const Job& job) {
  if (batch.size == 0) return;
  const Program& program = *program_;
  Call call(batch, layout);
  const Region region = want_per_example ? Region::kBackwardAll : Region::kBackwardShared;
  call.plan = &PlanFor(call, region);
  call.with_inverses = true;
  call.mode = want_per_example;
  BeginCall(&call);
  std::vector<std::vector<double>> totals;
  for (const FactorSequence& sequence : program.sequences)
    totals.emplace_back((call.has_tangents() ? 4 : 2) * sequence.size * sequence.size);
  const int64_t ranges = SumRanges(layout, batch.threads, batch.max_lane_qubits);
  std::unique_ptr<RangeSums> sums = AcquireSums(ranges);
  std::vector<std::vector<std::vector<double>>>& sequence_sums = sums->sequences;
  std::vector<std::vector<double>>& shared = sums->shared;
  const auto run_tile = [&](int64_t tile, int64_t range, const Parallel& parallel) {
    std::vector<std::unique_ptr<Buffer>> own;
    const auto acquire = [&] {
      own.push_back(AcquireBuffer(call.layout.tile_reals));
      return own.back()->data;
    };
    const AdjointStates states = job(call, tile, range, parallel, acquire);
    AdjointBackward(call, tile, parallel, states, want_per_example, &sequence_sums[range],
                    shared[range].data(), per_example_gradients);
    if (batch.seed_gradients) GatherSeedGradient(call, tile, states.lambda);
    if (batch.initial_gradients) StoreStateGradients(call, tile, parallel, states.lambda);
    for (std::unique_ptr<Buffer>& buffer : own) ReleaseBuffer(std::move(buffer));
  };
  ForEachTileRange(call, ranges,
                   [&](int64_t range, int64_t first, int64_t last, const Parallel& parallel) {
                     sequence_sums[range] = totals;  // zeros, in the memory of the last call
                     shared[range].assign(program.shared, 0);
                     for (int64_t tile = first; tile < last; ++tile)
                       run_tile(tile, range, parallel);
                   });
  for (int64_t range = 0; range < ranges; ++range) {
    for (size_t r = 0; r < totals.size(); ++r)
      for (size_t i = 0; i < totals[r].size(); ++i) totals[r][i] += sequence_sums[range][r][i];
    for (int64_t e = 0; e < program.shared; ++e) shared_gradients[e] += shared[range][e];
  }
  ParameterGradients(program, *call.shared_matrices, totals, call.has_tangents(), shared_gradients);
  ReleaseSums(std::move(sums));
  EndCall(&call);
}

}  // namespace qfleet

#endif  // QFLEET_ENGINE_INTERNAL_H_
