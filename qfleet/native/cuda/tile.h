// A state, or a part of one, in shared memory, and the blocks that act on it.
//
// The place of amplitude i is a linear function of the bits of i (over GF(2): an XOR of a column
// for each bit that is set). A block on bits a and b then acts on the tuples first, first ^
// column[a], first ^ column[b], first ^ column[a] ^ column[b]. Two things follow:
//   - A permutation of basis states, such as CNOT, changes the columns and moves no amplitude.
//   - The bits in which the threads of a warp differ can be chosen so that these threads always
//     meet different banks of the memory.
#ifndef QFLEET_CUDA_TILE_H_
#define QFLEET_CUDA_TILE_H_

#include "complex.h"
#include "device_interface.h"

namespace qfleet {
namespace device {

constexpr int32_t kWarp = 32;
constexpr int32_t kMaxTileBits = 13;
constexpr int32_t kColumns = 16;
constexpr int32_t kRankBits = 10;  // of a thread's rank in its group, an even number

// The place of index i is base ^ the columns of the bits of i. Places are in bytes.
struct alignas(16) PlaceTable {
  uint16_t columns[kColumns];
  uint16_t base;
};

// A block, as a pass over a tile reads it.
struct alignas(16) PassBlock {
  uint16_t columns[kColumns];  // of the bits of a tuple's number
  uint16_t base;               // the place of the first amplitude of tuple 0
  uint16_t offset[3];          // from the first amplitude of a tuple to the others
  uint8_t size, tuple_bits;    // amplitudes of a tuple, 2 or 4; logarithm of the number of tuples
  uint8_t is_controlled, unused;
  uint8_t entry[4];      // of the block's matrix, for a controlled block
  int32_t matrix, sums;  // as in BlockTable
  uint8_t gradient[2], uncompute[2];
  int32_t reserved;
};

// Reads a block with a few wide loads.
__device__ __forceinline__ PassBlock LoadBlock(const PassBlock* from) {
  struct alignas(16) Vector {
    uint32_t words[4];
  };
  constexpr int kVectors = sizeof(PassBlock) / sizeof(Vector);
  union {
    Vector vectors[kVectors];
    PassBlock block;
  } loaded;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) loaded.vectors[i] = reinterpret_cast<const Vector*>(from)[i];
  return loaded.block;
}

// XOR of the columns of the bits that are set in `index`, two columns at a time.
__device__ __forceinline__ uint32_t Combine(const uint16_t* columns, uint32_t index) {
  uint32_t pair = 0;
#pragma unroll
  for (int32_t i = 0; i < kRankBits; i += 2) {
    const uint32_t low = 0u - (index >> i & 1), high = 0u - (index >> (i + 1) & 1);
    const uint32_t mask = (low & 0xffffu) | (high & 0xffff0000u);
    pair ^= (columns[i] | static_cast<uint32_t>(columns[i + 1]) << 16) & mask;
  }
  return (pair ^ pair >> 16) & 0xffffu;
}

template <class T>
__device__ __forceinline__ Complex<T>& At(Complex<T>* tile, uint32_t place) {
  return *reinterpret_cast<Complex<T>*>(reinterpret_cast<char*>(tile) + place);
}

// The threads that work on one tile: LANES lanes of a warp, or the thread block if LANES is 0.
template <int LANES>
struct Group {
  static constexpr bool kIsBlock = LANES == 0;
  __device__ __forceinline__ uint32_t rank() const {
    return LANES ? threadIdx.x % (LANES ? LANES : 1) : threadIdx.x;
  }
  __device__ __forceinline__ uint32_t size() const { return LANES ? LANES : blockDim.x; }
  __device__ __forceinline__ int32_t size_bits() const { return 31 - __clz(size()); }
  __device__ __forceinline__ void Sync() const {
    if (LANES == 0)
      __syncthreads();
    else
      __syncwarp();
  }
};

// For this thread's share of a block's tuples, calls load(place of the first amplitude, numbers),
// and then use(place, numbers). A thread block loads the next tuple before it uses the last one, so
// that the memory answers while the thread computes; groups of lanes have few tuples and are many.
// `memory` is the block's table, of which a thread reads one column for each bit beyond its rank.
template <class Numbers, class Threads, class Load, class Use>
__device__ __forceinline__ void ForEachTuple(const PassBlock& block, const PassBlock* memory,
                                             Threads threads, const Load& load, const Use& use) {
  const uint32_t rank = threads.rank();
  const int32_t bits = block.tuple_bits, size_bits = threads.size_bits();
  if (rank >> bits) return;
  uint32_t place = block.base ^ Combine(block.columns, rank);
  Numbers numbers;
  load(place, &numbers);
  const uint32_t steps = bits > size_bits ? 1u << (bits - size_bits) : 1;
  const uint32_t first = memory->columns[size_bits], second = memory->columns[size_bits + 1],
                 third = memory->columns[size_bits + 2], fourth = memory->columns[size_bits + 3];
  const auto column =
      [&](uint32_t step) {  // in Gray code: each step flips one bit, of four at most
        return step & 1 ? first : step & 2 ? second : step & 4 ? third : fourth;
      };
  if constexpr (Threads::kIsBlock) {
    for (uint32_t step = 1; step < steps; step += 2) {
      Numbers others;
      const uint32_t other = place ^ column(1);
      load(other, &others);
      use(place, numbers);
      if (step + 1 == steps) return use(other, others);
      place = other ^ column(step + 1);
      load(place, &numbers);
      use(other, others);
    }
    use(place, numbers);
  } else {
    for (uint32_t step = 1;; ++step) {
      use(place, numbers);
      if (step == steps) return;
      place ^= column(step);
      load(place, &numbers);
    }
  }
}

// The lowest bit that is set.
__device__ __forceinline__ constexpr int32_t BitOf(int32_t k) {
  return k & 1 ? 0 : k & 2 ? 1 : k & 4 ? 2 : 3;
}

// Calls visit(indices, places, count) for this thread's share of 2**bits indices, up to BATCH at a
// time, so that memory is asked for all of them before the first answer.
template <int BATCH, class Threads, class Visit>
__device__ __forceinline__ void ForEachPlaces(const uint16_t* columns, uint32_t base, int32_t bits,
                                              Threads threads, const Visit& visit) {
  const uint32_t rank = threads.rank();
  if (rank >= 1u << bits) return;
  const int32_t size_bits = threads.size_bits();
  const uint32_t first = base ^ Combine(columns, rank);
  const int32_t steps = bits > size_bits ? 1 << (bits - size_bits) : 1;
  uint32_t of_batch[BATCH];  // places of a batch without those of its first index
#pragma unroll
  for (int32_t k = 0; k < BATCH; ++k)
    of_batch[k] = k == 0 ? 0 : of_batch[k & (k - 1)] ^ columns[size_bits + BitOf(k)];
  for (int32_t done = 0; done < steps; done += BATCH) {
    uint32_t begin = first;
    for (int32_t left = done, i = size_bits; left; left >>= 1, ++i)
      if (left & 1) begin ^= columns[i];
    uint32_t indices[BATCH], places[BATCH];
#pragma unroll
    for (int32_t k = 0; k < BATCH; ++k) {
      indices[k] = rank | static_cast<uint32_t>(done + k) << size_bits;
      places[k] = begin ^ of_batch[k];
    }
    visit(indices, places, steps - done < BATCH ? steps - done : BATCH);
  }
}

// The block's matrix; a controlled block uses four entries of it.
template <class T, int SIZE>
__device__ __forceinline__ void BlockMatrix(const PassBlock& block, const Complex<T>* matrix,
                                            Complex<T>* u) {
  if (SIZE == 2 && block.is_controlled) {
#pragma unroll
    for (int i = 0; i < 4; ++i) u[i] = matrix[block.entry[i]];
  } else {
    LoadMatrix<SIZE * SIZE>(matrix, u);
  }
}

template <class T, int SIZE>
struct Tuple {
  Complex<T> numbers[SIZE];
};

template <class T, int SIZE, class Threads>
__device__ __forceinline__ void ApplyMatrix(const PassBlock& block, const PassBlock* memory,
                                            const Complex<T>* matrix, Threads threads,
                                            Complex<T>* psi) {
  Complex<T> u[SIZE * SIZE];
  BlockMatrix<T, SIZE>(block, matrix, u);
  const auto at = [&](uint32_t first, int j) -> Complex<T>& {
    return At(psi, j ? first ^ block.offset[j - 1] : first);
  };
  ForEachTuple<Tuple<T, SIZE>>(
      block, memory, threads,
      [&](uint32_t first, Tuple<T, SIZE>* in) {
#pragma unroll
        for (int j = 0; j < SIZE; ++j) in->numbers[j] = at(first, j);
      },
      [&](uint32_t first, const Tuple<T, SIZE>& in) {
#pragma unroll
        for (int r = 0; r < SIZE; ++r) {
          Complex<T> sum = {0, 0};
#pragma unroll
          for (int j = 0; j < SIZE; ++j) AddProduct(u[r * SIZE + j], in.numbers[j], &sum);
          at(first, r) = sum;
        }
      });
}

// Applies a block to a tile. The threads must be synchronized before and after.
template <class T, class Threads>
__device__ __forceinline__ void ApplyBlock(const PassBlock& block, const PassBlock* memory,
                                           const Complex<T>* matrix, Threads threads,
                                           Complex<T>* psi) {
  if (block.size == 4)
    ApplyMatrix<T, 4>(block, memory, matrix, threads, psi);
  else
    ApplyMatrix<T, 2>(block, memory, matrix, threads, psi);
}

template <int SIZE, class T>
__device__ __forceinline__ void MultiplyAdjoint(const Complex<T>* u, Complex<T>* x) {
  Complex<T> out[SIZE];
#pragma unroll
  for (int r = 0; r < SIZE; ++r) {
    out[r] = {0, 0};
#pragma unroll
    for (int j = 0; j < SIZE; ++j) AddConjugateProduct(u[j * SIZE + r], x[j], &out[r]);
  }
#pragma unroll
  for (int r = 0; r < SIZE; ++r) x[r] = out[r];
}

// Adds psi[j] conj(lambda[r]) of all tuples of this thread to sums[j * SIZE + r], and then applies
// the inverse of the block to both states.
template <class T, int SIZE, class Threads>
__device__ __forceinline__ void ReverseMatrix(const PassBlock& block, const PassBlock* memory,
                                              const Complex<T>* matrix, Threads threads,
                                              bool gradient, bool uncompute, Complex<T>* psi,
                                              Complex<T>* lambda, Complex<T>* sums) {
  Complex<T> u[SIZE * SIZE];
  BlockMatrix<T, SIZE>(block, matrix, u);
  const auto at = [&](Complex<T>* tile, uint32_t first, int j) -> Complex<T>& {
    return At(tile, j ? first ^ block.offset[j - 1] : first);
  };
  struct Pair {
    Tuple<T, SIZE> psi, lambda;
  };
  ForEachTuple<Pair>(
      block, memory, threads,
      [&](uint32_t first, Pair* pair) {
#pragma unroll
        for (int j = 0; j < SIZE; ++j) {
          pair->psi.numbers[j] = at(psi, first, j);
          pair->lambda.numbers[j] = at(lambda, first, j);
        }
      },
      [&](uint32_t first, Pair& pair) {
        Complex<T>*const x = pair.psi.numbers, *const y = pair.lambda.numbers;
        if (gradient) {
#pragma unroll
          for (int j = 0; j < SIZE; ++j)
#pragma unroll
            for (int r = 0; r < SIZE; ++r) AddConjugateProduct(y[r], x[j], &sums[j * SIZE + r]);
        }
        if (uncompute) {
          MultiplyAdjoint<SIZE>(u, x);
          MultiplyAdjoint<SIZE>(u, y);
#pragma unroll
          for (int j = 0; j < SIZE; ++j) {
            at(psi, first, j) = x[j];
            at(lambda, first, j) = y[j];
          }
        }
      });
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_TILE_H_
