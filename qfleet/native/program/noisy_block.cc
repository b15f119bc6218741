#include "program/noisy_block.h"

#include <limits>

namespace qfleet {
namespace {

constexpr int64_t kMaxShots = int64_t{1} << 40;

NoisyItem ReadItem(Reader* in, const GateTables& gates, const std::vector<int32_t>& channel_qubits,
                   NoisyBlock* block) {
  NoisyItem item;
  item.channel = in->Int(-1, static_cast<int64_t>(channel_qubits.size()) - 1);
  item.product.qubits = static_cast<int32_t>(in->Int(1, block->qubits));
  item.place = static_cast<int32_t>(in->Int(0, block->qubits - item.product.qubits));
  if (item.channel >= 0) {
    if (channel_qubits[item.channel] != item.product.qubits) throw Corrupt();
    return item;
  }
  ReadItems(in, gates, &item.product);
  block->per_example |= item.product.per_example;
  for (int64_t i : item.product.items) {
    if (i >= 0) {
      block->needs_gradient[0] |= gates.sequences[i].has_exponents;
      block->needs_gradient[1] |= gates.sequences[i].has_exponents;
    } else {
      for (int64_t e : gates.factors[~i].exponents) block->needs_gradient[0] |= e >= 0;
      block->needs_gradient[1] = true;
    }
  }
  return item;
}

}  // namespace

void ReadNoisyItems(Reader* in, const GateTables& gates, const std::vector<int32_t>& channel_qubits,
                    NoisyBlock* block) {
  int64_t left = in->Count();
  if (left == 0) throw Corrupt();
  for (; left > 0; --left) block->items.push_back(ReadItem(in, gates, channel_qubits, block));
}

ShotSettings ReadShotSettings(Reader* in, const ProgramSizes& program) {
  ShotSettings settings;
  settings.shots = in->Int(0, kMaxShots);
  settings.seed = in->Int(0, std::numeric_limits<int64_t>::max());
  settings.fresh = in->Int(0, 1) != 0;
  settings.keys = in->Ints(in->Count(), 0, program.per_example - 1);
  return settings;
}

}  // namespace qfleet
