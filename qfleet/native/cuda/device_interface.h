// What the core asks of a device library. Plain structs, so that the library is built apart from
// the core, by another compiler, and loaded only when a device is asked for.
//
// The core computes the few matrices that all examples share and their gradients. Exponents, these
// matrices and results cross between host and device; states never do, unless they are the result.
#ifndef QFLEET_CUDA_DEVICE_INTERFACE_H_
#define QFLEET_CUDA_DEVICE_INTERFACE_H_

#include <cstdint>

namespace qfleet {
namespace device {

constexpr int32_t kInterfaceVersion = 7;
constexpr int32_t kMatrixReals = 32;    // of a 4 x 4 matrix (re, im); smaller ones use the first
constexpr int32_t kDensityReals = 256;  // of a real 16 x 16 matrix; smaller ones use the first

// How a block acts on the amplitudes. `bits` are bits of the amplitude's index.
enum BlockKind : int32_t {
  kOneQubit,     // 2 x 2 on bits[0]
  kTwoQubits,    // 4 x 4; bits[0] is the matrix's upper bit
  kControlled,   // 2 x 2 on bits[1], where bit bits[0] is `control`
  kPermutation,  // basis state j of bits[0] (upper) and bits[1] becomes entry[j]; costs nothing
};

struct BlockTable {
  int32_t kind, bits[2], control;
  int32_t entry[4];     // controlled: the entries of the 4 x 4 matrix that are used
  int32_t matrix;       // m >= 0: shared matrix m; m < 0: product ~m of each example
  int32_t sums;         // the number of its sums, of shared blocks or of products; -1: none
  int32_t gradient[2];  // by shared exponents only, and by all
  int32_t uncompute[2];
};

// A product of matrices with a factor that differs per example.
struct ProductTable {
  int32_t size;               // 2 or 4
  int32_t first_item, items;  // item >= 0: shared matrix; item < 0: factor ~item
  int32_t sums;               // the number of its sums, or -1
  int32_t gradient[2];        // as the block's
};

// The matrix sum_k exp(i pi sum_e half_turns[k][e] t_e) projectors[k].
struct FactorTable {
  int32_t size, spaces;
  int32_t first_exponent, exponents;
  int32_t first_half_turn;  // [spaces][exponents]
  int32_t first_matrix;     // projectors [spaces], and then generators [exponents]
};

// Where a product's backward pass writes: one entry per item.
struct ItemTable {
  int32_t item;
  int32_t sequence_sums;     // item >= 0: the number of the sums before it, or -1
  int32_t first_derivative;  // item < 0: of its exponents, or -1
  int32_t needs_earlier[2];  // an earlier item needs a derivative, in both modes
};

struct PauliString {
  int64_t flip, z;
  int32_t ys, reserved;
};

// The parts of a program. The library copies them.
//
// If a program has tangents, each number of its calls and results is a pair: the number and its
// derivative in the call's direction. Evaluating it gives Hessian-vector products. A pair is
// aligned to its size.
struct ProgramTables {
  int32_t qubits, real_bytes;
  int32_t has_tangents, takes_states;
  int64_t shared, per_example, readouts;  // E, F, K
  int64_t block_count;
  const BlockTable* blocks;
  int64_t matrix_count;  // shared matrices of a call
  int64_t block_sums;    // sums of shared blocks
  int64_t product_count;
  const ProductTable* products;
  int64_t product_sums;  // sums of products
  int64_t item_count;
  const ItemTable* items;
  int64_t sequence_sums;  // sums of shared matrices in products
  int64_t factor_count;
  const FactorTable* factors;
  int64_t exponent_count;
  const int32_t* exponents;  // e >= 0: shared; e < 0: per example
  int64_t half_turn_count;
  const double* half_turns;
  int64_t factor_reals;
  const double* factor_matrices;  // (re, im)
  int64_t derivative_count;
  const int32_t* derivatives;  // the exponent of each derivative, as in `exponents`
  int64_t string_count;
  const PauliString* strings;
  const double* weights;  // [strings][K]
  const double* offsets;  // [K]
  const double* initial;  // [2**N] (re, im), or null
};

// One batch. All pointers are to the host's memory.
struct Call {
  int64_t size;
  const double* shared;       // [E]
  const double* per_example;  // [size][F]
  const double* matrices;     // [matrix_count][kMatrixReals]
  // Of a program that takes states: [size][2**N] (re, im), reals of the program. Bit i of its index
  // is bit initial_order[i] of theirs.
  const void* initial_states;
  const int64_t* initial_order;
};

// Results of a gradient, which the core completes. All are overwritten.
struct GradientResults {
  double* block_sums;             // [block_sums][kMatrixReals]
  double* sequence_sums;          // [sequence_sums][kMatrixReals]
  double* shared_derivatives;     // [derivatives]: of shared exponents, summed over the examples
  double* per_example_gradients;  // [size][F], or null
  // Like Call::initial_states: dL/dRe and dL/dIm, or null. A program with tangents has none.
  void* initial_gradients;
};

// A real matrix on the Pauli coefficients of one or two qubits. Their index has a digit of base 4
// per qubit; see noisy/noisy_program.h.
struct DensityBlockTable {
  int32_t size, digits[2];  // size: 4 or 16; the first digit is the matrix's upper one
  int32_t live;             // digits of the state; all higher ones are traced out
  int32_t matrix;           // m >= 0: shared matrix m; m < 0: matrix ~m of each example
  int32_t gradient[2];      // as of BlockTable
};

struct DensityTables {
  int32_t qubits, real_bytes;
  int64_t shared, per_example;  // matrices
  int64_t block_count;
  const DensityBlockTable* blocks;
  int64_t string_count;
  const int64_t* strings;  // indices of coefficients
};

// One batch; the matrices are of the program's reals.
struct DensityCall {
  int64_t size;
  const void* shared;       // [shared][kDensityReals]
  const void* per_example;  // [size][per_example][kDensityReals]
};

struct DensityGradient {
  const double* weights;        // [size][strings]: dL/dmean
  int32_t mode;                 // index of `gradient`
  double* shared_derivatives;   // [shared][kDensityReals]: dL/dmatrix, summed over the examples
  double* example_derivatives;  // [size][per_example][kDensityReals]
};

struct DeviceDescription {
  char name[128];
  int64_t total_bytes, free_bytes;
  int32_t multiprocessors, host_executor;
  int32_t double_ratio, reserved;  // operations of floats in the time of one of doubles
};

struct Program;
struct DensityProgram;

enum Status : int32_t { kOk = 0, kOutOfMemory = 2, kDeviceFailed = 4, kDeviceLost = 5 };

// The functions of a library. A failed call leaves its sentence in `error`, of `error_size` bytes.
struct Interface {
  int32_t version;
  Status (*describe)(int32_t device, DeviceDescription* description, char* error,
                     int64_t error_size);
  // `lender` is null, or a program of the same device that shares its memory with the new one.
  Status (*create)(int32_t device, const ProgramTables* tables, const Program* lender,
                   Program** program, char* error, int64_t error_size);
  void (*destroy)(Program* program);
  // Writes values [size][K] of the program's reals unless they are null, and, given upstream =
  // dL/dvalues [size][K], the gradient's results unless these are null.
  Status (*evaluate)(Program* program, const Call* call, void* values, const void* upstream,
                     const GradientResults* results, char* error, int64_t error_size);
  // states [size][2**N] (re, im); bit i of the program's index is bit order[i] of the result's.
  Status (*state)(Program* program, const Call* call, const int64_t* order, void* states,
                  char* error, int64_t error_size);
  Status (*state_gradient)(Program* program, const Call* call, const int64_t* order,
                           const void* states, const void* upstream, const GradientResults* results,
                           char* error, int64_t error_size);
  // samples [size][shots]: numbers of amplitudes in the order of `state`, which shots.h draws with
  // the seed and the example's number. norms [size]: the sums of the probabilities.
  Status (*sample)(Program* program, const Call* call, const int64_t* order, int64_t shots,
                   uint64_t seed, int64_t* samples, double* norms, char* error, int64_t error_size);

  Status (*create_density)(int32_t device, const DensityTables* tables, DensityProgram** program,
                           char* error, int64_t error_size);
  void (*destroy_density)(DensityProgram* program);
  // Writes means [size][strings], and the derivatives of `gradient` unless it is null.
  Status (*evaluate_density)(DensityProgram* program, const DensityCall* call, double* means,
                             const DensityGradient* gradient, char* error, int64_t error_size);
};

}  // namespace device
}  // namespace qfleet

// The library's only exported function.
extern "C" const qfleet::device::Interface* qfleet_device_interface();

#endif  // QFLEET_CUDA_DEVICE_INTERFACE_H_
