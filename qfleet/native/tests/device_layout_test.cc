// Where a device keeps the amplitudes of a tile in shared memory, and what clusters exchange.
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cuda/exchanges.h"
#include "testing.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

using namespace device;  // NOLINT: the functions under test

constexpr int32_t kAmplitudeBytes = 8, kBankBits = 4, kBankRow = 128;  // complex64

BlockTable BlockOn(int32_t kind, int32_t upper, int32_t lower) {
  BlockTable block = {};
  block.kind = kind;
  block.bits[0] = upper;
  block.bits[1] = lower;
  const int32_t cnot[4] = {0, 1, 3, 2};
  if (kind == kPermutation) std::copy(cnot, cnot + 4, block.entry);
  return block;
}

// Layers of blocks on neighbours, and of CNOTs on qubits at a distance.
std::vector<BlockTable> Layers(int32_t qubits, int32_t distance) {
  std::vector<BlockTable> blocks;
  for (int32_t layer = 0; layer < 3; ++layer) {
    for (int32_t bit = layer % 2; bit + 1 < qubits; bit += 2)
      blocks.push_back(BlockOn(kTwoQubits, bit, bit + 1));
    for (int32_t bit = 0; bit < qubits; ++bit)
      if ((bit + distance) % qubits != bit)
        blocks.push_back(BlockOn(kPermutation, bit, (bit + distance) % qubits));
  }
  return blocks;
}

std::vector<BlockTable> RandomBlocks(int32_t qubits, std::mt19937* random) {
  std::vector<BlockTable> blocks;
  for (int32_t i = 0; i < 40; ++i) {
    const int32_t upper = static_cast<int32_t>((*random)() % static_cast<unsigned>(qubits));
    const int32_t step = 1 + static_cast<int32_t>((*random)() % static_cast<unsigned>(qubits - 1));
    const int32_t kind = (*random)() % 2 ? kPermutation : kTwoQubits;
    blocks.push_back(BlockOn(kind, upper, (upper + step) % qubits));
  }
  return blocks;
}

// True if the lanes that are served at once meet different banks, whatever the other bits are.
bool MeetDifferentBanks(const PassBlock& block) {
  std::set<uint32_t> banks;
  const uint32_t lanes = 1u << std::min<int32_t>(kBankBits, block.tuple_bits);
  for (uint32_t lane = 0; lane < lanes; ++lane)
    banks.insert((block.base ^ Combine(block.columns, lane)) % kBankRow / kAmplitudeBytes);
  return banks.size() == lanes;
}

uint32_t PlaceOf(const IndexPlaces& places, int64_t index) {
  uint32_t place = places.base;
  for (size_t bit = 0; bit < places.columns.size(); ++bit)
    if (index >> bit & 1) place ^= places.columns[bit];
  return place;
}

// Each amplitude of the new places is read from where it was.
void CheckExchange(const IndexPlaces& before, const IndexPlaces& after, const ExchangeTable& table,
                   int32_t qubits, int32_t tile_bits) {
  std::vector<uint32_t> moved(size_t{1} << qubits);  // by new number
  const auto number = [&](uint32_t place) {
    return place >> kRankShift << tile_bits | (place & 0xffffu) / kAmplitudeBytes;
  };
  for (uint32_t rank = 0; rank < 1u << (qubits - tile_bits); ++rank)
    for (uint32_t t = 0; t < 1u << tile_bits; ++t) {
      uint32_t from = table.from_base, to = table.to_base | rank << kRankShift;
      for (int32_t i = 0; i < kMaxClusterBits; ++i)
        if (rank >> i & 1) from ^= table.from_rank[i];
      for (int32_t i = 0; i < tile_bits; ++i)
        if (t >> i & 1) {
          from ^= table.from[i];
          to ^= table.to[i];
        }
      moved.at(number(to)) = number(from);
    }
  for (int64_t index = 0; index < int64_t{1} << qubits; ++index)
    CHECK(moved[number(PlaceOf(after, index))] == number(PlaceOf(before, index)),
          "amplitude " + std::to_string(index));
}

}  // namespace

void DeviceBanks(bool) {
  for (int32_t qubits = 8; qubits <= kMaxTileBits; ++qubits)
    for (const int32_t distance : {1, 2, 3}) {
      WindowPlan plan;
      AppendWindow(Layers(qubits, distance), (int64_t{1} << qubits) - 1, qubits, kBankBits, &plan);
      for (const PassBlock& block : plan.blocks)
        CHECK(MeetDifferentBanks(block),
              std::to_string(qubits) + " qubits, CNOTs at distance " + std::to_string(distance));
    }
}

void DeviceExchanges(bool light) {
  std::mt19937 random(5);
  for (int32_t qubits = 11; qubits <= (light ? 12 : 14); ++qubits) {
    const int32_t tile_bits = 10;
    const WindowPlan plan =
        PlanWindows(RandomBlocks(qubits, &random), qubits, tile_bits, 0, kBankBits);
    CHECK(plan.windows.size() > 1, "windows");
    for (size_t w = 0; w + 1 < plan.windows.size(); ++w) {
      const WindowTable &left = plan.windows[w], &right = plan.windows[w + 1];
      const IndexPlaces before = ClusterPlaces(left, left.end, qubits);
      const IndexPlaces after = ClusterPlaces(right, right.begin, qubits);
      CheckExchange(before, after, PlanExchange(before, after, kBankBits), qubits, tile_bits);
      CheckExchange(after, before, PlanExchange(after, before, kBankBits), qubits, tile_bits);
    }
  }
}

}  // namespace tests
}  // namespace qfleet
