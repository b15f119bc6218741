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
  std::vector<double> turns;        // [K][E]
  std::vector<Complex> projectors;  // [K][D][D]
  std::vector<Complex> generators;  // [E][D][D]: sum_k turns[k][e] projectors[k]
  bool each = false;                // differs from example to example
};

// Factors that follow one another and are shared by all examples. Blocks that are alike name the
// same run, so that its matrix and its gradient are worked out once.
struct Run {
  int32_t size;
  std::vector<int64_t> factors;
  bool slopes = false;  // has exponents
};

struct Block {
  int32_t qubits;              // 1 or 2
  int64_t bits[2];             // of the amplitude's index; the first is the matrix's upper bit
  bool each = false;           // has a factor that differs from example to example
  std::vector<int64_t> items;  // first applied first: i >= 0: runs[i]; i < 0: factors[~i]
  // By whether gradients are wanted by the shared exponents alone (0), or by all (1):
  bool wanted[2];  // this block has such exponents
  bool undone[2];  // something before it has
  // What may differ from zero, one bit an entry row * D + col:
  int64_t entries;  // of U or its inverse, in rows that are not the identity's
  int64_t closure;  // in products and generators of such matrices

  int32_t size() const { return 1 << qubits; }
};

// Consecutive blocks on few qubits, and those qubits' bits, ascending; see kernels.h.
struct Reach {
  int32_t first, count;
  std::vector<int64_t> bits;
};

// Pauli strings that flip the same bits of the index.
struct Flipped {
  int64_t flip;
  std::vector<int64_t> z, ys;
  int64_t first;  // of the strings in `weights`
};

// What an exponent that differs from example to example turns: two eigenspaces of one factor, by
// turns[0] and turns[1] half-turns a unit. `two` is false where it is more, or in several factors.
struct Column {
  bool two;
  double turns[2];
};

struct Program {
  int32_t qubits;
  int64_t shared, each;  // how many exponents of either kind
  std::vector<Factor> factors;
  std::vector<Column> columns;  // as many of `each` as blocks name
  std::vector<Run> runs;
  std::vector<Block> blocks;
  double cost;                 // multiply-adds of a forward pass, for each amplitude
  int64_t prefix;              // how many blocks come before the first exponent
  std::vector<Reach> reaches;  // where the state is larger than a chunk; else empty
  std::vector<Flipped> strings;
  int64_t readouts, string_count;
  std::vector<double> weights;  // [strings][readouts]
  std::vector<double> offsets;  // [readouts]
  std::vector<double> initial;  // [2**N] (re, im), or empty for |0...0>

  // Reads how many integers there are, these, and real numbers up to the end, 8 bytes each. Throws
  // std::invalid_argument for anything that no compiler would write.
  explicit Program(const std::string& written);
};

// The matrices of all runs, and of all factors that examples share, for one call's shared
// exponents: [D * D] (re, im).
struct Runs {
  Runs(const Program& program, const double* shared);
  std::vector<std::vector<double>> matrices, factors;
};

// A block's [D * D] (re, im) [samples] matrices for consecutive examples, sample by sample inmost;
// rows of `each` beyond `present` are taken as zero. A block that is shared needs one sample.
void BlockMatrices(const Program& program, const Block& block, const Runs& runs,
                   const double* shared, const double* each, int64_t present, int64_t samples,
                   std::vector<double>* out);

// From a block's sums psi lambda^dagger [col * D + row] (re, im) [samples], taken after the block:
// adds to run_sums[run] ([D * D] (re, im)) what the shared runs get, and writes the derivatives by
// what differs from example to example to each_slopes[b][F] and, where such a factor has shared
// exponents too, adds them to shared_slopes[E].
void BlockSlopes(const Program& program, const Block& block, const Runs& runs, const double* shared,
                 const double* each, int64_t present, int64_t samples, bool by_each,
                 const double* sums, std::vector<std::vector<double>>* run_sums,
                 double* shared_slopes, double* each_slopes);

// The derivatives by the shared exponents of all runs, added to slopes[E].
void RunSlopes(const Program& program, const Runs& runs,
               const std::vector<std::vector<double>>& run_sums, double* slopes);

// Examples that turn few angles span few states. A factor with two eigenvalues is a sum
//     F(t) = alpha(t) F(0) + beta(t) F(turned),
// where `turned` is half a period away; so an example is a sum of the states that have each of its
// angles either at 0 or at `turned`, and there are as many of these as there are different sets of
// angles turned in a batch.
struct Span {
  std::vector<double> each;     // [states][F] exponents of the states
  std::vector<int64_t> first;   // [examples + 1] where an example's sum begins
  std::vector<int64_t> state;   // which states it holds
  std::vector<Complex> weight;  // and how much of each
  int64_t states = 0;
};

// The span of a batch's examples; no states where there would be more than `most`, or where an
// exponent has no two eigenvalues.
Span FindSpan(const Program& program, const double* each, int64_t examples, int64_t most);

}  // namespace qfleet

#endif  // QFLEET_PROGRAM_H_
