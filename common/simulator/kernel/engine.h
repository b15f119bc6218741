// A program's way through states and back: what the TensorFlow ops, and the tests without
// TensorFlow, call.
//
// The examples of a batch are cut into tiles. A tile lays its examples side by side over the lanes
// of a vector; where that leaves lanes free, or the state would outgrow a core's L2, the lowest
// qubits share the lanes. So a state of any width is worked on in pieces of 2 kChunkBytes at most,
// and beyond 2**15 amplitudes a tile is a single example.
//
// Gradients by the adjoint method (Jones and Gacon, https://arxiv.org/abs/2009.02823): with
// lambda = sum_k upstream_k O_k psi, both states go back through the blocks. For a factor
// F = exp(i pi H t) inside a block, and both states taken right after it,
//     dL/dt = 2 Re <lambda| i pi H |psi> = -2 pi Im tr(H psi lambda^dagger),
// so all that the big states have to give is one D x D sum of psi lambda^dagger a block.
#ifndef QFLEET_ENGINE_H_
#define QFLEET_ENGINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels.h"
#include "program.h"
#include "subspace.h"
#include "tile_layout.h"

namespace qfleet {

struct KernelPlan;

// Calls work(0) ... work(count - 1), in any order and on any threads; `cost` is each one's share in
// nanoseconds, roughly.
using Work = std::function<void(int64_t)>;
using Parallel = std::function<void(int64_t count, int64_t cost, const Work& work)>;

// One call's examples and threads.
struct Batch {
  const double* shared;       // [E]
  const double* per_example;  // [size][F]
  int64_t size;
  int64_t threads;
  Parallel parallel;
  // Of a part of a state that is split over workers (stages.cc); a program of such a part has no
  // prefix. What it begins with, [size][2**bits] (re, im), where bit i of the index is bit
  // (*seed_bits)[i] of the state's, and all else is 0; without it a state begins at |0...0>.
  const double* seeds = nullptr;
  const std::vector<int64_t>* seed_bits = nullptr;
  double* seed_gradients = nullptr;  // as `seeds`: a gradient writes dL/dRe and dL/dIm
  int32_t max_lane_qubits =
      kAnyLaneQubits;  // qubits across lanes; any but kAnyLanes: for any threads
};

template <class T>
class StateVectorEngine {
 public:
  StateVectorEngine(std::shared_ptr<const Program> program, const Kernels<T>& kernels);
  ~StateVectorEngine();

  TileLayout TileLayoutFor(const Batch& batch) const;

  // How many reals `kept` takes so that Gradient need not evolve these tiles again: those of the
  // last tiles, as many as fit into `most` bytes, but one at least.
  int64_t CachedReals(const TileLayout& layout, int64_t most) const;

  // The batch's span, where evolving that is worth it and its states fit into `room` bytes.
  Subspace SubspaceFor(const Batch& batch, int64_t memory_limit_bytes) const;

  // values[b][k] = <O_k>; `kept`, of `kept_reals`, may be null.
  void Expectation(const Batch& batch, T* values, T* cached, int64_t cached_reals);

  // Adds dL/dshared to shared_slopes[E] and, if `by_each`, writes dL/deach to each_slopes[b][F],
  // given upstream[b][k] = dL/dvalues. `kept` is what Expectation left, or has no reals; it is
  // written to if `kept_is_ours`.
  void Gradient(const Batch& batch, const T* upstream, T* cached, int64_t cached_reals,
                bool cached_is_mutable, bool want_per_example, double* shared_gradients,
                double* per_example_gradients);

  // The same by the batch's span: the states of the span, all of which are in `states`, then every
  // example as a quadratic form of its weights. Gradients by the shared exponents only.
  void SubspaceExpectation(const Batch& batch, const Subspace& subspace, T* values, T* states);
  void SubspaceGradient(const Batch& batch, const Subspace& subspace, const T* upstream,
                        const T* states, double* shared_gradients);
  int64_t SubspaceReals(const Subspace& subspace) const;  // of `states`

