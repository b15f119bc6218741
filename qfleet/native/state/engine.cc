#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "device/device_engine.h"
#include "state/amplitude_order.h"
#include "state/engine_internal.h"
#include "state/heisenberg_engine.h"

namespace qfleet {

template <class T>
std::unique_ptr<typename StateVectorEngine<T>::Buffer> StateVectorEngine<T>::AcquireBuffer(
    int64_t reals) {
  std::unique_ptr<Buffer> buffer;
  {
    std::lock_guard<std::mutex> lock(pool_mutex_);
    buffer = TakePooled(&pool_, [reals](const Buffer& one) { return one.reals == reals; });
  }
  return buffer ? std::move(buffer) : std::make_unique<Buffer>(reals);
}

template <class T>
void StateVectorEngine<T>::ReleaseBuffer(std::unique_ptr<Buffer> buffer) {
  if (buffer->reals * static_cast<int64_t>(sizeof(T)) > kMaxPooledBytes) return;
  buffer->last_thread = ThisThread();
  std::lock_guard<std::mutex> lock(pool_mutex_);
  pool_.push_back(std::move(buffer));
}

template <class T>
std::unique_ptr<typename StateVectorEngine<T>::RangeSums> StateVectorEngine<T>::AcquireSums(
    int64_t ranges) {
  std::unique_ptr<RangeSums> sums;
  {
    std::lock_guard<std::mutex> lock(pool_mutex_);
    if (!sums_pool_.empty()) {
      sums = std::move(sums_pool_.back());
      sums_pool_.pop_back();
    }
  }
  if (!sums) sums = std::make_unique<RangeSums>();
  sums->sequences.resize(ranges);
  sums->shared.resize(ranges);
  return sums;
}

template <class T>
void StateVectorEngine<T>::ReleaseSums(std::unique_ptr<RangeSums> sums) {
  std::lock_guard<std::mutex> lock(pool_mutex_);
  sums_pool_.push_back(std::move(sums));
}

template <class T>
StateVectorEngine<T>::StateVectorEngine(std::shared_ptr<const Program> program,
                                        const Kernels<T>& kernels)
    : program_(std::move(program)), kernels_(kernels) {
  // A chunk must fit into its buffer and must contain the bits that may be in the lanes.
  const size_t most = Log2(kChunkBytes / (2 * sizeof(T)));
  const size_t lanes = std::min(Log2(kMaxLanes), program_->qubits);
  for (const QubitWindow& window : program_->windows)
    if (window.bits.size() > most || window.bits.size() < lanes ||
        window.bits[lanes - 1] != static_cast<int64_t>(lanes) - 1)
      throw std::invalid_argument("a window does not fit into a chunk");
}

template <class T>
StateVectorEngine<T>::~StateVectorEngine() = default;

template <class T>
void StateVectorEngine<T>::UseDevice(std::unique_ptr<DeviceEngine> device) {
  device_ = std::move(device);
}

template <class T>
HeisenbergEngine<T>* StateVectorEngine<T>::HeisenbergFor(const Batch& batch) {
  if (device_) return nullptr;
  std::call_once(heisenberg_once_, [this] {
    const HeisenbergCut cut = FindHeisenbergCut(*program_);
    if (cut.head) heisenberg_ = std::make_unique<HeisenbergEngine<T>>(*program_, cut, kernels_);
  });
  return heisenberg_ && heisenberg_->IsFasterFor(batch) ? heisenberg_.get() : nullptr;
}

template <class T>
TileLayout StateVectorEngine<T>::TileLayoutFor(const Batch& batch) const {
  return ChooseTileLayout(program_->qubits, kernels_.lanes, sizeof(T), batch.size, batch.threads,
                          batch.max_lane_qubits);
}

template <class T>
int64_t StateVectorEngine<T>::CachedReals(const TileLayout& layout, int64_t most,
                                          int64_t density_reals) const {
  if (device_) return 0;
  const int64_t tile_reals = layout.tile_reals + density_reals;
  const int64_t fitting = most / (tile_reals * static_cast<int64_t>(sizeof(T)));
  return std::min(layout.tiles, std::max<int64_t>(fitting, 1)) * tile_reals;
}

template <class T>
const KernelPlan& StateVectorEngine<T>::PlanFor(const Call& call, Region region) {
  const TileLayout& layout = call.layout;
  if (call.batch->seeds || call.batch->is_stage) region = Region::kAll;
  std::lock_guard<std::mutex> lock(plans_mutex_);
  std::unique_ptr<KernelPlan>& plan = plans_[{layout.lane_qubits, region}];
  if (!plan)
    plan = std::make_unique<KernelPlan>(MakeKernelPlan(*program_, layout, kernels_.lanes, region));
  return *plan;
}

namespace {

// A buffer per thread for chunks of up to four states that are copied.
template <class T>
T* ChunkBuffer() {
  struct Owned {
    T* data = static_cast<T*>(std::aligned_alloc(kAlignmentBytes, 4 * kChunkBytes));
    ~Owned() { std::free(data); }
  };
  thread_local Owned owned;
  if (!owned.data) throw std::bad_alloc();
  return owned.data;
}

}  // namespace

template <class T>
void StateVectorEngine<T>::ApplyWindow(const Window& window, int64_t chunks,
                                       const std::vector<BlockKernel>& block_kernels,
                                       const Parallel& parallel, T* psi, T* dpsi) {
  const int64_t cost = window.count * (int64_t{4} << window.chunk_bits);
  ForEachRange(parallel, chunks, cost, [&](int64_t, int64_t from, int64_t to) {
    T* buffer = window.in_place ? nullptr : ChunkBuffer<T>();
    for (int64_t chunk = from; chunk < to; ++chunk)
      if (dpsi)
        kernels_.forward_tangent(window, block_kernels.data(), psi, dpsi, chunk, buffer);
      else
        kernels_.forward(window, block_kernels.data(), psi, chunk, buffer);
  });
}

template <class T>
void StateVectorEngine<T>::Evolve(const Call& call, int64_t tile, const Parallel& parallel, T* psi,
                                  T* dpsi) {
  const KernelPlan& plan = *call.plan;
  const Program& program = *program_;
  if (call.batch->seeds) {
    ScatterSeed(call, tile, psi);
  } else if (call.batch->initial_states) {
    LoadStates(call, tile, parallel, psi);
  } else if (call.prefix) {
    const T* from = call.prefix->data;
    ForEachRange(parallel, call.layout.tile_reals, 1, [&](int64_t, int64_t first, int64_t to) {
      std::memcpy(psi + first, from + first, (to - first) * sizeof(T));
    });
  } else {
    const T* initial = call.initial.empty() ? nullptr : call.initial.data();
    ForEachRange(parallel, call.layout.groups, kernels_.lanes / 2,
                 [&](int64_t, int64_t first, int64_t to) {
                   kernels_.initialize(psi, first, to - first, call.layout.samples, initial);
                 });
    for (size_t w = 0; w < plan.windows.size(); ++w)
      if (plan.windows[w].first < program.prefix)
        ApplyWindow(plan.windows[w], plan.chunks[w], call.block_kernels, parallel, psi, nullptr);
  }
  if (dpsi)  // the prefix has no exponents
    ForEachRange(parallel, call.layout.tile_reals, 1, [&](int64_t, int64_t first, int64_t to) {
      std::fill(dpsi + first, dpsi + to, T{0});
    });
  if (tile >= 0) Forward(call, tile, parallel, psi, dpsi);
}

template <class T>
void StateVectorEngine<T>::LoadStates(const Call& call, int64_t tile, const Parallel& parallel,
                                      T* psi) {
  const BitPermutation permutation(call.batch->initial_order, program_->qubits);
  const T* states = static_cast<const T*>(call.batch->initial_states);
  const int32_t lanes = kernels_.lanes;
  if (call.present(tile) < call.layout.samples)
    std::fill_n(psi, call.layout.tile_reals, T{0});  // lanes without an example
  ForEachAmplitude(call.layout, lanes, tile, call.present(tile), permutation, parallel,
                   [&](int64_t real, int64_t amplitude) {
                     psi[real] = states[2 * amplitude];
                     psi[real + lanes] = states[2 * amplitude + 1];
                   });
}

// dL = 2 Re <lambda|d psi>.
template <class T>
void StateVectorEngine<T>::StoreStateGradients(const Call& call, int64_t tile,
                                               const Parallel& parallel, const T* lambda) {
  const BitPermutation permutation(call.batch->initial_order, program_->qubits);
  T* gradients = static_cast<T*>(call.batch->initial_gradients);
  const int32_t lanes = kernels_.lanes;
  ForEachAmplitude(call.layout, lanes, tile, call.present(tile), permutation, parallel,
                   [&](int64_t real, int64_t amplitude) {
                     gradients[2 * amplitude] = 2 * lambda[real];
                     gradients[2 * amplitude + 1] = 2 * lambda[real + lanes];
                   });
}

template <class T>
void StateVectorEngine<T>::Forward(const Call& call, int64_t tile, const Parallel& parallel, T* psi,
                                   T* dpsi) {
  const KernelPlan& plan = *call.plan;
  std::unique_ptr<TileBlocks> blocks = AcquireTileBlocks(call, tile, true);
  for (size_t w = 0; w < plan.windows.size(); ++w)
    if (plan.windows[w].first >= program_->prefix)
      ApplyWindow(plan.windows[w], plan.chunks[w], blocks->kernels, parallel, psi, dpsi);
  if (call.with_inverses) blocks->tile = tile;
  ReleaseTileBlocks(call, std::move(blocks));
}

template <class T>
void StateVectorEngine<T>::AdjointBackward(const Call& call, int64_t tile, const Parallel& parallel,
                                           const AdjointStates& states, bool want_per_example,
                                           std::vector<std::vector<double>>* sequence_sums,
                                           double* shared_gradients,
                                           double* per_example_gradients) {
  const KernelPlan& plan = *call.plan;
  const Program& program = *program_;
  const int32_t samples = call.layout.samples;
  std::unique_ptr<TileBlocks> blocks = AcquireTileBlocks(call, tile, false);
  const std::vector<BlockKernel>& block_kernels = blocks->kernels;
  std::vector<double>& sums = blocks->sums;
  T* const all_states[] = {states.psi, states.dpsi, states.lambda, states.dlambda};
  for (size_t left = plan.windows.size(); left > 0; --left) {
    const Window& window = plan.windows[left - 1];
    if (window.first < program.prefix) break;
    const int64_t chunks = plan.chunks[left - 1];
    const int64_t width = plan.sum_reals[left - 1] * (states.dpsi ? 2 : 1);
    const int64_t cost = window.count * (int64_t{16} << window.chunk_bits);
    sums.resize(width * std::min(chunks, kMaxRanges));
    std::memset(sums.data(), 0, sums.size() * sizeof(double));
    ForEachRange(parallel, chunks, cost, [&](int64_t range, int64_t from, int64_t to) {
      T* buffer = window.in_place ? nullptr : ChunkBuffer<T>();
      for (int64_t chunk = from; chunk < to; ++chunk)
        if (states.dpsi)
          kernels_.backward_tangent(window, block_kernels.data(), all_states, chunk, buffer,
                                    &sums[range * width], samples);
        else
          kernels_.backward(window, block_kernels.data(), states.psi, states.lambda, chunk, buffer,
                            &sums[range * width], samples);
    });
    AddRanges(width, &sums);
    WindowGradients(call, tile, window, block_kernels, sums.data(), want_per_example, sequence_sums,
                    shared_gradients, per_example_gradients);
  }
  blocks->tile = -1;
  ReleaseTileBlocks(call, std::move(blocks));
}

template <class T>
void StateVectorEngine<T>::WindowGradients(const Call& call, int64_t tile, const Window& window,
                                           const std::vector<BlockKernel>& block_kernels,
                                           const double* sums, bool want_per_example,
                                           std::vector<std::vector<double>>* sequence_sums,
                                           double* shared_gradients,
                                           double* per_example_gradients) {
  const Program& program = *program_;
  const bool with_tangents = call.has_tangents();
  for (int32_t b = window.first; b < window.first + window.count; ++b) {
    const Block& block = program.blocks[b];
    const BlockKernel& kernel = block_kernels[b];
    if (!kernel.needs_gradient) continue;
    const int64_t samples = block.per_example ? call.layout.samples : 1;
    const double* from = sums + kernel.sums * (with_tangents ? 2 : 1);
    const double* tangents_from = with_tangents ? from + kBlockSumReals * samples : nullptr;
    if (block.per_example)
      BlockGradients(program, block, *call.shared_matrices,
                     call.exponents(tile, program.per_example), samples, want_per_example, from,
                     tangents_from, sequence_sums, shared_gradients,
                     want_per_example ? per_example_gradients + tile * samples * program.per_example
                                      : nullptr);
    else
      BlockGradients(program, block, *call.shared_matrices, call.exponents(), 1, want_per_example,
                     from, tangents_from, sequence_sums, shared_gradients, nullptr);
  }
}

template <class T>
void StateVectorEngine<T>::BeginCall(Call* call) {
  call->initial.assign(program_->initial.begin(), program_->initial.end());
  PrepareMatrices(call);
  const int64_t bytes = call->layout.tile_reals * static_cast<int64_t>(sizeof(T));
  if (!program_->prefix || call->layout.tiles < 2 || bytes > kMaxPrefixBytes) return;
  std::unique_ptr<Buffer> prefix = AcquireBuffer(call->layout.tile_reals);
  Evolve(*call, -1, call->batch->parallel, prefix->data);
  call->prefix = std::move(prefix);
}

template <class T>
void StateVectorEngine<T>::EndCall(Call* call) {
  if (call->prefix) ReleaseBuffer(std::move(call->prefix));
  ReleaseBuffer(std::move(call->matrices));
  if (call->inverses) ReleaseBuffer(std::move(call->inverses));
  const std::lock_guard<std::mutex> lock(pool_mutex_);
  for (std::unique_ptr<TileBlocks>& blocks : call->tile_blocks)
    blocks_pool_.push_back(std::move(blocks));
  call->tile_blocks.clear();
}

template <class T>
void StateVectorEngine<T>::Expectation(const Batch& batch, T* values, T* cached,
                                       int64_t cached_reals) {
  if (batch.size == 0) return;
  if (device_) return device_->Expectation(batch, values);
  Call call(batch, TileLayoutFor(batch));
  call.plan = &PlanFor(call, Region::kForward);
  BeginCall(&call);
  const int64_t reals = call.layout.tile_reals;
  const int64_t first_cached = call.layout.tiles - cached_reals / reals;
  ForEachTile(call, [&](int64_t tile, const Parallel& parallel) {
    std::unique_ptr<Buffer> own;
    if (tile < first_cached) own = AcquireBuffer(reals);
    T* psi = own ? own->data : cached + (tile - first_cached) * reals;
    Evolve(call, tile, parallel, psi);
    Measure(call, tile, parallel, psi, nullptr, values);
    if (own) ReleaseBuffer(std::move(own));
  });
  EndCall(&call);
}

template <class T>
void StateVectorEngine<T>::Gradient(const Batch& batch, const T* upstream, T* cached,
                                    int64_t cached_reals, bool cached_is_mutable,
                                    bool want_per_example, T* values, double* shared_gradients,
                                    double* per_example_gradients) {
  if (device_ && batch.size)
    return device_->Gradient(batch, upstream, shared_gradients,
                             want_per_example ? per_example_gradients : nullptr);
  AdjointOverTiles(
      batch, TileLayoutFor(batch), want_per_example, shared_gradients, per_example_gradients,
      [&](const Call& call, int64_t tile, int64_t, const Parallel& parallel, const auto& acquire) {
        T* lambda = acquire();
        const int64_t reals = call.layout.tile_reals;
        const int64_t first_cached = call.layout.tiles - cached_reals / reals;
        T* psi = nullptr;
        if (tile >= first_cached) psi = cached + (tile - first_cached) * reals;
        if (!psi) {
          psi = acquire();
          Evolve(call, tile, parallel, psi);
          if (values) Measure(call, tile, parallel, psi, nullptr, values);
        } else if (!cached_is_mutable) {
          psi = static_cast<T*>(std::memcpy(acquire(), psi, reals * sizeof(T)));
        }
        ApplyObservables(call, tile, parallel, psi, upstream, lambda);
        return AdjointStates{psi, lambda};
      });
}

template <class T>
void StateVectorEngine<T>::State(const Batch& batch, const int64_t* order, T* states) {
  if (batch.size == 0) return;
  if (device_) return device_->State(batch, order, states);
  Call call(batch, TileLayoutFor(batch));
  call.plan = &PlanFor(call, Region::kForward);
  BeginCall(&call);
  const BitPermutation permutation(order, program_->qubits);
  const int32_t lanes = kernels_.lanes;
  ForEachTile(call, [&](int64_t tile, const Parallel& parallel) {
    std::unique_ptr<Buffer> psi = AcquireBuffer(call.layout.tile_reals);
    Evolve(call, tile, parallel, psi->data);
    ForEachAmplitude(call.layout, lanes, tile, call.present(tile), permutation, parallel,
                     [&](int64_t real, int64_t amplitude) {
                       states[2 * amplitude] = psi->data[real];
                       states[2 * amplitude + 1] = psi->data[real + lanes];
                     });
    ReleaseBuffer(std::move(psi));
  });
  EndCall(&call);
}

template <class T>
void StateVectorEngine<T>::StateGradient(const Batch& batch, const int64_t* order, const T* states,
                                         const T* upstream, bool want_per_example,
                                         double* shared_gradients, double* per_example_gradients) {
  if (device_ && batch.size)
    return device_->StateGradient(batch, order, states, upstream, shared_gradients,
                                  want_per_example ? per_example_gradients : nullptr);
  const BitPermutation permutation(order, program_->qubits);
  const int32_t lanes = kernels_.lanes;
  AdjointOverTiles(
      batch, TileLayoutFor(batch), want_per_example, shared_gradients, per_example_gradients,
      [&](const Call& call, int64_t tile, int64_t, const Parallel& parallel, const auto& acquire) {
        T *psi = acquire(), *lambda = acquire();
        std::memset(psi, 0, call.layout.tile_reals * sizeof(T));
        std::memset(lambda, 0, call.layout.tile_reals * sizeof(T));
        // dL = Re <upstream|d psi>, but the adjoint method expects 2 Re <lambda|d psi>.
        ForEachAmplitude(call.layout, lanes, tile, call.present(tile), permutation, parallel,
                         [&](int64_t real, int64_t amplitude) {
                           psi[real] = states[2 * amplitude];
                           psi[real + lanes] = states[2 * amplitude + 1];
                           lambda[real] = upstream[2 * amplitude] / 2;
                           lambda[real + lanes] = upstream[2 * amplitude + 1] / 2;
                         });
        return AdjointStates{psi, lambda};
      });
}

template class StateVectorEngine<float>;
template class StateVectorEngine<double>;

}  // namespace qfleet
