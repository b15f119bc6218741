// Forward and adjoint evolution of a compiled program, for the C interface and the C++ tests.
//
// A batch is divided into tiles. A tile places its examples side by side in the lanes of a vector.
// If lanes stay free, or the state would not fit into a core's L2, the lowest qubits share the
// lanes. States wider than that are processed in chunks of at most kChunkBytes, and from 2**15
// amplitudes on a tile holds a single example.
//
// Gradients use the adjoint method (Jones and Gacon, https://arxiv.org/abs/2009.02823). With
// lambda = sum_k upstream_k O_k psi, the blocks are uncomputed from both states. For a factor
// F = exp(i pi H t) of a block, and both states taken right after it,
//     dL/dt = 2 Re <lambda| i pi H |psi> = -2 pi Im tr(H psi lambda^dagger),
// so the full states only contribute one D x D sum of psi lambda^dagger per block.
//
// Hessian-vector products differentiate this once more, in the direction of the exponents'
// tangents: every state, matrix and sum gets a tangent by the product rule, such as
// U dpsi + dU psi for U psi. The tangents of the gradients are the product.
#ifndef QFLEET_ENGINE_H_
#define QFLEET_ENGINE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cpu/kernels.h"
#include "cpu/tile_layout.h"
#include "program/batch.h"
#include "program/program.h"
#include "state/subspace.h"

namespace qfleet {

struct Exponents;
class DeviceEngine;
struct KernelPlan;
class SharedMatrices;
enum class Region;

// Observables on 2 to kMaxReducedQubits qubits, as Hermitian matrices.
struct ReducedObservables {
  std::vector<int64_t> bits;     // of the index, ascending
  std::vector<double> matrices;  // [readouts][2**qubits][2**qubits] (re, im), set for row <= col
};

template <class T>
class HeisenbergEngine;

template <class T>
class StateVectorEngine {
 public:
  using Real = T;

  StateVectorEngine(std::shared_ptr<const Program> program, const Kernels<T>& kernels);
  ~StateVectorEngine();

  const Program& program() const { return *program_; }

  // From now on, values, states and derivatives of whole programs are computed on a device. It
  // keeps no states between calls, and has no stages.
  void UseDevice(std::unique_ptr<DeviceEngine> device);
  DeviceEngine* device() const { return device_.get(); }  // null: all is computed here

  TileLayout TileLayoutFor(const Batch& batch) const;

  // The number of reals that Expectation can cache for Gradient: the states of the last tiles, as
  // many as fit into `most` bytes, but at least one tile.
  int64_t CachedReals(const TileLayout& layout, int64_t most, int64_t density_reals = 0) const;

  // The batch's subspace if using it is faster and its states fit into `memory_limit_bytes`.
  Subspace SubspaceFor(const Batch& batch, int64_t memory_limit_bytes) const;

  // values[b][k] = <O_k>. `cached` receives the states of the last tiles, and may be null.
  void Expectation(const Batch& batch, T* values, T* cached, int64_t cached_reals);

  // Adds dL/dshared to shared_gradients[E] and, if `want_per_example`, writes dL/dper_example to
  // per_example_gradients[b][F], given upstream[b][k] = dL/dvalues. `cached` is the output of
  // Expectation, or empty. It is overwritten if `cached_is_mutable`. Without it, `values` receives
  // those of Expectation, unless it is null.
  void Gradient(const Batch& batch, const T* upstream, T* cached, int64_t cached_reals,
                bool cached_is_mutable, bool want_per_example, T* values, double* shared_gradients,
                double* per_example_gradients);

  // With J = dvalues/dexponents and H the Hessian of sum(upstream * values): writes J tangents to
  // value_tangents[b][k] unless it is null, adds H tangents to shared_results[E] and, if
  // `want_per_example`, to per_example_results[b][F].
  void HessianVectorProduct(const Batch& batch, const T* upstream, bool want_per_example,
                            T* value_tangents, double* shared_results, double* per_example_results);

  // Values and gradients in the batch's subspace: first the basis states, all of which are in
  // `states`, then every example as a quadratic form of its weights. Gradients of shared exponents
  // only.
  void SubspaceExpectation(const Batch& batch, const Subspace& subspace, T* values, T* states);
  void SubspaceGradient(const Batch& batch, const Subspace& subspace, const T* upstream,
                        const T* states, double* shared_gradients);
  int64_t SubspaceReals(const Subspace& subspace) const;  // of `states`

  // The engine that applies the program's last blocks to the observables, if this is faster for the
  // batch; else null.
  HeisenbergEngine<T>* HeisenbergFor(const Batch& batch);