  // states[b][2**N] (re, im); index bit i of the program is bit order[i] of the state's index.
  void State(const Batch& batch, const int64_t* order, T* states);

  // The same as Gradient, for upstream[b][2**N] as TensorFlow gives it: dL/dRe + i dL/dIm.
  void StateGradient(const Batch& batch, const int64_t* order, const T* states, const T* upstream,
                     bool want_per_example, double* shared_gradients,
                     double* per_example_gradients);

  // One stage of a part of states that are split over workers, for all tiles; `states` and
  // `lambdas` hold ShapeOf(batch).tiles tiles. With `batch.seeds`, the stage is the first.
  void StageForward(const Batch& batch, T* states);
  void StageExpectation(const Batch& batch, const T* states, T* values);
  void StageApplyObservables(const Batch& batch, const T* states, const T* upstream, T* lambdas);
  void StageAdjoint(const Batch& batch, T* states, T* lambdas, bool want_per_example,
                    double* shared_gradients, double* per_example_gradients);

  // Strings that flip qubits which a rank stands for: what `others`, another worker's groups
  // `first` to `first + count` of all its tiles, add to values[b][k], and to lambda. `count` is a
  // power of two that divides `first` and a tile's groups; a program of such strings has one flip,
  // of the bits that are local, and no other.
  void CrossShardExpectation(const Batch& batch, const T* states, const T* others, int64_t first,
                             int64_t count, T* values);
  void CrossShardApplyObservables(const Batch& batch, const T* others, int64_t first, int64_t count,
                                  const T* upstream, T* lambdas);

 private:
  struct Call;
  TileLayout SubspaceTileLayout(const Subspace& subspace) const;
  const KernelPlan& PlanFor(const TileLayout& layout);
  struct Buffer;
  void PrepareMatrices(Call* call);
  std::unique_ptr<Buffer> TileBlockKernels(const Call& call, int64_t tile, bool inverse,
                                           std::vector<BlockKernel>* block_kernels);
  void Evolve(const Call& call, int64_t tile, const Parallel& parallel, T* psi);
  void Forward(const Call& call, int64_t tile, const Parallel& parallel, T* psi);
  void ApplyWindow(const Window& window, int64_t chunks,
                   const std::vector<BlockKernel>& block_kernels, const Parallel& parallel, T* psi);
  void ScatterSeed(const Call& call, int64_t tile, T* psi);
  void GatherSeedGradient(const Call& call, int64_t tile, const T* lambda);
  void Measure(const Call& call, int64_t tile, const Parallel& parallel, const T* psi, T* values);
  void ApplyObservables(const Call& call, int64_t tile, const Parallel& parallel, const T* psi,
                        const T* upstream, T* lambda);
  void ApplyObservable(const Call& call, int64_t k, const T* state, T* out, int64_t first,
                       int64_t count, bool add);
  void AdjointBackward(const Call& call, int64_t tile, const Parallel& parallel, T* psi, T* lambda,
                       bool want_per_example, std::vector<std::vector<double>>* sequence_sums,
                       double* shared_gradients, double* per_example_gradients);
  void BeginCall(Call* call);
  void EndCall(Call* call);
  template <class Job>
  void ForEachTile(const Call& call, const Job& job);
  template <class Job>
  void AdjointOverTiles(const Batch& batch, const TileLayout& layout, bool want_per_example,
                        double* shared_gradients, double* per_example_gradients, const Job& job);

  std::shared_ptr<const Program> program_;
  const Kernels<T>& kernels_;
  std::mutex plans_mutex_;
  std::map<int32_t, std::unique_ptr<KernelPlan>> plans_;  // by lane qubits and samples
  std::mutex pool_mutex_;
  std::vector<std::unique_ptr<Buffer>> pool_;
  std::unique_ptr<Buffer> AcquireBuffer(int64_t reals);
  void ReleaseBuffer(std::unique_ptr<Buffer> buffer);
};

}  // namespace qfleet

#endif  // QFLEET_ENGINE_H_
