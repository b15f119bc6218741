// The C interface of distributed states: each worker holds one shard of every state of a batch.
//
// A circuit is cut into stages. Within a stage a worker applies gates to the bits of the index that
// are local to it; between two stages, workers swap local bits with the bits of their rank. Each
// stage is a program of its own, without a prefix and without an initial state, and has the
// exponents of the whole circuit. The conventions are those of qfleet.h.
//
// The states of a shard are opaque: `state_reals` reals, aligned to 64 bytes, in groups of
// `group_reals` (qfleet_stage_layout). Workers exchange whole groups. Their layouts are equal if
// their SIMD vectors and `lane_qubits` are.
#ifndef QFLEET_QFLEET_STAGES_H_
#define QFLEET_QFLEET_STAGES_H_

#include "qfleet.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QFLEET_ANY_LANE_QUBITS 64

typedef struct {
  // As for qfleet_expectation; memory_limit is used by qfleet_shard_expectation and its gradient
  // only, and allow_subspace must be 0.
  const qfleet_batch* batch;
  // Most qubits in the lanes of a vector, so that all others can be swapped. The value
  // QFLEET_ANY_LANE_QUBITS lets the layout depend on the number of threads.
  int32_t lane_qubits;
  // Local bits: those that number the seeds, or those that are swapped with the bits of the rank.
  const int64_t* bits;
  int64_t bit_count;
} qfleet_shard;

typedef struct {
  int64_t state_reals;  // of the states of a batch
  int64_t group_reals;
} qfleet_layout;
QFLEET_API qfleet_status qfleet_stage_layout(qfleet_program program, const qfleet_shard* shard,
                                             qfleet_layout* layout);

// ---------------------------------------------------------------------------------------------
// Circuits of one stage

// As qfleet_expectation, for states that start from seeds [size][2**bit_count] (re, im): these are
// the amplitudes whose index has zeros except at shard->bits, all others are 0.
// qfleet_plan_batch returns the number of kept reals if lane_qubits is QFLEET_ANY_LANE_QUBITS.
QFLEET_API qfleet_status qfleet_shard_expectation(qfleet_program program, const qfleet_shard* shard,
                                                  const double* seeds, int64_t seed_count,
                                                  void* values, int64_t value_count, void* kept,
                                                  int64_t kept_count);

// As qfleet_expectation_gradient. seed_gradients are dL/dRe and dL/dIm.
QFLEET_API qfleet_status qfleet_shard_gradient(
    qfleet_program program, const qfleet_shard* shard, const double* seeds, int64_t seed_count,
    const void* upstream, int64_t upstream_count, void* kept, int64_t kept_count,
    int32_t kept_is_mutable, double* shared_gradients, int64_t shared_gradient_count,
    double* per_example_gradients, int64_t per_example_gradient_count, double* seed_gradients,
    int64_t seed_gradient_count);

// ---------------------------------------------------------------------------------------------
// Stages

// Writes the states after the first stage, which starts from seeds at shard->bits.
QFLEET_API qfleet_status qfleet_first_stage(qfleet_program program, const qfleet_shard* shard,
                                            const double* seeds, int64_t seed_count, void* states,
                                            int64_t state_count);

// Applies a later stage in place.
QFLEET_API qfleet_status qfleet_stage(qfleet_program program, const qfleet_shard* shard,
                                      void* states, int64_t state_count);

// Writes the shard's contribution [size][K] to the expectation values.
QFLEET_API qfleet_status qfleet_stage_expectation(qfleet_program program, const qfleet_shard* shard,
                                                  const void* states, int64_t state_count,
                                                  void* values, int64_t value_count);

// Writes lambdas = sum over k of upstream[k] O_k states, from which the adjoint method starts.
QFLEET_API qfleet_status qfleet_stage_apply_observables(
    qfleet_program program, const qfleet_shard* shard, const void* states, int64_t state_count,
    const void* upstream, int64_t upstream_count, void* lambdas, int64_t lambda_count);

// Uncomputes a stage from states and lambdas in place, and writes its gradients.
// `per_example_gradients` may be null with a count of 0. `seed_gradients` are those of the first
// stage, whose seeds are at shard->bits; null with a count of 0 for a later stage.
QFLEET_API qfleet_status qfleet_stage_adjoint(qfleet_program program, const qfleet_shard* shard,
                                              void* states, int64_t state_count, void* lambdas,
                                              int64_t lambda_count, double* shared_gradients,
                                              int64_t shared_gradient_count,
                                              double* per_example_gradients,
                                              int64_t per_example_gradient_count,
                                              double* seed_gradients, int64_t seed_gradient_count);

// ---------------------------------------------------------------------------------------------
// Exchange between workers

// The region of a worker are the amplitudes with its rank at shard->bits: bit i of the rank is at
// bits[i]. Copies reals first ... first + count - 1 of the region of each of the 2**bit_count
// workers to packed [workers][count]. `first` and `count` are multiples of group_reals.
QFLEET_API qfleet_status qfleet_pack_region(qfleet_program program, const qfleet_shard* shard,
                                            const void* states, int64_t state_count, int64_t first,
                                            int64_t count, void* packed, int64_t packed_count);

// Copies packed [workers][count], as received from each worker, back to the same region.
QFLEET_API qfleet_status qfleet_unpack_region(qfleet_program program, const qfleet_shard* shard,
                                              const void* packed, int64_t packed_count,
                                              int64_t first, int64_t count, void* states,
                                              int64_t state_count);

// Pauli strings that flip bits of the rank pair these states with a peer's: `peer` are the reals
// from `first` on of its states. They are a power of two of groups, and `first` is a multiple of
// them. Strings of one program flip the same local bits. Writes the contribution to the expectation
// values [size][K].
QFLEET_API qfleet_status qfleet_cross_shard_expectation(
    qfleet_program program, const qfleet_shard* shard, const void* states, int64_t state_count,
    const void* peer, int64_t peer_count, int64_t first, void* values, int64_t value_count);

// Adds the same strings, applied to the peer's amplitudes, to lambdas.
QFLEET_API qfleet_status qfleet_cross_shard_apply_observables(qfleet_program program,
                                                              const qfleet_shard* shard,
                                                              const void* peer, int64_t peer_count,
                                                              int64_t first, const void* upstream,
                                                              int64_t upstream_count, void* lambdas,
                                                              int64_t lambda_count);

#ifdef __cplusplus
}
#endif

#endif  // QFLEET_QFLEET_STAGES_H_
