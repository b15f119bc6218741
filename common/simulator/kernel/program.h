// A compiled circuit as common/simulator/native.py writes it down, and the small matrices of it.
#ifndef QFLEET_PROGRAM_H_
#define QFLEET_PROGRAM_H_

#include <complex>
#include <cstdint>
#include <string>
#include <vector>

namespace qfleet {

using Complex = std::complex<double>;

// sum_k exp(i pi sum_e turns[k][e] t_e) projectors[k]; without exponents, one fixed matrix.
struct Factor {
  int32_t size;                     // D: 2 or 4
  int32_t spaces;                   // K
  std::vector<int64_t> exponents;   // e >= 0: shared[e]; e < 0: each[b][~e]
  std::vector<double> half_turns;   // [K][E]
  std::vector<Complex> projectors;  // [K][D][D]
  std::vector<Complex> generators;  // [E][D][D]: sum_k turns[k][e] projectors[k]
  bool per_example = false;         // differs from example to example
};

// Factors that follow one another and are shared by all examples. Blocks that are alike name the
// same run, so that its matrix and its gradient are worked out once.
struct FactorSequence {
  int32_t size;
  std::vector<int64_t> factors;
  bool has_exponents = false;  // has exponents
};

struct Block {
  int32_t qubits;              // 1 or 2
  int64_t bits[2];             // of the amplitude's index; the first is the matrix's upper bit
  bool per_example = false;    // has a factor that differs from example to example
  std::vector<int64_t> items;  // first applied first: i >= 0: runs[i]; i < 0: factors[~i]
  // By whether gradients are wanted by the shared exponents alone (0), or by all (1):
  bool needs_gradient[2];   // this block has such exponents
  bool needs_uncompute[2];  // something before it has
  // What may differ from zero, one bit an entry row * D + col:
  int64_t entries;  // of U or its inverse, in rows that are not the identity's
  int64_t closure;  // in products and generators of such matrices

  int32_t size() const { return 1 << qubits; }
};

// Consecutive blocks on few qubits, and those qubits' bits, ascending; see kernels.h.
struct QubitWindow {
  int32_t first, count;
  std::vector<int64_t> bits;
};

// Pauli strings that flip the same bits of the index.
struct PauliGroup {
  int64_t flip;
  std::vector<int64_t> z, ys;
  int64_t first;  // of the strings in `weights`
};

// What an exponent that differs from example to example turns: two eigenspaces of one factor, by
// turns[0] and turns[1] half-turns a unit. `two` is false where it is more, or in several factors.
struct ExponentSpectrum {
  bool has_two_eigenvalues;
  double half_turns[2];
};

struct Program {
  int32_t qubits;
  int64_t shared, per_example;  // how many exponents of either kind
  std::vector<Factor> factors;
  std::vector<ExponentSpectrum> spectra;  // as many of `each` as blocks name
  std::vector<FactorSequence> sequences;
  std::vector<Block> blocks;
  double cost;                       // multiply-adds of a forward pass, for each amplitude
  int64_t prefix;                    // how many blocks come before the first exponent
  std::vector<QubitWindow> windows;  // where the state is larger than a chunk; else empty
  std::vector<PauliGroup> pauli_groups;
  int64_t readouts, string_count;
  std::vector<double> weights;  // [strings][readouts]
  std::vector<double> offsets;  // [readouts]
  std::vector<double> initial;  // [2**N] (re, im), or empty for |0...0>

  // Reads how many integers there are, these, and real numbers up to the end, 8 bytes each. Throws
  // std::invalid_argument for anything that no compiler would write.
  explicit Program(const std::string& serialized);
};

// The matrices of all runs, and of all factors that examples share, for one call's shared
// exponents: [D * D] (re, im).
struct SharedMatrices {
  SharedMatrices(const Program& program, const double* shared);
  std::vector<std::vector<double>> products, factors;
};

// A block's [D * D] (re, im) [samples] matrices for consecutive examples, sample by sample inmost;
// rows of `each` beyond `present` are taken as zero. A block that is shared needs one sample.
void BlockMatrices(const Program& program, const Block& block,
                   const SharedMatrices& shared_matrices, const double* shared,
                   const double* per_example, int64_t present, int64_t samples,
                   std::vector<double>* out);

// From a block's sums psi lambda^dagger [col * D + row] (re, im) [samples], taken after the block:
// adds to run_sums[run] ([D * D] (re, im)) what the shared runs get, and writes the derivatives by
// what differs from example to example to each_slopes[b][F] and, where such a factor has shared
// exponents too, adds them to shared_slopes[E].
void BlockGradients(const Program& program, const Block& block,
                    const SharedMatrices& shared_matrices, const double* shared,
                    const double* per_example, int64_t present, int64_t samples,
                    bool want_per_example, const double* sums,
                    std::vector<std::vector<double>>* sequence_sums, double* shared_gradients,
                    double* per_example_gradients);

// The derivatives by the shared exponents of all runs, added to slopes[E].
void ParameterGradients(const Program& program, const SharedMatrices& shared_matrices,
                        const std::vector<std::vector<double>>& sequence_sums, double* gradients);

// Examples that turn few angles span few states. A factor with two eigenvalues is a sum
//     F(t) = alpha(t) F(0) + beta(t) F(turned),
// where `turned` is half a period away; so an example is a sum of the states that have each of its
// angles either at 0 or at `turned`, and there are as many of these as there are different sets of
// angles turned in a batch.
struct Subspace {
  std::vector<double> per_example;  // [states][F] exponents of the states
  std::vector<int64_t> first;       // [examples + 1] where an example's sum begins
  std::vector<int64_t> state;       // which states it holds
  std::vector<Complex> weight;      // and how much of each
  int64_t states = 0;
};

// The span of a batch's examples; no states where there would be more than `most`, or where an
// exponent has no two eigenvalues.
Subspace FindSubspace(const Program& program, const double* per_example, int64_t examples,
                      int64_t most);

}  // namespace qfleet

#endif  // QFLEET_PROGRAM_H_
