// The C interface of the qfleet engine. Plain C, without Python or framework headers.
//
// Conventions
//   - Every function that can fail returns a qfleet_status. After a failure, qfleet_last_error()
//     returns one sentence about the last failed call of this thread.
//   - Programs are numbered handles. An unknown handle is an error, never a crash. A program may be
//     destroyed while other threads still use it.
//   - Every buffer comes with its number of elements, which is checked. A null pointer is an error
//     unless the function documents it.
//   - "Reals" are float or double, as chosen by qfleet_program_create; complex numbers are two
//     reals (re, im). Exponents and their gradients are always double.
//   - No C++ exception leaves a function, and no function ends the process.
//
// Exponents are gate powers in half-turns: a factor is exp(i pi h t). A program has `shared`
// exponents [E], one value per batch, and `per_example` exponents [size][F], one row per example.
#ifndef QFLEET_QFLEET_H_
#define QFLEET_QFLEET_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QFLEET_ABI_VERSION 7
#define QFLEET_API __attribute__((visibility("default")))

typedef enum {
  QFLEET_OK = 0,
  QFLEET_INVALID_ARGUMENT = 1,
  QFLEET_OUT_OF_MEMORY = 2,
  QFLEET_INTERNAL = 3,
  QFLEET_DEVICE_FAILED = 4,  // a device is missing or cannot be used
  QFLEET_DEVICE_LOST = 5,    // a device failed, and this process cannot use it any more
} qfleet_status;

typedef int64_t qfleet_program;  // 0 is not a program

// Version of this interface. It changes with every incompatible change.
QFLEET_API int32_t qfleet_abi_version(void);
// Sentence about the last failure in this thread; "" before the first. Valid until the next call.
QFLEET_API const char* qfleet_last_error(void);
// "baseline", "avx2" or "avx512", as chosen for this CPU.
QFLEET_API const char* qfleet_instruction_set(void);
// Reals of `real_bytes` (4 or 8) in a SIMD vector of this machine; 0 for other sizes.
QFLEET_API int32_t qfleet_simd_lanes(int32_t real_bytes);

// Threads of the library's own pool: by default QFLEET_NUM_THREADS, else OMP_NUM_THREADS, else the
// CPUs that this process may use. The pool starts at the first call that needs it, and again in a
// process that was forked.
QFLEET_API int32_t qfleet_thread_count(void);
QFLEET_API qfleet_status qfleet_set_thread_count(int32_t count);

// A caller's thread pool. `run` calls work(argument, i) for i = 0 ... count - 1, in any order and
// on any threads, and returns when all calls have returned. `cost` is the approximate cost of one
// call in nanoseconds.
typedef void (*qfleet_work)(void* argument, int64_t index);
typedef struct {
  void (*run)(void* context, int64_t count, int64_t cost, qfleet_work work, void* argument);
  void* context;
  int32_t threads;
} qfleet_executor;

// ---------------------------------------------------------------------------------------------
// Programs

// Creates a program for reals of 4 or 8 bytes, from the bytes of
// qfleet/compiler/state/program_writer.py, network_writer.py (contracts tensor networks),
// density_program.py (evolves density matrices) or trajectory_program.py (evolves quantum
// trajectories). The latter three have expectation values and their gradients, but no states,
// samples or stages; the latter two have no Hessian-vector products.
QFLEET_API qfleet_status qfleet_program_create(const void* bytes, int64_t size, int32_t real_bytes,
                                               qfleet_program* program);
// The same for a device, such as a GPU: `library` is the path of a device library (cuda/), `device`
// the number of the device. Values, states, samples and derivatives are computed there, and no
// states are kept between calls. Only state vectors run there, and density matrices without states
// of the caller, both without stages. The first Hessian-vector product makes tables of its own.
QFLEET_API qfleet_status qfleet_program_create_on(const void* bytes, int64_t size,
                                                  int32_t real_bytes, const char* library,
                                                  int32_t device, qfleet_program* program);
