// What the sweeps (sweep.cc) ask of the vector code (kernels.cc), which is compiled once for each
// instruction set: plain data and function pointers, so that no template of the standard library
// is instantiated with instructions that the machine may not have.
#ifndef QFLEET_KERNELS_H_
#define QFLEET_KERNELS_H_

#include <cstdint>

namespace qfleet {

constexpr int kMaxLanes = 16;           // reals in the widest vector
constexpr int kMaxTransformBits = 6;    // readouts: groups that are added up before they are signed
constexpr int kBlockSumReals = 2 * 16;  // real numbers in a block's sums, for each sample
constexpr int kChunkBytes = 1 << 18;    // of one state: two of them stay in a core's L2

// A block of one or two qubits, as it acts on groups. A group is the vector of real parts and the
// vector of imaginary parts of one amplitude for several samples, or of several amplitudes: the
// lowest qubits may lie across the lanes. A turn of a block reads `rows` groups (one for each
// value of its qubits that are not in lanes), makes `cols` inputs of them (each group, and the
// group with its lanes exchanged), and writes `rows` groups:
//     out[r][lane] = sum_j U[row[r][lane]][col[j][lane]] in[j][lane].
struct BlockKernel {
  int32_t rows, cols;
  int32_t low, high;    // bits of the group index of the qubits outside lanes, low < high
  int64_t offset[4];    // groups from a turn's first group to row r's
  int32_t lane_xor[4];  // lanes are exchanged by this exclusive-or for input d of a group
  uint8_t row[4][kMaxLanes], col[4][kMaxLanes];
  // Where most of U is zero: rows that change on some lane, and the inputs that they need there.
  bool sparse;
  int32_t active_rows;        // how many rows change
  int32_t active_row[4];      // which
  int32_t terms[4];           // how many inputs each has
  int32_t input[4][4];        // which
  int32_t gradient_terms[4];  // for the gradient: as U's closure under products has them
  int32_t gradient_input[4][4];
  // Set anew for every call.
  const void* matrix;    // vectors [rows][cols][re, im]
  const void* inverse;   // the same of U^dagger
  bool is_permutation;   // U is a permutation: amplitudes change places, and are not multiplied
  bool needs_gradient;   // the gradient by this block is wanted
  bool needs_uncompute;  // something before it wants a gradient
};

// Blocks that act on the same few qubits, applied chunk by chunk: a chunk is all values of those
// qubits, copied together unless they are the lowest.
struct Window {
  int32_t first, count;  // of the moves
  bool in_place;
  int32_t segment_bits;  // groups that lie side by side: 2**run_bits
  int32_t chunk_bits;
  const int64_t* segments;  // where each run begins, in groups
  int32_t outside_bits;
  const int32_t* outside;  // the other bits, which number the chunks
};

// Pauli strings that flip the same qubits: P|x> = i^ys (-1)^|x & z| |x ^ flip>.
struct PauliStrings {
  int64_t flip;      // of groups
  int32_t lane_xor;  // of lanes
  int32_t count;
  const int64_t* z;   // [count] of groups
  const int32_t* ys;  // [count] how many Ys
};

template <class T>
struct Kernels {
  int32_t lanes;
  // The state of one chunk through a window's blocks. `buffer` holds kChunkBytes.
  void (*forward)(const Window&, const BlockKernel*, T* state, int64_t chunk, T* buffer);
  // psi and lambda of one chunk back through them. For each wanted block b,
  //     sums[b][col * D + row][re, im][sample] += sum over the chunk of psi[col] conj(lambda[row]),
  // both as they are after the block; D is 2 or 4, b counts from the window's first block, and a
  // block's sums are kSums * samples apart. `buffer` holds 2 kChunkBytes.
  void (*backward)(const Window&, const BlockKernel*, T* psi, T* lambda, int64_t chunk, T* buffer,
                   double* sums, int32_t samples);
  // |0...0>, or the given [2**N] amplitudes (re, im), for every one of `samples` samples.
  void (*initialize)(T* state, int64_t groups, int32_t samples, const T* initial);
  // sums[string][lane] += what groups first to first + count add to <psi|P|psi>, but for the sign
  // that z has on the lanes. `count` is a multiple of 2**kFoldBits, or all groups.
  void (*measure)(const PauliStrings&, const T* psi, int64_t first, int64_t count, double* sums);
  // lambda = (or +=, where `add`) sum over strings of weights[string][lane] P psi for these groups
  // of psi; lambda begins with the first of them.
  void (*apply_strings)(const PauliStrings&, const T* psi, T* lambda, int64_t first, int64_t count,
                        const T* weights, bool add);
  // sum += conj(x) y over `count` groups and all lanes, (re, im).
  void (*dot)(const T* x, const T* y, int64_t count, double* sum);
  // out = sum_j weights[j] (re, im) states[j] for these groups.
  void (*combine)(const T* const* states, const double* weights, int64_t states_count, T* out,
                  int64_t first, int64_t count);
};

template <class T>
const Kernels<T>& BestKernels();  // for this machine

const char* InstructionSetName();

}  // namespace qfleet

#endif  // QFLEET_KERNELS_H_
