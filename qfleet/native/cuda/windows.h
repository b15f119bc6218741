// Prepares the blocks of a program for passes: their places in a tile, and windows of wide states.
// Runs on the host.
#ifndef QFLEET_CUDA_WINDOWS_H_
#define QFLEET_CUDA_WINDOWS_H_

#include <limits>
#include <utility>
#include <vector>

#include "wide_kernels.h"

namespace qfleet {
namespace device {

// The places of the amplitudes of a tile while blocks are appended.
class Places {
 public:
  // `bank_bits`: 2**bank_bits amplitudes fill the 128 bytes of the shared memory's banks once.
  // Layouts differ in the banks of the amplitudes.
  Places(int32_t bits, int32_t bank_bits, uint32_t layout)
      : bits_(bits), bank_bits_(bank_bits), byte_bits_(kBankBytesBits - bank_bits) {
    uint32_t random = layout;
    for (int32_t i = 0; i < bits; ++i) {
      // Columns of higher bits have a part in the banks, so that blocks on the lowest bits leave
      // enough columns that differ in the banks.
      random = 1664525u * random + 1013904223u;
      uint32_t part = 0;
      if (i >= bank_bits && layout > 0) part = random >> (32 - bank_bits);
      if (i >= bank_bits && layout == 0 && i < 2 * bank_bits) part = 1u << (i - bank_bits);
      table_.columns[i] = static_cast<uint16_t>((1u << i | part) << byte_bits_);
    }
  }

  // Accesses to the banks so far that wait for others of the same warp, in a unit of its own.
  int64_t conflicts() const { return conflicts_; }

  const PlaceTable& table() const { return table_; }

  // The block of tile bits for a pass, or false for a permutation, which changes the places.
  bool Append(const BlockTable& block, PassBlock* pass) {
    if (block.kind == kPermutation) {
      Permute(block);
      return false;
    }
    *pass = {};
    const uint16_t first = table_.columns[block.bits[0]];
    const uint16_t second = block.kind == kOneQubit ? 0 : table_.columns[block.bits[1]];
    pass->base = table_.base;
    pass->size = block.kind == kTwoQubits ? 4 : 2;
    if (block.kind == kOneQubit) {
      pass->offset[0] = first;
    } else if (block.kind == kTwoQubits) {
      pass->offset[0] = second;
      pass->offset[1] = first;
      pass->offset[2] = first ^ second;
    } else {
      pass->is_controlled = 1;
      if (block.control) pass->base ^= first;
      pass->offset[0] = second;
      for (int32_t i = 0; i < 4; ++i) pass->entry[i] = static_cast<uint8_t>(block.entry[i]);
    }
    for (int mode = 0; mode < 2; ++mode) {
      pass->gradient[mode] = block.gradient[mode] != 0;
      pass->uncompute[mode] = block.uncompute[mode] != 0;
    }
    pass->matrix = block.matrix;
    pass->sums = block.sums;
    std::vector<uint16_t> columns;
    for (int32_t i = 0; i < bits_; ++i)
      if (i != block.bits[0] && (block.kind == kOneQubit || i != block.bits[1]))
        columns.push_back(table_.columns[i]);
    pass->tuple_bits = static_cast<uint8_t>(columns.size());
    const int32_t shared_bits = std::min<int32_t>(bank_bits_, pass->tuple_bits) -
                                OrderByBanks(&columns);  // of the banks that lanes meet
    conflicts_ += (((int64_t{1} << shared_bits) - 1) << pass->tuple_bits) * pass->size;
    std::copy(columns.begin(), columns.end(), pass->columns);
    return true;
  }

 private:
  // The amplitude of basis state j moves to entry[j] = A j ^ b, so that the place of y is that of
  // A**-1 (y ^ b) before. All permutations of two bits have this form.
  void Permute(const BlockTable& block) {
    const uint16_t old[2] = {table_.columns[block.bits[1]], table_.columns[block.bits[0]]};
    const auto old_place = [&](int32_t from) {
      return static_cast<uint16_t>((from & 1 ? old[0] : 0) ^ (from & 2 ? old[1] : 0));
    };
    uint16_t place[4];  // of the new basis states, without the base
    for (int32_t j = 0; j < 4; ++j) place[block.entry[j]] = old_place(j);
    table_.columns[block.bits[1]] = place[1] ^ place[0];
    table_.columns[block.bits[0]] = place[2] ^ place[0];
    table_.base ^= place[0];
  }

