// The amplitudes of a tile in the order of the caller's states, whose qubits have another order.
#ifndef QFLEET_AMPLITUDE_ORDER_H_
#define QFLEET_AMPLITUDE_ORDER_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "state/engine_internal.h"

namespace qfleet {

// Permutes the bits of an index: bit i becomes bit order[i]. Two lookup tables, one per half.
class BitPermutation {
 public:
  BitPermutation(const int64_t* order, int32_t qubits)
      : order_(order, order + qubits), half_(qubits / 2) {
    for (int64_t high = 0; high < 2; ++high) {
      const int32_t first = high ? half_ : 0, count = high ? qubits - half_ : half_;
      for (int64_t value = 0; value < int64_t{1} << count; ++value) {
        int64_t index = 0;
        for (int32_t bit = 0; bit < count; ++bit) index |= (value >> bit & 1) << order[first + bit];
        tables_[high].push_back(index);
      }
    }
  }
  int64_t operator()(int64_t index) const {
    return tables_[0][index & ((int64_t{1} << half_) - 1)] | tables_[1][index >> half_];
  }
  const std::vector<int64_t>& order() const { return order_; }

 private:
  std::vector<int64_t> order_;
  int32_t half_;
  std::vector<int64_t> tables_[2];
};

// Numbers the indices in blocks that fill cache lines on both sides of a permutation: an index is
// outer | inner, where the inner bits are the lowest before and after it.
struct IndexBlocks {
  static constexpr int64_t kTileBits = 4;   // one group of 16 lanes
  static constexpr int64_t kStateBits = 3;  // 64 bytes of complex64

  explicit IndexBlocks(const std::vector<int64_t>& order) {
    const int32_t qubits = static_cast<int32_t>(order.size());
    std::vector<int32_t> inner_bits;
    for (int32_t bit = 0; bit < qubits; ++bit) {
      const bool is_inner = bit < kTileBits || order[bit] < kStateBits;
      (is_inner ? inner_bits : outer_bits).push_back(bit);
    }
    // Within a block, consecutive amplitudes of the states.
    std::sort(inner_bits.begin(), inner_bits.end(),
              [&](int32_t a, int32_t b) { return order[a] < order[b]; });
    for (int64_t i = 0; i < int64_t{1} << inner_bits.size(); ++i)
      inner.push_back(ScatterBits(i, inner_bits));
  }

  std::vector<int32_t> outer_bits;
  std::vector<int64_t> inner;
};

// Calls visit(index of a real part in the tile, index of an amplitude in [B][2**N]) for all
// amplitudes of the tile's examples.
template <class Visit>
void ForEachAmplitude(const TileLayout& layout, int32_t lanes, int64_t tile, int64_t present,
                      const BitPermutation& permutation, const Parallel& parallel,
                      const Visit& visit) {
  const int32_t amplitude_bits = Log2(lanes / layout.samples);  // of a group
  const int64_t size = layout.groups << amplitude_bits;
  const auto real_index = [&](int64_t x) {
    const int64_t lane = (x & ((int64_t{1} << amplitude_bits) - 1)) * layout.samples;
    return 2 * lanes * (x >> amplitude_bits) + lane;
  };
  const IndexBlocks blocks(permutation.order());
  const int64_t count = static_cast<int64_t>(blocks.inner.size());
  std::vector<int64_t> reals, amplitudes;
  for (int64_t x : blocks.inner) {
    reals.push_back(real_index(x));
    amplitudes.push_back(permutation(x));
  }
  ForEachRange(parallel, size / count, count, [&](int64_t, int64_t from, int64_t to) {
    for (int64_t block = from; block < to; ++block) {
      const int64_t x = ScatterBits(block, blocks.outer_bits);
      const int64_t real = real_index(x), y = permutation(x);
      for (int64_t s = 0; s < present; ++s)
        for (int64_t i = 0; i < count; ++i)
          visit(real + reals[i] + s, (tile * layout.samples + s) * size + y + amplitudes[i]);
    }
  });
}

}  // namespace qfleet

#endif  // QFLEET_AMPLITUDE_ORDER_H_
