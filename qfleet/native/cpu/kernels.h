// The interface between the engine and the vector kernels (kernels.cc), which are compiled once per
// instruction set. Only plain data and function pointers cross it, so that no template of the
// standard library is instantiated with instructions that the machine may not have.
//
// Terms:
//   group   One vector of real parts and one of imaginary parts. It holds one amplitude of several
//           samples, or several amplitudes: the lowest qubits may be spread over the lanes.
//   tuple   The `rows` groups that one application of a block mixes.
//   chunk   All groups that differ in the bits of a window only; it fits into L2.
#ifndef QFLEET_KERNELS_H_
#define QFLEET_KERNELS_H_

#include <cstdint>

namespace qfleet {

constexpr int kMaxLanes = 16;           // reals in the widest vector
constexpr int kMaxTransformBits = 6;    // log2 of the groups per Walsh-Hadamard transform
constexpr int kBlockSumReals = 2 * 16;  // reals in a block's gradient sums, for each of its samples
constexpr int kMaxReducedQubits = 5;    // of a reduced density matrix
constexpr int kChunkBytes = 1 << 19;    // of one state: two chunks fill a core's L2

// A block of one or two qubits, as it acts on groups. For each tuple it reads `rows` groups, one
// per value of the block's qubits outside the lanes. It makes `cols` inputs of them, each group in
// each order of its lanes, and writes `rows` groups:
//     out[r][lane] = sum_j U[row[r][lane]][col[j][lane]] in[j][lane].
struct BlockKernel {
  int32_t rows, cols;
  int64_t groups;       // the first groups of a chunk, which hold all nonzero amplitudes
  int32_t low, high;    // bits of the group index of the qubits outside the lanes, low < high
  int64_t offset[4];    // groups from the tuple's first group to row r's
  int32_t lane_xor[4];  // input d of a group reads lane `lane ^ lane_xor[d]`
  uint8_t row[4][kMaxLanes], col[4][kMaxLanes];
  // If most of U is zero: the rows that change on some lane, and the inputs that these need.
  bool sparse;
  int32_t active_rows;    // number of rows that change
  int32_t active_row[4];  // their numbers
  int32_t terms[4];       // inputs per active row
  int32_t input[4][4];
  int32_t gradient_terms[4];  // the same for gradients, from the closure of U under products
  int32_t gradient_input[4][4];
  bool per_example;  // its sums are wanted for each sample, not for all together
  int64_t sums;      // reals before this block's sums in those of its window
  // Set for each call:
  const void* matrix;           // vectors [rows][cols][re, im]
  const void* inverse;          // the same of U^dagger
  const void* tangent;          // of dU; null if it is 0
  const void* inverse_tangent;  // of dU^dagger; null if it is 0
  bool is_permutation;          // of amplitudes, so that no arithmetic is needed
  bool is_real;                 // the matrix and its inverse have no imaginary parts
  bool needs_gradient;          // this block has an exponent whose gradient is wanted
  bool needs_uncompute;         // an earlier block has one
};

// Blocks on the same few qubits, applied chunk by chunk. A chunk is copied to a buffer unless its
// groups are contiguous.
struct Window {
  int32_t first, count;  // of the blocks
  bool in_place;
  int32_t segment_bits;     // log2 of the contiguous groups
  int32_t chunk_bits;       // log2 of the groups per chunk
  const int64_t* segments;  // first group of each contiguous segment
  int32_t outside_bits;
  const int32_t* outside;  // the bits that number the chunks
};

// Pauli strings that flip the same qubits: P|x> = i^ys (-1)^|x & z| |x ^ flip>.
struct PauliStrings {
  int64_t flip;      // bits of the group index
  int32_t lane_xor;  // flipped bits of the lane number
  int32_t count;
  const int64_t* z;   // [count] bits of the group index
  const int32_t* ys;  // [count] number of Ys
};

// One contraction of two tensors a and b: for every group g, row i and column j,
//     out[g + i + j] = sum_k a[g + i + k] b[g + j + k],
// where each letter stands for an offset in elements of the tensor: group indices are in all three
// tensors, rows in a and out, columns in b and out, and terms are summed. All counts are powers of
// 2. An element is two vectors (re, im).
struct Contraction {
  int64_t groups, rows, cols, terms;
  const int64_t *out_groups, *out_rows, *out_cols;
  const int64_t *a_groups, *a_rows, *a_terms;
  const int64_t *b_groups, *b_cols, *b_terms;
};

// A block of a density matrix, which is a vector of Pauli coefficients [4**digits][samples]; see
// noisy_program.h. A column of the state is `lanes` reals of each row: one group of as many
// examples, or as many groups of one example.
struct DensityView {
  int32_t size;         // rows: 4 or 16
  int32_t samples;      // 1 or `lanes`
  int64_t groups;       // coefficients / size
  int32_t low_bits;     // of the group's number, which are below the block's lower digit
  int32_t middle_bits;  // of the group's number, which are between its digits
  int64_t rows[16];     // offsets in coefficients
};

// The reduced density matrix of 2 to 5 qubits outside the lanes, [2**qubits][2**qubits] (re, im)
// [lanes]. A tuple holds the groups that differ in these qubits only.
struct ReducedView {
  int32_t qubits;
  int32_t bits[kMaxReducedQubits];                // of the group index, ascending
  int64_t rows[int64_t{1} << kMaxReducedQubits];  // groups from the tuple's first group
};

template <class T>
struct Kernels {
  int32_t lanes;
  // Applies a window's blocks to one chunk. `buffer` holds kChunkBytes.
  void (*forward)(const Window&, const BlockKernel*, T* state, int64_t chunk, T* buffer);
  // Uncomputes a window's blocks on one chunk of psi and lambda. For each block b that needs a
  // gradient,
  //     sums[b.sums][col * D + row][re, im][sample] += sum over the chunk of psi[col]
  //     conj(lambda[row]),
  // with both states taken after the block, and one sample unless b is per_example. D is 2 or 4.
  // `buffer` holds 2 kChunkBytes.
  void (*backward)(const Window&, const BlockKernel*, T* psi, T* lambda, int64_t chunk, T* buffer,
                   double* sums, int32_t samples);
  // As forward, for a state and its tangent: dpsi becomes U dpsi + dU psi. `buffer` holds
  // 2 kChunkBytes.
  void (*forward_tangent)(const Window&, const BlockKernel*, T* psi, T* dpsi, int64_t chunk,
                          T* buffer);
  // As backward, for psi, dpsi, lambda and dlambda. For each block, the sums are followed by their
  // tangents, the sums of dpsi lambda^dagger + psi dlambda^dagger, so that blocks begin at twice
  // b.sums. `buffer` holds 4 kChunkBytes.
  void (*backward_tangent)(const Window&, const BlockKernel*, T* const* states, int64_t chunk,
                           T* buffer, double* sums, int32_t samples);
  // Packs a block's matrices [D * D] (re, im) [samples], or their adjoints if `inverse`, into
  // vectors [rows][cols][re, im]. `samples` is 1 or `tile_samples`.
  void (*pack)(const BlockKernel&, const double* matrices, int32_t samples, int32_t tile_samples,
               bool inverse, T* out);
  // Sets groups [first, first + count) of every sample's state to those of |0...0>, or of the
  // amplitudes initial[2**N] (re, im).
  void (*initialize)(T* state, int64_t first, int64_t count, int32_t samples, const T* initial);
  // sums[string][lane] += the contribution of groups [first, first + count) to Re <x|P|y>, without
  // the sign of Z on lane qubits. `count` is a multiple of 2**kMaxTransformBits, or all groups.
  void (*measure)(const PauliStrings&, const T* x, const T* y, int64_t first, int64_t count,
                  double* sums);
  // lambda = (or += if `add`) sum over strings of weights[string][lane] P psi, for these groups of
  // psi. `lambda` points to the first of them.
  void (*apply_strings)(const PauliStrings&, const T* psi, T* lambda, int64_t first, int64_t count,
                        const T* weights, bool add);
  // sum (re, im) += conj(x) y over `count` groups and all lanes.
  void (*dot)(const T* x, const T* y, int64_t count, double* sum);
  // out = sum_j weights[j] (re, im) states[j], for these groups.
  void (*combine)(const T* const* states, const double* weights, int64_t states_count, T* out,
                  int64_t first, int64_t count);
  // out = (or += if `add`) the contraction of a and b. `out` must not overlap them.
  void (*contract)(const Contraction&, const T* a, const T* b, T* out, bool add);
  // Columns [first, end) of `to` = matrix [size * size] [lanes if `per_sample`] times `from`, which
  // may be `to`.
  void (*density_apply)(const DensityView&, const T* matrix, bool per_sample, const T* from, T* to,
                        int64_t first, int64_t end);
  // sums [size * size] [samples] += lambda[row] before[col], over columns [first, end).
  void (*density_correlate)(const DensityView&, const T* lambda, const T* before, int64_t first,
                            int64_t end, double* sums);
  // density[row][col] += the sum over tuples [first, end) of psi[row] conj(psi[col]), for
  // row <= col; other entries are undefined.
  void (*reduce)(const ReducedView&, const T* psi, int64_t first, int64_t end, T* density);
  // For readouts that are Hermitian matrices O_k on the view's qubits, [readouts][2**qubits]
  // [2**qubits] (re, im), set for row <= col, and the density matrices of `reduce`:
  // totals[k][lane] = tr(density O_k).
  void (*readout_values)(const ReducedView&, int64_t readouts, const double* matrices,
                         const T* density, double* totals);
  // matrix [2**qubits][2**qubits] (re, im) [lanes] = sum_k weights[k][lane] O_k.
  void (*readout_sum)(const ReducedView&, int64_t readouts, const double* matrices,
                      const T* weights, T* matrix);
  // gradients[k], like the matrices, += sum over lanes of weights[k][lane] density^T.
  void (*readout_gradients)(const ReducedView&, int64_t readouts, const T* weights,
                            const T* density, double* gradients);
  // lambda = matrix [2**qubits][2**qubits] (re, im) [lanes] times psi, for these tuples.
  void (*apply_reduced)(const ReducedView&, const T* matrix, const T* psi, T* lambda, int64_t first,
                        int64_t end);
  // out += a b, or a^dagger b, for matrices of size 2**2 to 2**kMaxReducedQubits with the real
  // parts of a row before its imaginary parts: [size] (re, im) [size].
  void (*multiply_rows)(int64_t size, const T* a, bool adjoint, const T* b, T* out);
};

// Matrices [D * D] (re, im) [samples], or [D * D] (re, im) if they are shared by all samples.
struct MatrixFactor {
  const double* values;
  bool shared, adjoint;
  double sign() const { return adjoint ? -1 : 1; }  // of imaginary parts
};

// Loops over small matrices.
struct MatrixKernels {
  // cosine, sine = exp(i pi t), exact for multiples of 1/2, for |t| <= kMostHalfTurns.
  void (*half_turns)(int64_t samples, const double* t, double* cosine, double* sine);
  // out [entries] (re, im) [samples] += (x + i y) [samples] matrix [entries] (re, im).
  void (*add_phased)(int32_t entries, int64_t samples, const double* x, const double* y,
                     const double* matrix, double* out);
  // out = a b for each sample. `out` must not overlap `a` or `b`.
  void (*product)(int32_t size, int64_t samples, const MatrixFactor& a, const MatrixFactor& b,
                  double* out);
  // out = a b for single matrices of size 2 or 4. `out` must not overlap `a` or `b`.
  void (*multiply)(int32_t size, const double* a, const double* b, double* out);
  // y = u^dagger y u for single matrices of size 2 or 4. `y` must not overlap `u`.
  void (*conjugate)(int32_t size, const double* u, double* y);
};

constexpr double kMostHalfTurns = 5e14;

// Real matrices [D**2][D**2] on the coefficients of the Pauli words of `qubits`, 1 or 2, with
// D = 2**qubits; see noisy/density_matrices.h.
struct WordKernels {
  // out = a b. `out` must not overlap `a` or `b`.
  void (*multiply)(int32_t qubits, const double* a, const double* b, double* out);
  // out = the matrix of a unitary u [D * D] (re, im): tr(P u Q u^dagger) / D for words P and Q.
  void (*from_unitary)(int32_t qubits, const double* u, double* out);
  // out [D * D] (re, im) = sum over words of correlation[R][P] R P / D.
  void (*sums)(int32_t qubits, const double* correlation, double* out);
};

// Chains of steps X <- exp(A) X of small matrices [D][D], one chain per lane, in vectors (re, im).
// A step's generator is A = sum_k c[k] O_k, of which only some entries can be nonzero: if (r, c) is
// an entry, so is (c, r), its mate.
struct PulseChains {
  int32_t dimension, operators;           // D, K
  const int32_t* row_starts;              // [D + 1] the first entry of each row
  const int32_t *rows, *columns, *mates;  // of each entry
  const int32_t* element_starts;          // [K + 1] the first element of each operator
  const int32_t* elements;                // the entry of each element
  const double* values;                   // of each element: (re, im) [lanes]
  bool unitary;                           // every O_k is anti-Hermitian
  int64_t steps;                          // of the longest chain
  const int64_t* lengths;                 // [lanes] steps of each chain
  const double* const* coefficients;      // [lanes] c[lengths[lane]][K]
  // exp(A) is `parts` times a Taylor polynomial of this degree in A / parts.
  int32_t degree, parts;
};

// Each `workspace` holds 3 D^2 + 3 entries vectors (re, im).
struct PulseKernels {
  int32_t lanes;
  // product = the product of all steps' exponentials.
  void (*products)(const PulseChains&, double* product, double* workspace);
  // For L = Re tr(W^dagger U) of the product U, `seed` is W U^dagger, or its anti-Hermitian part if
  // the chains are unitary; it is overwritten. Writes dL/dc to gradients[lane][lengths[lane]][K].
  void (*gradients)(const PulseChains&, double* seed, double* const* gradients, double* workspace);
};

// The kernels for the widest instruction set that this machine supports.
template <class T>
const Kernels<T>& BestKernels();
const MatrixKernels& BestMatrixKernels();
const PulseKernels& BestPulseKernels();
const WordKernels& BestWordKernels();

const char* InstructionSetName();  // of BestKernels

}  // namespace qfleet

#endif  // QFLEET_KERNELS_H_