QFLEET_API qfleet_status qfleet_program_destroy(qfleet_program program);

typedef struct {
  int64_t qubits;
  int64_t shared;       // E
  int64_t per_example;  // F
  int64_t readouts;     // K; 0 if the result is the state
  int64_t real_bytes;
  int64_t takes_states;  // 1 if a batch must have initial states
  int64_t records;       // R, outcomes of measurements: see qfleet_measure
} qfleet_program_info;
QFLEET_API qfleet_status qfleet_program_describe(qfleet_program program, qfleet_program_info* info);

typedef struct {
  char name[128];
  // Of the device's memory; what idle programs of this process hold for their next call is free.
  int64_t total_bytes, free_bytes;
  int32_t multiprocessors;
  int32_t is_host_executor;  // 1: the kernels run on the CPU, thread by thread, for tests
  int32_t double_ratio;      // operations of floats in the time of one of doubles
  int32_t reserved;
} qfleet_device_info;
QFLEET_API qfleet_status qfleet_device_describe(const char* library, int32_t device,
                                                qfleet_device_info* info);

// ---------------------------------------------------------------------------------------------
// Expectation values and states

// The examples of one call.
typedef struct {
  const double* shared;  // [E]
  int64_t shared_count;
  const double* per_example;  // [size][F]
  int64_t per_example_count;
  int64_t size;
  // Most bytes of states that a forward pass keeps for the gradient, or evolves in a subspace; or
  // that a gradient of density matrices or trajectories keeps.
  // The forward pass and its gradient must be given the same value.
  int64_t memory_limit;
  // 1 if gradients of per-example exponents are not wanted. Then a batch whose states span few
  // dimensions is computed in that subspace, if that is faster; a network computes equal rows of
  // exponents once. The same in both passes.
  int32_t allow_subspace;
  // 1 to reject exponents that are NaN or infinite.
  int32_t check_finite;
  const qfleet_executor* executor;  // null: the library's own pool
  // 1 for results whose bits do not depend on the number of threads. A batch of fewer examples than
  // fill the vectors of all threads may then use fewer threads.
  int32_t fixed_layout;
  // 1 if a gate of per-example exponents is absent where all of them are 0: it is the identity, and
  // gradients by these exponents are not wanted, which then lack parts or are 0. It costs nothing
  // on the CPU where it is absent from all examples of a tile. The same in both passes; without an
  // effect on tangents.
  int32_t zeros_are_absent;
  // Only for a program that takes states: the states [size][2**N] (re, im) before the first block,
  // reals of the program. Bit i of the program's index is bit initial_order[i] of their index, as
  // for qfleet_state. With check_finite, norms must be 1. Gradients of values or states write
  // dL/dRe and dL/dIm to `initial_gradients`, unless it is null with a count of 0.
  // A program of density matrices also takes these, [size][2**N][2**N] by rows, Hermitian, and with
  // a trace of 1, which are recognized by the count.
  const void* initial_states;
  int64_t initial_state_count;
  const int64_t* initial_order;
  int64_t initial_order_count;
  void* initial_gradients;
  int64_t initial_gradient_count;
} qfleet_batch;

// The method that is used for a batch.
typedef struct {
  int64_t subspace_states;  // basis states of the subspace; 0 for one evolution per example
  int64_t kept_reals;       // reals of `kept`, if the forward pass is to keep states
  int64_t workspace_bytes;  // approximate memory of both passes, without `kept`
} qfleet_plan;
QFLEET_API qfleet_status qfleet_plan_batch(qfleet_program program, const qfleet_batch* batch,
                                           qfleet_plan* plan);

// Writes the expectation values [size][K]. `kept` receives plan.kept_reals reals for the gradient;
// it may be null with a count of 0: then the gradient evolves the states again.
QFLEET_API qfleet_status qfleet_expectation(qfleet_program program, const qfleet_batch* batch,
                                            void* values, int64_t value_count, void* kept,
                                            int64_t kept_count);

