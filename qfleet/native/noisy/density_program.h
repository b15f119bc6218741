// Noisy circuits as evolutions of density matrices, in the format that
// qfleet/compiler/noisy/density_writer.py writes.
//
// A density matrix of N qubits is the vector of its Pauli coefficients r_P = tr(P rho), which are
// real. Its index has one digit of base 4 per qubit: I, X, Y, Z are 0, 1, 2, 3, and digit 0 is the
// fastest. Gates and channels are real matrices on one or two digits.
//
// Once no block and no readout needs the highest digits any more, their qubits are traced out: only
// the entries with I there are left, which are the first ones.
#ifndef QFLEET_DENSITY_PROGRAM_H_
#define QFLEET_DENSITY_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "program/noisy_block.h"
#include "program/program.h"

namespace qfleet {

constexpr int32_t kMaxDensityQubits = 16;

// A constant map of Pauli coefficients: out = matrix in.
struct Channel {
  int32_t qubits;              // 1 or 2
  std::vector<double> matrix;  // [4**qubits][4**qubits]
};

// Consecutive items on one or two qubits.
struct DensityBlock : NoisyBlock {
  int64_t digits[2];  // the first is the matrix's upper digit
  int64_t live;       // digits of the state; all higher ones are traced out

  int32_t size() const { return qubits == 1 ? 4 : 16; }
};

struct DensityProgram : GateTables {
  std::vector<Channel> channels;
  std::vector<DensityBlock> blocks;
  int64_t final_live;            // digits of the state after the last block
  std::vector<int64_t> strings;  // their indices
  std::vector<double> weights;   // [strings][readouts]
  std::vector<double> offsets;   // [readouts]
  ShotSettings shots;

  // True if these are the bytes of a density program, which need not be valid.
  static bool IsDensityProgram(const std::string& serialized);
  // Parses as Program does, and throws std::invalid_argument likewise.
  explicit DensityProgram(const std::string& serialized);
};

}  // namespace qfleet

#endif  // QFLEET_DENSITY_PROGRAM_H_
