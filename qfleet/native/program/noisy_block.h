// Blocks of unitaries and noise channels, which density matrices and trajectories share.
#ifndef QFLEET_NOISY_BLOCK_H_
#define QFLEET_NOISY_BLOCK_H_

#include <cstdint>
#include <vector>

#include "program/program_reader.h"

namespace qfleet {

// A unitary or a channel on all qubits of a block, or on one of two.
struct NoisyItem {
  int64_t channel;        // of the program's channels; -1: a unitary
  MatrixProduct product;  // the unitary
  int32_t place;          // of the only qubit in a block of two; 0 if it acts on all
};

// Consecutive items on one or two qubits.
struct NoisyBlock {
  int32_t qubits;
  std::vector<NoisyItem> items;
  bool per_example = false;
  bool needs_gradient[2] = {false, false};  // as of Block

  bool IsNarrow(const NoisyItem& item) const { return item.product.qubits < qubits; }
};

// Reads the items, at least one, of a block whose number of qubits is set; `channel_qubits` are
// those of each channel.
void ReadNoisyItems(Reader* in, const GateTables& gates, const std::vector<int32_t>& channel_qubits,
                    NoisyBlock* block);

// How readouts are estimated: exactly without shots, or with shots of each Pauli string.
struct ShotSettings {
  int64_t shots;  // 0: exact
  int64_t seed;
  // Random numbers depend on these per-example exponents, or on all exponents if `fresh`.
  bool fresh;
  std::vector<int64_t> keys;
};

ShotSettings ReadShotSettings(Reader* in, const ProgramSizes& program);

}  // namespace qfleet

#endif  // QFLEET_NOISY_BLOCK_H_