// Writes dL/dshared [E] and dL/dper_example [size][F], given upstream = dL/dvalues [size][K].
// `kept` is the output of qfleet_expectation, or null; it is overwritten if `kept_is_mutable`.
// `per_example_gradients` may be null with a count of 0, and must be if batch->allow_subspace.
QFLEET_API qfleet_status qfleet_expectation_gradient(
    qfleet_program program, const qfleet_batch* batch, const void* upstream, int64_t upstream_count,
    void* kept, int64_t kept_count, int32_t kept_is_mutable, double* shared_gradients,
    int64_t shared_gradient_count, double* per_example_gradients,
    int64_t per_example_gradient_count);

// Both in one call, for a caller that has `upstream` before the values. No states leave the call.
QFLEET_API qfleet_status qfleet_value_and_gradient(
    qfleet_program program, const qfleet_batch* batch, const void* upstream, int64_t upstream_count,
    void* values, int64_t value_count, double* shared_gradients, int64_t shared_gradient_count,
    double* per_example_gradients, int64_t per_example_gradient_count);

// Directional derivatives of values and gradients, for tangents of the exponents: with J = dvalues/
// dexponents and H the Hessian of sum(upstream * values), writes
//   value_tangents = J tangents [size][K]                (null with a count of 0: not wanted)
//   shared_results, per_example_results = H tangents     [E], [size][F]
// `per_example_tangents` may be null with a count of 0 if they are 0, and `per_example_results` if
// they are not wanted. batch->allow_subspace has no effect.
QFLEET_API qfleet_status qfleet_expectation_hvp(
    qfleet_program program, const qfleet_batch* batch, const double* shared_tangents,
    int64_t shared_tangent_count, const double* per_example_tangents,
    int64_t per_example_tangent_count, const void* upstream, int64_t upstream_count,
    void* value_tangents, int64_t value_tangent_count, double* shared_results,
    int64_t shared_result_count, double* per_example_results, int64_t per_example_result_count);

// Writes the states [size][2**N] (re, im). Bit i of the program's index is bit order[i] of the
// result's index; `order` is a permutation of 0 ... N - 1.
QFLEET_API qfleet_status qfleet_state(qfleet_program program, const qfleet_batch* batch,
                                      const int64_t* order, int64_t order_count, void* states,
                                      int64_t state_count);

// As qfleet_expectation_gradient, given the result of qfleet_state and upstream [size][2**N] in the
// convention dL/dRe + i dL/dIm (TensorFlow's and PyTorch's; JAX uses the conjugate).
QFLEET_API qfleet_status qfleet_state_gradient(
    qfleet_program program, const qfleet_batch* batch, const int64_t* order, int64_t order_count,
    const void* states, int64_t state_count, const void* upstream, int64_t upstream_count,
    double* shared_gradients, int64_t shared_gradient_count, double* per_example_gradients,
    int64_t per_example_gradient_count);

// Measures all qubits `shots` times: writes indices [size][shots] of basis states, in the bit order
// of qfleet_state. The same seed gives the same samples, whatever the number of threads.
QFLEET_API qfleet_status qfleet_sample(qfleet_program program, const qfleet_batch* batch,
                                       const int64_t* order, int64_t order_count, int64_t shots,
                                       uint64_t seed, int64_t* samples, int64_t sample_count);

// Runs a program of trajectories `trajectories` times. Writes records [size][trajectories][R], the
// outcomes of its measurements, and unless it is null with a count of 0, samples
// [size][trajectories]: all qubits measured at the end, as qfleet_sample does. Unless it is null
// with a count of 0, states receives the state of each trajectory at the end, before that,
// [size][trajectories][2^qubits] (re, im), as qfleet_state does. The same seed gives the same
// results, whatever the number of threads. A program with measurements has no other results.
QFLEET_API qfleet_status qfleet_measure(qfleet_program program, const qfleet_batch* batch,
                                        const int64_t* order, int64_t order_count,
                                        int64_t trajectories, uint64_t seed, uint8_t* records,
                                        int64_t record_count, int64_t* samples,
                                        int64_t sample_count, void* states, int64_t state_count);

