// Prepares what clusters exchange between the windows of a program. Runs on the host.
#ifndef QFLEET_CUDA_EXCHANGES_H_
#define QFLEET_CUDA_EXCHANGES_H_

#include "cluster_kernels.h"
#include "windows.h"

namespace qfleet {
namespace device {

constexpr int32_t kRankShift = 16;  // of a rank, above a place in bytes

// The ranks and places of a state's amplitudes: the bits of the index that are not those of the
// window are the rank.
inline IndexPlaces ClusterPlaces(const WindowTable& window, const PlaceTable& table,
                                 int32_t qubits) {
  IndexPlaces places = {{}, table.base};
  for (int32_t bit = 0, in_tile = 0, in_rank = 0; bit < qubits; ++bit)
    if (in_tile < window.bit_count && window.bits[in_tile] == bit)
      places.columns.push_back(table.columns[in_tile++]);
    else
      places.columns.push_back(1u << (kRankShift + in_rank++));
  return places;
}

// The same, with places in amplitudes, which fill a tile.
inline IndexPlaces NumbersOf(IndexPlaces places, int32_t tile_bits, int32_t amplitude_bytes) {
  const auto number = [&](uint32_t place) {
    return place >> kRankShift << tile_bits |
           (place & ((1u << kRankShift) - 1)) / static_cast<uint32_t>(amplitude_bytes);
  };
  for (uint32_t& column : places.columns) column = number(column);
  places.base = number(places.base);
  return places;
}

// True if `part` is not a sum of the parts in `basis`, which has them by their highest bits; then
// it is added.
inline bool ExtendBasis(uint32_t part, std::vector<uint32_t>* basis) {
  for (uint32_t one : *basis) part = part < (part ^ one) ? part : part ^ one;
  if (part) basis->push_back(part);
  return part != 0;
}

// Exchanges from the places `before` to those `after`.
inline ExchangeTable PlanExchange(const IndexPlaces& before, const IndexPlaces& after,
                                  int32_t bank_bits) {
  struct Column {
    uint32_t from, to;
  };
  std::vector<Column> columns;
  ExchangeTable table = {};
  for (size_t bit = 0, in_rank = 0; bit < after.columns.size(); ++bit)
    if (after.columns[bit] >> kRankShift)
      table.from_rank[in_rank++] = before.columns[bit];
    else
      columns.push_back({before.columns[bit], after.columns[bit]});
  // Any basis of the tile's index does. The lanes of a warp differ in the first columns, which are
  // chosen so that both their reads and their writes meet different banks.
  constexpr int32_t kBankBytesBits = 7;
  const auto bank = [&](uint32_t place) {
    return place >> (kBankBytesBits - bank_bits) & ((1u << bank_bits) - 1);
  };
  std::vector<uint32_t> from_banks, to_banks;
  const size_t count = columns.size();
  const auto take = [&](size_t at, size_t i, size_t j) {
    const Column sum =
        i == j ? columns[i]
               : Column{columns[i].from ^ columns[j].from, columns[i].to ^ columns[j].to};
    std::vector<uint32_t> from = from_banks, to = to_banks;
    if (!ExtendBasis(bank(sum.from), &from) || !ExtendBasis(bank(sum.to), &to)) return false;
    from_banks = from;
    to_banks = to;
    columns[i] = sum;
    std::swap(columns[at], columns[i]);
    return true;
  };
  for (size_t at = 0; at < static_cast<size_t>(bank_bits) && at < count; ++at) {
    bool taken = false;
    for (size_t i = at; i < count && !taken; ++i) taken = take(at, i, i);
    for (size_t i = at; i < count && !taken; ++i)
      for (size_t j = at; j < count && !taken; ++j) taken = i != j && take(at, i, j);
    if (!taken) break;
  }
  for (size_t i = 0; i < count; ++i) {
    table.from[i] = columns[i].from;
    table.to[i] = static_cast<uint16_t>(columns[i].to);
  }
  table.from_base = before.base;
  table.to_base = static_cast<uint16_t>(after.base);
  return table;
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_EXCHANGES_H_
