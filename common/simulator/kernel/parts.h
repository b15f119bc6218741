// What sweep.cc and stages.cc share: buffers, layouts and a call's tiles.
#ifndef QFLEET_PARTS_H_
#define QFLEET_PARTS_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "sweep.h"

namespace qfleet {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPooledBytes = int64_t{128} << 20;  // buffers up to this stay for the next call
constexpr int64_t kHugePages = int64_t{4} << 20;      // buffers from this on ask for huge pages
constexpr int64_t kPrefixBytes = int64_t{256} << 20;  // a state up to this is kept for all tiles
constexpr int64_t kSharedTile = int64_t{2} << 20;     // states of more bytes are shared by threads
constexpr double kExact = 1e-15;
constexpr int64_t kMostTurned = 6;           // angles of an example, for the subspace plan
constexpr double kPassesPerNanosecond = 50;  // multiply-adds of a core
constexpr int64_t kPieces = 64;              // a shared tile's sums are made in so many

inline int32_t Log2(int64_t value) {
  int32_t log = 0;
  while (int64_t{2} << log <= value) ++log;
  return log;
}

inline void Serially(int64_t count, int64_t, const Work& work) {
  for (int64_t i = 0; i < count; ++i) work(i);
}

// Spreads the low bits of `value` over the given bits of an index.
inline int64_t Spread(int64_t value, const std::vector<int32_t>& bits) {
  int64_t index = 0;
  for (size_t i = 0; i < bits.size(); ++i) index |= (value >> i & 1) << bits[i];
  return index;
}

template <class T>
struct Sweep<T>::Buffer {
  explicit Buffer(int64_t count) : reals(count) {
    const int64_t bytes = count * sizeof(T);
    const int64_t alignment = bytes >= kHugePages ? int64_t{2} << 20 : kAlignment;
    const int64_t size = (bytes + alignment - 1) / alignment * alignment;
    data = static_cast<T*>(std::aligned_alloc(alignment, std::max(size, alignment)));
    if (!data) throw std::bad_alloc();
    if (size >= kHugePages) madvise(data, size, MADV_HUGEPAGE);
  }
  ~Buffer() { std::free(data); }
  Buffer(const Buffer&) = delete;
  int64_t reals;
  T* data;
};

// A program's moves and windows for one way of laying qubits over lanes.
template <class T>
struct Sweep<T>::Layout {
  std::vector<Move> moves;
  std::vector<Window> windows;
  std::vector<Strings> strings;
  std::vector<std::vector<int64_t>> runs, z;
  std::vector<std::vector<int32_t>> outside, ys;
  std::vector<int64_t> chunks;  // of each window
  int64_t arena = 0;            // reals of all matrices of one direction
  std::vector<int64_t> place;   // of each block's matrix there
};

template <class T>
struct Sweep<T>::Call {
  Call(const Batch& batch_, const Shape& shape_) : batch(&batch_), shape(shape_) {}
  const Batch* batch;
  Shape shape;
  const Layout* layout;
  std::unique_ptr<Runs> runs;
  std::vector<Move> moves;  // those of shared blocks with their matrices
  std::unique_ptr<Buffer> matrices, inverses;
  std::vector<T> initial;
  bool both = false;               // inverses too
  int mode = 0;                    // 1 where gradients by each are wanted as well
  std::unique_ptr<Buffer> prefix;  // the state before the first exponent, of one tile

  int64_t present(int64_t tile) const {
    return std::min<int64_t>(shape.samples, batch->size - tile * shape.samples);
  }
  const double* each(int64_t tile, int64_t width) const {
    return batch->each + tile * shape.samples * width;
  }
};

// Cuts `count` things into at most kPieces consecutive parts and calls part(piece, from, to).
template <class Part>
void InPieces(const Parallel& parallel, int64_t count, int64_t cost, const Part& part) {
  const int64_t pieces = std::min(count, kPieces);
  parallel(pieces, cost * (count / pieces), [&](int64_t piece) {
    part(piece, piece * count / pieces, (piece + 1) * count / pieces);
  });
}

// Calls job(tile, parallel) for all tiles: a tile for each thread, or all threads for each tile.
template <class T>
template <class Job>
void Sweep<T>::OverTiles(const Call& call, const Job& job) {
  const Batch& batch = *call.batch;
  if (call.shape.shared_tile) {
    for (int64_t tile = 0; tile < call.shape.tiles; ++tile) job(tile, batch.parallel);
    return;
  }
  const int64_t cost = call.shape.groups * 4 * static_cast<int64_t>(program_->blocks.size() + 1);
  batch.parallel(call.shape.tiles, cost, [&](int64_t tile) { job(tile, Serially); });
}

// Takes all tiles back; job(call, tile, parallel, take) returns psi and lambda, for which it may
// call take() to have memory until the tile is done.
template <class T>
template <class Job>
void Sweep<T>::BackOverTiles(const Batch& batch, const Shape& shape, bool by_each,
                             double* shared_slopes, double* each_slopes, const Job& job) {
  if (batch.size == 0) return;
  const Program& program = *program_;
  Call call(batch, shape);
  call.layout = &LayoutFor(call.shape);
  call.both = true;
  call.mode = by_each;
  Begin(&call);
  // Each tile adds into its own sums, which are added up in the order of the tiles, so that the
  // result does not depend on which thread was quicker.
  std::vector<std::vector<double>> none;
  for (const Run& run : program.runs) none.emplace_back(2 * run.size * run.size);
  std::vector<std::vector<std::vector<double>>> runs(call.shape.tiles, none);
  std::vector<std::vector<double>> shared(call.shape.tiles, std::vector<double>(program.shared));
  OverTiles(call, [&](int64_t tile, const Parallel& parallel) {
    std::vector<std::unique_ptr<Buffer>> own;
    const auto take = [&] {
      own.push_back(Take(call.shape.tile_reals));
      return own.back()->data;
    };
    const std::pair<T*, T*> states = job(call, tile, parallel, take);
    Back(call, tile, parallel, states.first, states.second, by_each, &runs[tile],
         shared[tile].data(), each_slopes);
    if (batch.seed_slopes) Harvest(call, tile, states.second);
    for (std::unique_ptr<Buffer>& buffer : own) Give(std::move(buffer));
  });
  for (int64_t tile = 0; tile < call.shape.tiles; ++tile) {
    for (size_t r = 0; r < none.size(); ++r)
      for (size_t i = 0; i < none[r].size(); ++i) none[r][i] += runs[tile][r][i];
    for (int64_t e = 0; e < program.shared; ++e) shared_slopes[e] += shared[tile][e];
  }
  RunSlopes(program, *call.runs, none, shared_slopes);
  End(&call);
}

}  // namespace qfleet

#endif  // QFLEET_PARTS_H_
