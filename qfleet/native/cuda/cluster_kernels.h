// States that fill the shared memory of a few thread blocks: a cluster evolves, measures and
// differentiates one in one launch.
//
// Each block of a cluster has a tile of the state: the bits of the index that are not those of the
// tile are the block's rank. The blocks of a program are applied window by window, as to a state in
// the device's memory. Between two windows the blocks exchange amplitudes: each thread reads its
// new amplitudes from the shared memory of all blocks, and writes them when all threads have read.
#ifndef QFLEET_CUDA_CLUSTER_KERNELS_H_
#define QFLEET_CUDA_CLUSTER_KERNELS_H_

#include "cluster.h"
#include "wide_kernels.h"

namespace qfleet {
namespace device {

constexpr int32_t kHeldBits = 4, kHeld = 1 << kHeldBits;  // amplitudes of a tile, of each thread
// A tile has at most the places that 16 bits count, in bytes.
template <class T>
constexpr int32_t kClusterTileBits = sizeof(Complex<T>) == 8 ? kMaxTileBits : kMaxTileBits - 1;
template <class T>
constexpr int32_t kClusterThreads = 1 << (kClusterTileBits<T> - kHeldBits);

// Where the amplitudes of a tile come from. Number t of a tile goes to the place that the columns
// `to` of the bits of t have, and comes from the rank (upper half) and place (lower half) that the
// columns `from` and `from_rank`, those of the bits of the own rank, have.
struct alignas(16) ExchangeTable {
  uint32_t from[kColumns], from_rank[kMaxClusterBits], from_base;
  uint16_t to[kColumns], to_base;
};

template <class T>
struct ClusterArguments {
  ProgramView<T> program;  // its strings of places are those of (rank, place)
  int32_t cluster_bits, tile_bits;
  int32_t window_count, earliest;  // the first window with a gradient
  const WindowTable* windows;
  const ExchangeTable *forward, *backward;  // from window w to w + 1, and from w + 1 to w
  int64_t size;
  const Complex<T>* initial_states;  // as of SmallArguments
  const Complex<T>* matrices;
  const Complex<T>* products;
  T* string_values;             // [size][ranks][strings]; null: not wanted
  const T* coefficients;        // [size][strings]; null: no gradient
  WideOf<T>* unit_sums;         // [thread blocks][block sums][kMatrixReals]
  T* product_sums;              // [size][ranks][product sums][kMatrixReals]
  Complex<T>* state_gradients;  // as of SmallArguments
};

// A thread's amplitudes of a tile during an exchange.
template <class T>
struct Held {
  Complex<T> amplitudes[kHeld];
};

// The places of a thread's amplitudes before and after an exchange.
class ExchangePlaces {
 public:
  __device__ __forceinline__ ExchangePlaces(const ExchangeTable& table, uint32_t rank)
      : table_(table), size_bits_(Group<0>().size_bits()) {
    from_ = table.from_base;
    to_ = table.to_base;
#pragma unroll
    for (int32_t i = 0; i < kMaxClusterBits; ++i)
      if (rank >> i & 1) from_ ^= table.from_rank[i];
#pragma unroll
    for (int32_t i = 0; i < kRankBits; ++i)
      if (threadIdx.x >> i & 1) {
        from_ ^= table.from[i];
        to_ ^= table.to[i];
      }
  }

  template <class T>
  __device__ __forceinline__ void Read(Cluster cluster, Complex<T>* tile, Held<T>* held) const {
    ForEach(table_.from, from_, [&](int32_t k, uint32_t from) {
      held->amplitudes[k] = At(cluster.In(from >> 16, tile), from & 0xffffu);
    });
  }

  template <class T>
  __device__ __forceinline__ void Write(const Held<T>& held, Complex<T>* tile) const {
    ForEach(table_.to, to_, [&](int32_t k, uint32_t to) { At(tile, to) = held.amplitudes[k]; });
  }

 private:
  // In Gray code, so that a place is the one before it and one column.
  template <class Column, class Visit>
  __device__ __forceinline__ void ForEach(const Column* columns, uint32_t place,
                                          const Visit& visit) const {
    const uint32_t of_bits[kHeldBits] = {columns[size_bits_], columns[size_bits_ + 1],
                                         columns[size_bits_ + 2], columns[size_bits_ + 3]};
#pragma unroll
    for (int32_t step = 0; step < kHeld; ++step) {
      if (step > 0) place ^= of_bits[BitOf(step)];
      visit(step, place);
    }
  }