// ---------------------------------------------------------------------------------------------
// Pulses

// Steps exp(A_t) of small systems under controls, with A_t = sum_k c[t][k] O_k of complex matrices.
typedef struct {
  int64_t dimension;  // D, at most 256
  int64_t operators;  // K
  int64_t examples;   // B
  int64_t steps;      // T
  int64_t segments;   // S, at most T: steps [s L, (s + 1) L) with L = ceil(T / S) are segment s
  const double* matrices;  // O [1 or B][K][D][D] (re, im)
  int64_t matrix_count;
  const double* coefficients;  // c [1 or B][T][K]
  int64_t coefficient_count;
  int32_t unitary;  // 1 if every O_k is anti-Hermitian, so that the products are unitary
} qfleet_pulse;

// Writes the product of each segment's exponentials, the last step leftmost: [B][S][D][D] (re, im).
// Segments are computed side by side: B S should fill the lanes (of 8 bytes) of all threads.
QFLEET_API qfleet_status qfleet_pulse_products(const qfleet_pulse* pulse, double* products,
                                               int64_t product_count);

// Writes dL/dc [B][T][K], given seeds [B][S][D][D] (re, im) = W U^dagger with the segment's product
// U and W = dL/dRe U + i dL/dIm U; if `unitary`, the anti-Hermitian part of it. Memory does not
// grow with the steps of a segment: they are walked back by their inverses.
QFLEET_API qfleet_status qfleet_pulse_gradient(const qfleet_pulse* pulse, const double* seeds,
                                               int64_t seed_count, double* gradients,
                                               int64_t gradient_count);

// A matrix of each step on some qubits, the first leftmost, of m = the product of their levels
// rows.
typedef struct {
  const int32_t* qubits;
  int64_t qubit_count;
  const double* matrices;  // [1 or T][m][m] (re, im), m at most 27
  int64_t matrix_count;
  double turn;    // of one matrix M: M[r][c] e^(i turn (t + 1/2) (n_r - n_c)), n of qubits[0]
  double* seeds;  // null, or of T matrices U: written by qfleet_split_backward, as matrices
  int64_t seed_count;
} qfleet_split_operation;

// Steps of a state of D = the product of the levels, at most 2^24: its index has the first qubit
// leftmost. Every step applies the operations in their order.
typedef struct {
  const int32_t* levels;
  int64_t qubit_count;
  const qfleet_split_operation* operations;
  int64_t operation_count;
  int64_t steps;  // T
} qfleet_split;

// Replaces a state [D] (re, im) by that after all steps.
QFLEET_API qfleet_status qfleet_split_forward(const qfleet_split* split, double* state,
                                              int64_t state_count);

// `states` [2][D] (re, im) are the state psi after all steps and dL/dRe psi + i dL/dIm psi. They
// are replaced by those at the start. Seeds are W U^dagger with W = dL/dRe U + i dL/dIm U. All
// matrices must be unitary: steps are walked back by their inverses, so that memory does not grow.
QFLEET_API qfleet_status qfleet_split_backward(const qfleet_split* split, double* states,
                                               int64_t state_count);

// Fields of the memory layout of a batch: lane qubits, samples per tile, tiles, groups per tile,
// reals per tile, 1 if all threads share a tile.
QFLEET_API qfleet_status qfleet_tile_layout(int32_t qubits, int32_t real_bytes, int64_t batch,
                                            int64_t threads, int64_t* fields, int64_t field_count);

#ifdef __cplusplus
}
#endif

#endif  // QFLEET_QFLEET_H_