  // As Expectation and Gradient, with other observables than the program's, whose bits are not in
  // the lanes. `cached` also holds the density matrices, `density_reals` per tile. The gradient
  // adds sum_b upstream[b][k] rho_b^T to matrix_gradients, for all rows and columns.
  void ReducedExpectation(const Batch& batch, const ReducedObservables& observables, T* values,
                          T* cached, int64_t cached_reals);
  void ReducedGradient(const Batch& batch, const ReducedObservables& observables, const T* upstream,
                       T* cached, int64_t cached_reals, bool cached_is_mutable,
                       bool want_per_example, T* values, double* shared_gradients,
                       double* per_example_gradients, double* matrix_gradients);

  // states[b][2**N] (re, im). Bit i of the program's index is bit order[i] of the state's index.
  void State(const Batch& batch, const int64_t* order, T* states);

  // As Gradient, for upstream[b][2**N] in TensorFlow's convention dL/dRe + i dL/dIm.
  void StateGradient(const Batch& batch, const int64_t* order, const T* states, const T* upstream,
                     bool want_per_example, double* shared_gradients,
                     double* per_example_gradients);

  // One stage of a state shard, between two index-bit swaps. `states` and `lambdas` hold
  // TileLayoutFor(batch).tiles tiles. The first stage has `batch.seeds`.
  void StageForward(const Batch& batch, T* states);
  void StageExpectation(const Batch& batch, const T* states, T* values);
  void StageApplyObservables(const Batch& batch, const T* states, const T* upstream, T* lambdas);
  void StageAdjoint(const Batch& batch, T* states, T* lambdas, bool want_per_example,
                    double* shared_gradients, double* per_example_gradients);

  // Pauli strings that flip rank bits. Adds the contribution of `peer_groups`, a peer's groups
  // [first, first + count) of all its tiles, to values[b][k] or to lambdas. `count` is a power of
  // two that divides `first` and the groups per tile. All strings of such a program have the same
  // flip of the local bits.
  void CrossShardExpectation(const Batch& batch, const T* states, const T* peer_groups,
                             int64_t first, int64_t count, T* values);
  void CrossShardApplyObservables(const Batch& batch, const T* peer_groups, int64_t first,
                                  int64_t count, const T* upstream, T* lambdas);

 private:
  struct Buffer;
  struct RangeSums;
  struct TileBlocks;
  struct Call;

  // The states of the adjoint method, and their tangents for Hessian-vector products.
  struct AdjointStates {
    T *psi, *lambda;
    T *dpsi = nullptr, *dlambda = nullptr;
  };

  const KernelPlan& PlanFor(const Call& call, Region region);
  TileLayout SubspaceTileLayout(const Subspace& subspace) const;
  std::unique_ptr<Buffer> AcquireBuffer(int64_t reals);
  void ReleaseBuffer(std::unique_ptr<Buffer> buffer);
  std::unique_ptr<RangeSums> AcquireSums(int64_t ranges);
  void ReleaseSums(std::unique_ptr<RangeSums> sums);

  // Computes the matrices of shared blocks and, if several tiles need it, the state after the
  // prefix.
  void BeginCall(Call* call);
  void EndCall(Call* call);
  void PrepareMatrices(Call* call);
  // The last call's matrices, if it had the same exponents: a gradient follows its forward pass.
  std::shared_ptr<const SharedMatrices> SharedMatricesOf(const Exponents& exponents);
  // Packs a block's matrices, or their inverses, at `to` and their tangents, unless these are null,
  // `tangent_offset` reals further.
  void PackMatrices(const Call& call, const double* values, const double* tangents, int64_t samples,
                    bool inverse, T* to, int64_t tangent_offset, BlockKernel* kernel);
  // The call's block kernels with the per-example matrices of one tile: for Forward if `forward`,
  // and those for AdjointBackward if the call has it. Blocks that Forward keeps for a tile are
  // returned to its AdjointBackward, which thus computes nothing.
  std::unique_ptr<TileBlocks> AcquireTileBlocks(const Call& call, int64_t tile, bool forward);
  void ReleaseTileBlocks(const Call& call, std::unique_ptr<TileBlocks> blocks);
  void PrepareTileBlocks(const Call& call, int64_t tile, bool forward, TileBlocks* blocks);

