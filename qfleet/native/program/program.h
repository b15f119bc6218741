// A compiled circuit, in the format that qfleet/compiler/state/program_writer.py writes.
#ifndef QFLEET_PROGRAM_H_
#define QFLEET_PROGRAM_H_

#include <complex>
#include <cstdint>
#include <string>
#include <vector>

namespace qfleet {

using Complex = std::complex<double>;

// The matrix sum_k exp(i pi sum_e half_turns[k][e] t_e) projectors[k]; projectors[0] without
// exponents.
struct Factor {
  int32_t size;                     // D: 2 or 4
  int32_t spaces;                   // K: eigenspaces
  std::vector<int64_t> exponents;   // e >= 0: shared[e]; e < 0: per_example[b][~e]
  std::vector<double> half_turns;   // [K][E]
  std::vector<Complex> projectors;  // [K][D][D]
  std::vector<Complex> generators;  // [E][D][D]: H = sum_k half_turns[k][e] projectors[k]
  std::vector<double> derivatives;  // [E][D][D] (re, im): d with -2 pi Im tr(H Y) = d . Y
  bool per_example = false;         // has per-example exponents

  void SetDerivatives();  // from the generators
};

// Consecutive factors that all examples share. Equal blocks refer to one sequence, so that its
// matrix and its gradient are computed once.
struct FactorSequence {
  int32_t size;
  std::vector<int64_t> factors;
  bool has_exponents = false;
};

// The matrix of one or two qubits, a product of factors.
struct MatrixProduct {
  int32_t qubits;              // 1 or 2
  bool per_example = false;    // has a per-example factor
  std::vector<int64_t> items;  // in order of application; i >= 0: sequences[i]; i < 0: factors[~i]

  int32_t size() const { return 1 << qubits; }
};

// A unitary on one or two qubits.
struct Block : MatrixProduct {
  int64_t bits[2];  // of the amplitude's index; the first is the matrix's upper bit
  // Indexed by whether per-example gradients are wanted (1) or only those of shared exponents (0):
  bool needs_gradient[2];   // this block has such exponents
  bool needs_uncompute[2];  // an earlier block has such exponents
  // Possible nonzeros, one bit per entry row * D + col:
  int64_t entries;  // of U and its inverse, except in rows of the identity
  int64_t closure;  // of products and generators of such matrices
};

// Consecutive blocks on few qubits, whose bits are ascending; see Window in kernels.h.
struct QubitWindow {
  int32_t first, count;
  std::vector<int64_t> bits;
};

// Pauli strings that flip the same bits of the index.
struct PauliGroup {
  int64_t flip;
  std::vector<int64_t> z, ys;
  int64_t first;  // of these strings in `weights`
};

// The eigenphases of a per-example exponent, in half-turns per unit. `has_two_eigenvalues` is false
// if there are more, or if several factors use the exponent.
struct ExponentSpectrum {
  bool has_two_eigenvalues;
  double half_turns[2];
};

// The numbers that a caller's arrays depend on.
struct ProgramSizes {
  int32_t qubits = 0;
  int64_t shared = 0, per_example = 0;  // exponents
  int64_t readouts = 0;
  int64_t records = 0;                 // that a trajectory makes: outcomes of measurements
  bool takes_states = false;           // each example starts at a state that the caller passes
  bool takes_matrices = false;         // the same, and the state may be a density matrix
  const char* kind = "state vectors";  // what is evolved or contracted, in the plural
};

struct GateTables : ProgramSizes {
  std::vector<Factor> factors;
  std::vector<FactorSequence> sequences;
};

struct Program : GateTables {
  Program() = default;                    // a part of another program, which sets its members
  std::vector<ExponentSpectrum> spectra;  // of the per-example exponents that blocks use
  std::vector<Block> blocks;
  double cost = 0;                   // of a forward pass, in multiply-adds per amplitude
  int64_t prefix = 0;                // number of blocks before the first exponent
  std::vector<QubitWindow> windows;  // empty if the state fits into one chunk
  std::vector<PauliGroup> pauli_groups;
  int64_t string_count = 0;
  std::vector<double> weights;  // [strings][readouts]
  std::vector<double> offsets;  // [readouts]
  std::vector<double> initial;  // [2**N] (re, im), or empty for |0...0>
  uint64_t fingerprint = 0;     // of the serialized program

  static constexpr int64_t kFormat = 1;  // the first integer

  // Parses the number of integers, the integers, and the reals up to the end, 8 bytes each. Throws
  // std::invalid_argument if the program is not valid.
  explicit Program(const std::string& serialized);
};

}  // namespace qfleet

#endif  // QFLEET_PROGRAM_H_