  // Moves columns whose parts in the banks are independent to the front, and returns their number.
  int32_t OrderByBanks(std::vector<uint16_t>* columns) const {
    std::vector<uint16_t> chosen, rest;
    uint16_t basis[16] = {};  // by highest bit, of the parts chosen so far
    for (uint16_t column : *columns) {
      uint16_t part = static_cast<uint16_t>(column >> byte_bits_ & ((1u << bank_bits_) - 1));
      for (int32_t bit = bank_bits_ - 1; bit >= 0; --bit)
        if (part >> bit & 1 && basis[bit]) part ^= basis[bit];
      if (!part) {
        rest.push_back(column);
        continue;
      }
      basis[31 - __builtin_clz(static_cast<unsigned>(part))] = part;
      chosen.push_back(column);
    }
    columns->assign(chosen.begin(), chosen.end());
    columns->insert(columns->end(), rest.begin(), rest.end());
    return static_cast<int32_t>(chosen.size());
  }

  static constexpr int32_t kBankBytesBits = 7;
  int32_t bits_, bank_bits_, byte_bits_;
  int64_t conflicts_ = 0;
  PlaceTable table_ = {};
};

// Layouts that are tried for a window of this number of blocks.
inline uint32_t LayoutsFor(size_t blocks) {
  constexpr size_t kMost = 32, kMostBlocks = 16384;  // of all tries: some milliseconds
  return static_cast<uint32_t>(std::min(kMost, std::max<size_t>(1, kMostBlocks / (blocks + 1))));
}

struct WindowPlan {
  std::vector<WindowTable> windows;
  std::vector<PassBlock> blocks;  // in the order of the windows
};

inline int64_t BitsOf(const BlockTable& block) {
  int64_t bits = int64_t{1} << block.bits[0];
  if (block.kind != kOneQubit) bits |= int64_t{1} << block.bits[1];
  return bits;
}

// A window of the bits `chosen` with these blocks.
inline void AppendWindow(const std::vector<BlockTable>& blocks, int64_t chosen, int32_t qubits,
                         int32_t bank_bits, WindowPlan* plan) {
  WindowTable window = {};
  window.first = static_cast<int32_t>(plan->blocks.size());
  int32_t place[64] = {};
  for (int32_t bit = 0; bit < qubits; ++bit)
    if (chosen >> bit & 1) {
      place[bit] = window.bit_count;
      window.bits[window.bit_count++] = bit;
    }
  // The layout with the fewest conflicts: a permutation changes the columns for the blocks after
  // it.
  int64_t least = std::numeric_limits<int64_t>::max();
  std::vector<PassBlock> passes;
  for (uint32_t layout = 0; layout < LayoutsFor(blocks.size()) && least > 0; ++layout) {
    Places places(window.bit_count, bank_bits, layout);
    const PlaceTable begin = places.table();
    std::vector<PassBlock> tried;
    for (BlockTable block : blocks) {
      block.bits[0] = place[block.bits[0]];
      if (block.kind != kOneQubit) block.bits[1] = place[block.bits[1]];
      PassBlock pass;
      if (places.Append(block, &pass)) tried.push_back(pass);
    }
    if (places.conflicts() >= least) continue;
    least = places.conflicts();
    window.begin = begin;
    window.end = places.table();
    passes = std::move(tried);
  }
  plan->blocks.insert(plan->blocks.end(), passes.begin(), passes.end());
  window.count = static_cast<int32_t>(passes.size());
  plan->windows.push_back(window);
}

// Windows have `tile_bits` bits, the lowest `low_bits` of the index among them, so that memory is
// read in whole lines. A window takes every block that fits and does not share a qubit with an
// earlier block that it leaves out: blocks on other qubits may change places.
inline WindowPlan PlanWindows(const std::vector<BlockTable>& blocks, int32_t qubits,
                              int32_t tile_bits, int32_t low_bits, int32_t bank_bits) {
  WindowPlan plan;
  std::vector<BlockTable> left = blocks;
  do {
    int64_t chosen = (int64_t{1} << (low_bits < tile_bits ? low_bits : tile_bits)) - 1;
    int64_t blocked = 0;
    std::vector<BlockTable> taken, rest;
    for (const BlockTable& block : left) {
      const int64_t bits = BitsOf(block);
      if (!(bits & blocked) && __builtin_popcountll(chosen | bits) <= tile_bits) {
        chosen |= bits;
        taken.push_back(block);
      } else {
        blocked |= bits;
        rest.push_back(block);
      }
    }
    for (int32_t bit = 0; bit < qubits && __builtin_popcountll(chosen) < tile_bits; ++bit)
      chosen |= int64_t{1} << bit;
    AppendWindow(taken, chosen, qubits, bank_bits, &plan);
    left = std::move(rest);
  } while (!left.empty());
  return plan;
}

// True if the backward pass of a gradient applies a block.
inline bool NeedsGradient(const PassBlock& block, int32_t mode) {
  return block.gradient[mode] || block.uncompute[mode];
}

// True if the backward pass of a gradient applies a block of the window.
inline bool NeedsGradient(const WindowPlan& plan, const WindowTable& window, int32_t mode) {
  for (int32_t b = window.first; b < window.first + window.count; ++b)
    if (NeedsGradient(plan.blocks[b], mode)) return true;
  return false;
}

// The first window with a block that a gradient needs, or the number of windows.
inline size_t EarliestWindow(const WindowPlan& plan, int32_t mode) {
  for (size_t w = 0; w < plan.windows.size(); ++w)
    if (NeedsGradient(plan, plan.windows[w], mode)) return w;
  return plan.windows.size();
}

// The places of amplitudes by their index: base ^ the columns of the bits of the index.
struct IndexPlaces {
  std::vector<uint32_t> columns;
  uint32_t base;
};

// The places of a table, in amplitudes.
inline IndexPlaces PlacesOf(const PlaceTable& table, int32_t bits, int32_t amplitude_bytes) {
  IndexPlaces places = {{}, table.base / static_cast<uint32_t>(amplitude_bytes)};
  for (int32_t i = 0; i < bits; ++i)
    places.columns.push_back(table.columns[i] / static_cast<uint32_t>(amplitude_bytes));
  return places;
}

// A Pauli string of the state's index as a string of the numbers of places: with place = L index ^
// base, the sign (-1)**|index & z| is that of the place and L**-T z, and of |base & L**-T z|, which
// is added to the phase; a flip of the index is L flip of the place.
inline PauliString StringOfPlaces(const PauliString& string, const IndexPlaces& places) {
  const int32_t bits = static_cast<int32_t>(places.columns.size());
  PauliString moved = {};
  for (int32_t i = 0; i < bits; ++i)
    if (string.flip >> i & 1) moved.flip ^= places.columns[i];
  // Solves <w, columns[i]> = bit i of z for w, by elimination.
  std::vector<std::pair<uint32_t, uint32_t>> rows;  // (columns[i], bit of z)
  for (int32_t i = 0; i < bits; ++i)
    rows.emplace_back(places.columns[i], static_cast<uint32_t>(string.z >> i & 1));
  for (int32_t bit = 0, at = 0; bit < bits; ++bit) {
    for (size_t r = at; r < rows.size(); ++r)
      if (rows[r].first >> bit & 1) {
        std::swap(rows[at], rows[r]);
        break;
      }
    for (size_t r = 0; r < rows.size(); ++r)
      if (static_cast<int32_t>(r) != at && (rows[r].first >> bit & 1)) {
        rows[r].first ^= rows[at].first;
        rows[r].second ^= rows[at].second;
      }
    ++at;
  }
  for (const auto& row : rows)
    if (row.second) moved.z |= row.first;
  moved.ys = string.ys + (__builtin_popcountll(moved.z & places.base) % 2 ? 2 : 0);
  return moved;
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_WINDOWS_H_
