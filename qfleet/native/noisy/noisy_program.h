// Circuits with noise channels or shots, in the formats that the writers in
// qfleet/compiler/noisy/ write: as evolutions of density matrices, or as averages over quantum
// trajectories.
//
// A density matrix of N qubits is the vector of its Pauli coefficients r_P = tr(P rho), which are
// real. Its index has one digit of base 4 per qubit: I, X, Y, Z are 0, 1, 2, 3, and digit 0 is the
// fastest. Gates and channels are real matrices on one or two digits. Once no block and no readout
// needs the highest digits any more, their qubits are traced out: only the entries with I there are
// left, which are the first ones.
//
// A trajectory is a state vector. At each channel, one of its Kraus operators K is drawn with the
// probability |K psi|^2, and the state becomes K psi / |K psi|.
#ifndef QFLEET_NOISY_PROGRAM_H_
#define QFLEET_NOISY_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"

namespace qfleet {

// A unitary or a channel on all qubits of a block, or on one of two.
struct NoisyItem {
  int64_t channel;        // of the program's channels; -1: a unitary
  MatrixProduct product;  // the unitary
  int32_t place;          // of the only qubit in a block of two; 0 if it acts on all
  // Of a channel on trajectories, each of which has records. A measurement is a channel whose
  // operators are numbered by outcomes.
  int64_t record = -1;             // gets the number of the drawn operator; -1: none
  std::vector<int64_t> condition;  // records, whose lowest bits make a number: the first is bit 0
  std::vector<int64_t> acts;       // [2**condition] 1 if the channel acts at this number
};

// Consecutive items on one or two qubits.
struct NoisyBlock {
  int32_t qubits;
  std::vector<NoisyItem> items;
  bool per_example = false;
  bool needs_gradient[2] = {false, false};  // as of Block

  bool IsNarrow(const NoisyItem& item) const { return item.product.qubits < qubits; }
};

// How readouts are estimated: exactly without shots, or with shots of each Pauli string.
struct ShotSettings {
  int64_t shots;  // 0: exact
  int64_t seed;
  // Random numbers depend on these per-example exponents, or on all exponents if `fresh`.
  bool fresh;
  std::vector<int64_t> keys;
};

struct NoisyProgram : GateTables {
  ShotSettings shots;
  size_t first_needed[2];       // the first block with a gradient, as needs_gradient
  int64_t string_count;         // Pauli strings
  std::vector<double> weights;  // [strings][readouts]
  std::vector<double> offsets;  // [readouts]
};

// A constant map of Pauli coefficients: out = matrix in.
struct Channel {
  int32_t qubits;              // 1 or 2
  std::vector<double> matrix;  // [4**qubits][4**qubits]
};

struct DensityBlock : NoisyBlock {
  int64_t digits[2];  // the first is the matrix's upper digit
  int64_t live;       // digits of the state; all higher ones are traced out

  int32_t size() const { return qubits == 1 ? 4 : 16; }
};

struct DensityProgram : NoisyProgram {
  std::vector<Channel> channels;
  std::vector<DensityBlock> blocks;
  int64_t live_at_end;           // digits of the state after the last block
  std::vector<int64_t> strings;  // their indices, after the last block

  static constexpr int64_t kFormat = 3;  // the first integer

  // Parses as Program does, and throws std::invalid_argument likewise.
  explicit DensityProgram(const std::string& serialized);
};

// The Kraus operators of a channel.
struct KrausChannel {
  int32_t qubits;                              // 1 or 2
  std::vector<std::vector<double>> operators;  // [D * D] (re, im)
  // Of each operator if these are unitary: then `operators` are unitary, too. Empty if the
  // probabilities depend on the state.
  std::vector<double> probabilities;

  bool depends_on_state() const { return probabilities.empty(); }
};

struct TrajectoryBlock : NoisyBlock {
  bool depends_on_state = false;  // has such a channel

  int32_t size() const { return 1 << qubits; }
};

struct TrajectoryProgram : NoisyProgram {
  std::vector<KrausChannel> channels;
  std::vector<TrajectoryBlock> blocks;
  int64_t trajectories;  // of readouts
  // The same blocks without items, and the strings: what kernels are planned for.
  Program states;

  static constexpr int64_t kFormat = 6;  // the first integer

  // Parses as Program does, and throws std::invalid_argument likewise.
  explicit TrajectoryProgram(const std::string& serialized);
};

}  // namespace qfleet

#endif  // QFLEET_NOISY_PROGRAM_H_