  const ExchangeTable& table_;
  const int32_t size_bits_;
  uint32_t from_, to_;
};

// Changes the window of a state, and of the adjoint state unless it is null.
template <class T>
__device__ QFLEET_NOINLINE void Exchange(const ExchangeTable& table, uint32_t rank, Complex<T>* psi,
                                         Complex<T>* lambda) {
  const Cluster cluster;
  const ExchangePlaces places(table, rank);
  Held<T> of_psi, of_lambda;
  cluster.Sync();
  places.Read(cluster, psi, &of_psi);
  if (lambda) places.Read(cluster, lambda, &of_lambda);
  cluster.Sync();
  places.Write(of_psi, psi);
  if (lambda) places.Write(of_lambda, lambda);
  __syncthreads();
}

struct PlaceStrings {
  const PauliString* place_strings;
  int32_t string_count;
};

// A block's share of the strings of a state. Numbers of amplitudes have the rank above the place.
template <class T>
class RankStrings {
 public:
  __device__ __forceinline__ RankStrings(uint32_t rank, int32_t tile_bits, Complex<T>* psi)
      : tile_bits_(tile_bits), psi_(psi), strip_(StripOf<0, kHeldBits>(tile_bits)) {
    strip_.first |= static_cast<int64_t>(rank) << tile_bits;
  }

  __device__ QFLEET_NOINLINE void Measure(PlaceStrings strings, T* warp_sums, T* values) const {
    MeasureStrings<0>(strings, strip_, Load(), warp_sums, values);
  }
  __device__ QFLEET_NOINLINE void Apply(const PauliString* strings, int32_t count,
                                        const T* coefficients, Complex<T>* lambda) const {
    const uint32_t in_tile = (1u << tile_bits_) - 1;
    ApplyToStrip(strings, count, coefficients, strip_, Load(),
                 [&](int64_t i, Complex<T> x) { lambda[static_cast<uint32_t>(i) & in_tile] = x; });
  }

 private:
  __device__ __forceinline__ auto Load() const {
    return [bits = tile_bits_, psi = psi_](int64_t i) {
      const uint32_t number = static_cast<uint32_t>(i);
      return Cluster().In(number >> bits, psi)[number & ((1u << bits) - 1)];
    };
  }

  const int32_t tile_bits_;
  Complex<T>* const psi_;
  Strip<kHeldBits> strip_;
};

// Examples are dealt to clusters in a fixed order.
template <class T>
__global__ void __launch_bounds__(kClusterThreads<T>, 1) EvolveClusters(ClusterArguments<T> call) {
#ifdef QFLEET_HAS_CLUSTERS
  QFLEET_SHARED_MEMORY(memory);
  const ProgramView<T>& program = call.program;
  const Cluster cluster;
  const int32_t bits = call.tile_bits;
  const int64_t ranks = int64_t{1} << call.cluster_bits;
  const uint32_t rank = blockIdx.x & (static_cast<uint32_t>(ranks) - 1);
  Complex<T>* const psi = reinterpret_cast<Complex<T>*>(memory);
  Complex<T>* const lambda = psi + (1u << bits);
  T* const warp_sums = reinterpret_cast<T*>(psi + ((call.coefficients ? 2u : 1u) << bits));
  for (int64_t example = blockIdx.x >> call.cluster_bits; example < call.size;
       example += gridDim.x >> call.cluster_bits) {
    const Matrices<T> matrices = {
        call.matrices, call.products + example * program.product_count * (kMatrixReals / 2)};
    const int64_t part = example * ranks + rank;
    BeginTile(
        call.windows[0], rank,
        call.initial_states ? call.initial_states + (example << program.qubits) : program.initial,
        psi);
    __syncthreads();
    for (int32_t w = 0; w < call.window_count; ++w) {
      if (w > 0) Exchange<T>(call.forward[w - 1], rank, psi, nullptr);
      ForwardPass(program.blocks + call.windows[w].first, call.windows[w].count, matrices,
                  Group<0>(), psi);
    }
    cluster.Sync();
    if (call.string_values)
      RankStrings<T>(rank, bits, psi)
          .Measure({program.place_strings, program.string_count}, warp_sums,
                   call.string_values + part * program.string_count);
    if (call.coefficients) {
      RankStrings<T>(rank, bits, psi)
          .Apply(program.place_strings, program.string_count,
                 call.coefficients + example * program.string_count, lambda);
      cluster.Sync();
      const SumTargets<T> targets = {
          call.unit_sums + blockIdx.x * program.block_sums * kMatrixReals, nullptr,
          call.product_sums + part * program.product_sums * kMatrixReals};
      for (int32_t w = call.window_count - 1; w >= call.earliest; --w) {
        BackwardPass<T, 0>(program.blocks + call.windows[w].first, call.windows[w].count, matrices,
                           program.mode, psi, lambda, warp_sums, targets);
        if (w > call.earliest) Exchange(call.backward[w - 1], rank, psi, lambda);
      }
      if (call.state_gradients)
        StoreTile(call.windows[0], call.windows[0].begin, rank, lambda,
                  call.state_gradients + (example << program.qubits));
    }
    cluster.Sync();  // until then, another block may read this one's state
  }
#endif
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_CLUSTER_KERNELS_H_