  // Evolves one tile from its initial state, and its tangent from 0 unless it is null; tile -1 is
  // the prefix alone.
  void Evolve(const Call& call, int64_t tile, const Parallel& parallel, T* psi, T* dpsi = nullptr);
  // Applies all blocks after the prefix to psi and, unless it is null, to its tangent.
  void Forward(const Call& call, int64_t tile, const Parallel& parallel, T* psi, T* dpsi = nullptr);
  void ApplyWindow(const Window& window, int64_t chunks,
                   const std::vector<BlockKernel>& block_kernels, const Parallel& parallel, T* psi,
                   T* dpsi);
  // Uncomputes all blocks after the prefix from the states, and adds up gradients, or their
  // tangents if the states have tangents.
  void AdjointBackward(const Call& call, int64_t tile, const Parallel& parallel,
                       const AdjointStates& states, bool want_per_example,
                       std::vector<std::vector<double>>* sequence_sums, double* shared_gradients,
                       double* per_example_gradients);
  // Adds the gradients of one window, given its blocks' sums.
  void WindowGradients(const Call& call, int64_t tile, const Window& window,
                       const std::vector<BlockKernel>& block_kernels, const double* sums,
                       bool want_per_example, std::vector<std::vector<double>>* sequence_sums,
                       double* shared_gradients, double* per_example_gradients);

  // The caller's initial states, and their gradients.
  void LoadStates(const Call& call, int64_t tile, const Parallel& parallel, T* psi);
  void StoreStateGradients(const Call& call, int64_t tile, const Parallel& parallel,
                           const T* lambda);

  // The amplitudes of batch.seeds, scattered into an otherwise empty state; and their gradient.
  void ScatterSeed(const Call& call, int64_t tile, T* psi);
  void GatherSeedGradient(const Call& call, int64_t tile, const T* lambda);

  // Writes the values or, unless dpsi is null, their tangents.
  void Measure(const Call& call, int64_t tile, const Parallel& parallel, const T* psi,
               const T* dpsi, T* values);
  // lambda = sum_k upstream_k O_k psi.
  void ApplyObservables(const Call& call, int64_t tile, const Parallel& parallel, const T* psi,
                        const T* upstream, T* lambda);
  // out = (or +=) O_k state for groups [first, first + count) of a tile of one example.
  void ApplyObservable(const Call& call, int64_t k, const T* state, T* out, int64_t first,
                       int64_t count, bool add);
  // gram[k][i][j] (re, im) = <i| O_k |j> for basis states i <= j.
  std::vector<double> GramMatrices(const Call& call, int64_t count, const T* states);

  struct ReducedCall;
  // The reduced density matrices of a tile, and the values that follow from them.
  void Reduce(const ReducedCall& reduced, const Parallel& parallel, const T* psi, T* density);
  void ReducedValues(const ReducedCall& reduced, int64_t tile, const T* density, T* values);
  // lambda = sum_k weights[k][lane] O_k psi.
  void ApplyReduced(const ReducedCall& reduced, const Parallel& parallel, const T* psi,
                    const T* weights, T* lambda);

  // Calls job(tile, parallel) for all tiles: one tile per thread, or all threads on each tile.
  template <class Job>
  void ForEachTile(const Call& call, const Job& job);
  // The same for ranges of tiles: job(range, first, last, parallel); see SumRanges.
  template <class Job>
  void ForEachTileRange(const Call& call, int64_t ranges, const Job& job);
  // Runs the adjoint method on all tiles. job(call, tile, range, parallel, acquire) returns
  // AdjointStates; acquire() returns memory for a state that lives until the tile is done.
  template <class Job>
  void AdjointOverTiles(const Batch& batch, const TileLayout& layout, bool want_per_example,
                        double* shared_gradients, double* per_example_gradients, const Job& job);

  std::shared_ptr<const Program> program_;
  const Kernels<T>& kernels_;
  std::mutex plans_mutex_;
  std::map<std::pair<int32_t, Region>, std::unique_ptr<KernelPlan>> plans_;  // by lane qubits
  std::mutex matrices_mutex_;
  std::vector<double> last_shared_;  // exponents of last_matrices_
  std::shared_ptr<const SharedMatrices> last_matrices_;
  std::mutex pool_mutex_;
  std::vector<std::unique_ptr<Buffer>> pool_;
  std::vector<std::unique_ptr<RangeSums>> sums_pool_;
  std::vector<std::unique_ptr<TileBlocks>> blocks_pool_;
  std::unique_ptr<DeviceEngine> device_;
  std::once_flag heisenberg_once_;
  std::unique_ptr<HeisenbergEngine<T>> heisenberg_;
};

}  // namespace qfleet

#endif  // QFLEET_ENGINE_H_
