#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "engine_internal.h"

namespace qfleet {

template <class T>
std::unique_ptr<typename StateVectorEngine<T>::Buffer> StateVectorEngine<T>::AcquireBuffer(
    int64_t reals) {
  {
    std::lock_guard<std::mutex> lock(pool_mutex_);
    for (auto& buffer : pool_)
      if (buffer->reals == reals) {
        std::unique_ptr<Buffer> taken = std::move(buffer);
        buffer = std::move(pool_.back());
        pool_.pop_back();
        return taken;
      }
  }
  return std::make_unique<Buffer>(reals);
}

template <class T>
void StateVectorEngine<T>::ReleaseBuffer(std::unique_ptr<Buffer> buffer) {
  if (buffer->reals * static_cast<int64_t>(sizeof(T)) > kMaxPooledBytes) return;
  std::lock_guard<std::mutex> lock(pool_mutex_);
  pool_.push_back(std::move(buffer));
}

template <class T>
StateVectorEngine<T>::StateVectorEngine(std::shared_ptr<const Program> program,
                                        const Kernels<T>& kernels)
    : program_(std::move(program)), kernels_(kernels) {
  // A chunk's buffer holds so many bits, the lanes' among them.
  const size_t most = Log2(kChunkBytes / (2 * sizeof(T)));
  const size_t lanes = std::min(Log2(kMaxLanes), program_->qubits);
  for (const QubitWindow& window : program_->windows)
    if (window.bits.size() > most || window.bits.size() < lanes ||
        window.bits[lanes - 1] != static_cast<int64_t>(lanes) - 1)
      throw std::invalid_argument("a window is not a chunk's");
}

template <class T>
StateVectorEngine<T>::~StateVectorEngine() = default;

TileLayout ChooseTileLayout(int32_t qubits, int32_t lanes, int32_t real_bytes, int64_t batch,
                            int64_t threads, int32_t max_lane_qubits) {
  const int32_t chunk = Log2(kChunkBytes / (2 * lanes * real_bytes));
  const bool any_lane_qubits = max_lane_qubits == kAnyLaneQubits;
  const int32_t most = std::min({Log2(lanes), qubits, max_lane_qubits});
  // Half a chunk, where lanes can make it so small: both states, and what else is near.
  int32_t lane_qubits = std::clamp(qubits - (chunk - 1), 0, most);
  const auto tiles = [&] { return (batch + (lanes >> lane_qubits) - 1) / (lanes >> lane_qubits); };
  // Lanes without an example, and threads without a tile, take up qubits instead.
  while (lane_qubits < most &&
         ((lanes >> lane_qubits) / 2 >= batch || (any_lane_qubits && tiles() < threads)))
    ++lane_qubits;
  TileLayout layout;
  layout.lane_qubits = lane_qubits;
  layout.samples = lanes >> lane_qubits;
  layout.tiles = tiles();
  layout.groups = int64_t{1} << (qubits - lane_qubits);
  layout.tile_reals = layout.groups * 2 * lanes;
  layout.shared_tile =
      threads > 1 && qubits - lane_qubits > chunk &&
      (layout.tile_reals * real_bytes > kMinSharedTileBytes || layout.tiles < threads);
  return layout;
}

template <class T>
TileLayout StateVectorEngine<T>::TileLayoutFor(const Batch& batch) const {
  return ChooseTileLayout(program_->qubits, kernels_.lanes, sizeof(T), batch.size, batch.threads,
                          batch.max_lane_qubits);
}

template <class T>
int64_t StateVectorEngine<T>::CachedReals(const TileLayout& layout, int64_t most) const {
  const int64_t fitting = most / (layout.tile_reals * static_cast<int64_t>(sizeof(T)));
  return std::min(layout.tiles, std::max<int64_t>(fitting, 1)) * layout.tile_reals;
}

template <class T>
const typename StateVectorEngine<T>::KernelPlan& StateVectorEngine<T>::PlanFor(
    const TileLayout& layout) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<KernelPlan>& slot = plans_[layout.lane_qubits];
  if (slot) return *slot;
  auto plan = std::make_unique<KernelPlan>();
  const Program& program = *program_;
  const int32_t lane_qubits = layout.lane_qubits, group_bit_count = Log2(layout.groups);
  const int32_t sample_bits = Log2(layout.samples);
  const int32_t lanes = kernels_.lanes;

  // Without reaches the whole state is one chunk: the prefix's window, and all the rest's.
  std::vector<QubitWindow> windows = program.windows;
  if (windows.empty()) {
    std::vector<int64_t> all;
    for (int32_t bit = 0; bit < program.qubits; ++bit) all.push_back(bit);
    const int32_t prefix = static_cast<int32_t>(program.prefix);
    const int32_t count = static_cast<int32_t>(program.blocks.size());
    if (prefix) windows.push_back({0, prefix, all});
    if (count > prefix) windows.push_back({prefix, count - prefix, all});
  }
  plan->segments.resize(windows.size());
  plan->outside.resize(windows.size());
  for (size_t w = 0; w < windows.size(); ++w) {
    std::vector<int32_t> local;  // bits of the group index
    for (int64_t bit : windows[w].bits)
      if (bit >= lane_qubits) local.push_back(static_cast<int32_t>(bit) - lane_qubits);
    Window window = {};
    window.first = windows[w].first;
    window.count = windows[w].count;
    window.chunk_bits = static_cast<int32_t>(local.size());
    while (window.segment_bits < window.chunk_bits &&
           local[window.segment_bits] == window.segment_bits)
      ++window.segment_bits;
    window.in_place = window.segment_bits == window.chunk_bits;
    const std::vector<int32_t> high(local.begin() + window.segment_bits, local.end());
    for (int64_t i = 0; i < int64_t{1} << high.size(); ++i)
      plan->segments[w].push_back(ScatterBits(i, high));
    for (int32_t bit = 0; bit < group_bit_count; ++bit)
      if (!std::binary_search(local.begin(), local.end(), bit)) plan->outside[w].push_back(bit);
    window.segments = plan->segments[w].data();
    window.outside = plan->outside[w].data();
    window.outside_bits = static_cast<int32_t>(plan->outside[w].size());
    plan->windows.push_back(window);
    plan->chunks.push_back(int64_t{1} << window.outside_bits);

    for (int32_t b = window.first; b < window.first + window.count; ++b) {
      const Block& block = program.blocks[b];
      const int32_t size = block.size();
      BlockKernel kernel = {};
      // For each of the block's qubits: its bit among lanes, or among the chunk's groups.
      int32_t lane_bit[2] = {-1, -1}, group_bit[2] = {-1, -1};
      std::vector<int> group_qubits,
          lane_qubit_indices;  // qubits outside and inside lanes, upper bit first
      for (int q = 0; q < block.qubits; ++q) {
        if (block.bits[q] < lane_qubits) {
          lane_bit[q] = sample_bits + static_cast<int32_t>(block.bits[q]);
          lane_qubit_indices.push_back(q);
        } else {
          const int32_t bit = static_cast<int32_t>(block.bits[q]) - lane_qubits;
          group_bit[q] = static_cast<int32_t>(std::lower_bound(local.begin(), local.end(), bit) -
                                              local.begin());
          group_qubits.push_back(q);
        }
      }
      kernel.rows = 1 << group_qubits.size();
      kernel.cols = size;
      if (group_qubits.size() == 1) kernel.low = group_bit[group_qubits[0]];
      if (group_qubits.size() == 2) {
        kernel.low = std::min(group_bit[0], group_bit[1]);
        kernel.high = std::max(group_bit[0], group_bit[1]);
      }
      // The matrix index of a qubit's value, and of several.
      const auto entry = [&](const std::vector<int>& qubits, int pattern) {
        int index = 0;
        for (size_t i = 0; i < qubits.size(); ++i)
          index |= (pattern >> (qubits.size() - 1 - i) & 1) << (block.qubits - 1 - qubits[i]);
        return index;
      };
      const auto lane_pattern = [&](int lane) {
        int pattern = 0;
        for (int q : lane_qubit_indices) pattern = 2 * pattern + (lane >> lane_bit[q] & 1);
        return pattern;
      };
      const int patterns = 1 << lane_qubit_indices.size();
      for (int r = 0; r < kernel.rows; ++r) {
        for (size_t i = 0; i < group_qubits.size(); ++i)
          kernel.offset[r] |= static_cast<int64_t>(r >> (group_qubits.size() - 1 - i) & 1)
                              << group_bit[group_qubits[i]];
        for (int lane = 0; lane < lanes; ++lane) {
          kernel.row[r][lane] = static_cast<uint8_t>(entry(group_qubits, r) |
                                                     entry(lane_qubit_indices, lane_pattern(lane)));
          for (int d = 0; d < patterns; ++d)
            kernel.col[r * patterns + d][lane] = static_cast<uint8_t>(
                entry(group_qubits, r) | entry(lane_qubit_indices, lane_pattern(lane) ^ d));
        }
      }
      for (int d = 0; d < patterns; ++d)
        for (size_t i = 0; i < lane_qubit_indices.size(); ++i)
          kernel.lane_xor[d] |= (d >> (lane_qubit_indices.size() - 1 - i) & 1)
                                << lane_bit[lane_qubit_indices[i]];
      // On a lane where the row is the identity's, its input is itself.
      const auto needed = [&](int64_t entries, int r, int j, bool identity) {
        for (int lane = 0; lane < lanes; ++lane) {
          const int row = kernel.row[r][lane], col = kernel.col[j][lane];
          const bool identity_row = !(entries >> (row * size) & ((1 << size) - 1));
          if ((entries >> (row * size + col) & 1) || (identity && identity_row && row == col))
            return true;
        }
        return false;
      };
      int filled = 0;
      for (int r = 0; r < kernel.rows; ++r) {
        bool changes = false;
        for (int j = 0; j < size; ++j) changes |= needed(block.entries, r, j, false);
        if (!changes) continue;
        const int i = kernel.active_rows++;
        kernel.active_row[i] = r;
        for (int j = 0; j < size; ++j) {
          if (needed(block.entries, r, j, true)) kernel.input[i][kernel.terms[i]++] = j;
          if (needed(block.closure, r, j, false))
            kernel.gradient_input[i][kernel.gradient_terms[i]++] = j;
        }
        filled += kernel.terms[i];
      }
      kernel.sparse = filled <= kernel.rows * size / 2;
      plan->block_kernels.push_back(kernel);
      plan->matrix_offset.push_back(plan->matrix_reals);
      plan->matrix_reals += 2 * kernel.rows * kernel.cols * lanes;
    }
  }
  plan->z.resize(program.pauli_groups.size());
  plan->ys.resize(program.pauli_groups.size());
  for (size_t g = 0; g < program.pauli_groups.size(); ++g) {
    const PauliGroup& group = program.pauli_groups[g];
    for (size_t t = 0; t < group.z.size(); ++t) {
      plan->z[g].push_back(group.z[t] >> lane_qubits);
      plan->ys[g].push_back(static_cast<int32_t>(group.ys[t]));
    }
    PauliStrings strings;
    strings.flip = group.flip >> lane_qubits;
    strings.lane_xor =
        static_cast<int32_t>((group.flip & ((int64_t{1} << lane_qubits) - 1)) << sample_bits);
    strings.count = static_cast<int32_t>(group.z.size());
    strings.z = plan->z[g].data();
    strings.ys = plan->ys[g].data();
    plan->strings.push_back(strings);
  }
  slot = std::move(plan);
  return *slot;
}

// Writes a block's matrices as its move wants them; `values` is [D * D] (re, im) [samples].
template <class T>
static void PackMatrix(const BlockKernel& kernel, const double* values, int64_t samples,
                       int32_t tile_samples, int32_t lanes, bool inverse, T* out) {
  for (int r = 0; r < kernel.rows; ++r)
    for (int j = 0; j < kernel.cols; ++j)
      for (int part = 0; part < 2; ++part, out += lanes) {
        if (samples == 1 && kernel.rows == kernel.cols) {  // the same on all lanes
          const int entry = inverse ? j * kernel.cols + r : r * kernel.cols + j;
          const double value = values[2 * entry + part];
          std::fill_n(out, lanes, static_cast<T>(inverse && part ? -value : value));
          continue;
        }
        for (int lane = 0; lane < lanes; ++lane) {
          const int row = kernel.row[r][lane], col = kernel.col[j][lane];
          const int entry = inverse ? col * kernel.cols + row : row * kernel.cols + col;
          const int64_t sample = samples == 1 ? 0 : lane & (tile_samples - 1);
          const double value = values[(2 * entry + part) * samples + sample];
          out[lane] = static_cast<T>(inverse && part ? -value : value);
        }
      }
}

// Whether every row of a single [D * D] (re, im) matrix has a 1 and zeros.
static bool IsPermutation(const std::vector<double>& values, int32_t size) {
  for (int32_t row = 0; row < size; ++row) {
    int ones = 0, zeros = 0;
    for (int32_t i = 2 * row * size; i < 2 * (row + 1) * size; ++i) {
      ones += i % 2 == 0 && std::abs(values[i] - 1) < kPermutationTolerance;
      zeros += std::abs(values[i]) < kPermutationTolerance;
    }
    if (ones != 1 || zeros != 2 * size - 1) return false;
  }
  return true;
}

template <class T>
void StateVectorEngine<T>::PrepareMatrices(Call* call) {
  const Program& program = *program_;
  const KernelPlan& plan = *call->plan;
  call->shared_matrices = std::make_unique<SharedMatrices>(program, call->batch->shared);
  call->block_kernels = plan.block_kernels;
  call->matrices = AcquireBuffer(plan.matrix_reals);
  if (call->with_inverses) call->inverses = AcquireBuffer(plan.matrix_reals);
  std::vector<double> values;
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    BlockKernel& kernel = call->block_kernels[b];
    kernel.needs_gradient = block.needs_gradient[call->mode];
    kernel.needs_uncompute = block.needs_uncompute[call->mode];
    if (block.per_example) continue;
    BlockMatrices(program, block, *call->shared_matrices, call->batch->shared, nullptr, 0, 1,
                  &values);
    kernel.is_permutation = IsPermutation(values, block.size());
    T* to = call->matrices->data + plan.matrix_offset[b];
    PackMatrix(kernel, values.data(), 1, call->layout.samples, kernels_.lanes, false, to);
    kernel.matrix = to;
    if (!call->with_inverses) continue;
    to = call->inverses->data + plan.matrix_offset[b];
    PackMatrix(kernel, values.data(), 1, call->layout.samples, kernels_.lanes, true, to);
    kernel.inverse = to;
  }
}

// The moves of one tile: those of `call`, and the matrices of its own examples, which are in the
// returned memory.
template <class T>
std::unique_ptr<typename StateVectorEngine<T>::Buffer> StateVectorEngine<T>::TileBlockKernels(
    const Call& call, int64_t tile, bool inverse, std::vector<BlockKernel>* block_kernels) {
  const Program& program = *program_;
  *block_kernels = call.block_kernels;
  int64_t reals = 0;
  for (size_t b = 0; b < program.blocks.size(); ++b)
    if (program.blocks[b].per_example)
      reals += 2 * kernels_.lanes * (*block_kernels)[b].rows * (*block_kernels)[b].cols;
  std::unique_ptr<Buffer> matrices = AcquireBuffer(reals);
  T* to = matrices->data;
  std::vector<double> values;
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    BlockKernel& kernel = (*block_kernels)[b];
    if (!block.per_example || (inverse && !kernel.needs_uncompute)) continue;
    BlockMatrices(program, block, *call.shared_matrices, call.batch->shared,
                  call.per_example(tile, program.per_example), call.present(tile),
                  call.layout.samples, &values);
    PackMatrix(kernel, values.data(), call.layout.samples, call.layout.samples, kernels_.lanes,
               inverse, to);
    (inverse ? kernel.inverse : kernel.matrix) = to;
    to += 2 * kernels_.lanes * kernel.rows * kernel.cols;
  }
  return matrices;
}

namespace {

// What a thread keeps for the chunks that it copies together.
template <class T>
T* ChunkBuffer() {
  struct Owned {
    T* data = static_cast<T*>(std::aligned_alloc(kAlignmentBytes, 2 * kChunkBytes));
    ~Owned() { std::free(data); }
  };
  thread_local Owned owned;
  if (!owned.data) throw std::bad_alloc();
  return owned.data;
}

}  // namespace

// One window's blocks.
template <class T>
void StateVectorEngine<T>::ApplyWindow(const Window& window, int64_t chunks,
                                       const std::vector<BlockKernel>& block_kernels,
                                       const Parallel& parallel, T* psi) {
  const int64_t cost = window.count * (int64_t{4} << window.chunk_bits);
  ForEachRange(parallel, chunks, cost, [&](int64_t, int64_t from, int64_t to) {
    T* buffer = window.in_place ? nullptr : ChunkBuffer<T>();
    for (int64_t chunk = from; chunk < to; ++chunk)
      kernels_.forward(window, block_kernels.data(), psi, chunk, buffer);
  });
}

template <class T>
void StateVectorEngine<T>::Evolve(const Call& call, int64_t tile, const Parallel& parallel,
                                  T* psi) {
  const KernelPlan& plan = *call.plan;
  const Program& program = *program_;
  if (call.batch->seeds) {
    ScatterSeed(call, tile, psi);
  } else if (call.prefix) {
    const T* from = call.prefix->data;
    ForEachRange(parallel, call.layout.tile_reals, 1, [&](int64_t, int64_t first, int64_t to) {
      std::memcpy(psi + first, from + first, (to - first) * sizeof(T));
    });
  } else {
    kernels_.initialize(psi, call.layout.groups, call.layout.samples,
                        call.initial.empty() ? nullptr : call.initial.data());
    for (size_t w = 0; w < plan.windows.size(); ++w)
      if (plan.windows[w].first < program.prefix)
        ApplyWindow(plan.windows[w], plan.chunks[w], call.block_kernels, parallel, psi);
  }
  if (tile >= 0) Forward(call, tile, parallel, psi);
}

// All blocks after the prefix.
template <class T>
void StateVectorEngine<T>::Forward(const Call& call, int64_t tile, const Parallel& parallel,
                                   T* psi) {
  const KernelPlan& plan = *call.plan;
  std::vector<BlockKernel> block_kernels;
  std::unique_ptr<Buffer> matrices = TileBlockKernels(call, tile, false, &block_kernels);
  for (size_t w = 0; w < plan.windows.size(); ++w)
    if (plan.windows[w].first >= program_->prefix)
      ApplyWindow(plan.windows[w], plan.chunks[w], block_kernels, parallel, psi);
  ReleaseBuffer(std::move(matrices));
}

template <class T>
void StateVectorEngine<T>::Measure(const Call& call, int64_t tile, const Parallel& parallel,
                                   const T* psi, T* values) {
  const Program& program = *program_;
  const int32_t lanes = kernels_.lanes, samples = call.layout.samples;
  const int64_t unit = std::min<int64_t>(int64_t{1} << kMaxTransformBits, call.layout.groups);
  const int64_t units = call.layout.groups / unit, present = call.present(tile);
  std::vector<double> totals(present * program.readouts);
  for (int64_t b = 0; b < present; ++b)
    std::copy(program.offsets.begin(), program.offsets.end(),
              totals.begin() + b * program.readouts);
  for (size_t g = 0; g < program.pauli_groups.size(); ++g) {
    const PauliStrings& strings = call.plan->strings[g];
    const PauliGroup& group = program.pauli_groups[g];
    const int64_t width = strings.count * lanes;
    std::vector<double> sums(std::min(units, kMaxRanges) * width);
    ForEachRange(parallel, units, unit * 8, [&](int64_t range, int64_t from, int64_t to) {
      kernels_.measure(strings, psi, from * unit, (to - from) * unit, &sums[range * width]);
    });
    for (int32_t t = 0; t < strings.count; ++t)
      for (int32_t lane = 0; lane < lanes; ++lane) {
        const int64_t sample = lane & (samples - 1);
        if (sample >= present) continue;
        double sum = 0;
        for (size_t range = 0; range < sums.size() / width; ++range)
          sum += sums[range * width + t * lanes + lane];
        if (__builtin_parityll(group.z[t] & (lane / samples))) sum = -sum;
        for (int64_t k = 0; k < program.readouts; ++k)
          totals[sample * program.readouts + k] +=
              sum * program.weights[(group.first + t) * program.readouts + k];
      }
  }
  for (size_t i = 0; i < totals.size(); ++i)
    values[tile * samples * program.readouts + i] = static_cast<T>(totals[i]);
}

template <class T>
void StateVectorEngine<T>::ApplyObservables(const Call& call, int64_t tile,
                                            const Parallel& parallel, const T* psi,
                                            const T* upstream, T* lambda) {
  const Program& program = *program_;
  const int32_t lanes = kernels_.lanes, samples = call.layout.samples;
  const int64_t unit = std::min<int64_t>(int64_t{1} << kMaxTransformBits, call.layout.groups);
  const int64_t present = call.present(tile);
  if (program.pauli_groups.empty()) std::memset(lambda, 0, call.layout.tile_reals * sizeof(T));
  for (size_t g = 0; g < program.pauli_groups.size(); ++g) {
    const PauliStrings& strings = call.plan->strings[g];
    const PauliGroup& group = program.pauli_groups[g];
    std::unique_ptr<Buffer> weights = AcquireBuffer((strings.count * lanes + 15) / 16 * 16);
    for (int32_t t = 0; t < strings.count; ++t)
      for (int32_t lane = 0; lane < lanes; ++lane) {
        const int64_t sample = lane & (samples - 1);
        double weight = 0;
        for (int64_t k = 0; sample < present && k < program.readouts; ++k)
          weight += program.weights[(group.first + t) * program.readouts + k] *
                    static_cast<double>(upstream[(tile * samples + sample) * program.readouts + k]);
        if (__builtin_parityll(group.z[t] & (lane / samples))) weight = -weight;
        weights->data[t * lanes + lane] = static_cast<T>(weight);
      }
    ForEachRange(parallel, call.layout.groups / unit, unit * 8,
                 [&](int64_t, int64_t from, int64_t to) {
                   kernels_.apply_strings(strings, psi, lambda + from * unit * 2 * lanes,
                                          from * unit, (to - from) * unit, weights->data, g > 0);
                 });
    ReleaseBuffer(std::move(weights));
  }
}

template <class T>
void StateVectorEngine<T>::AdjointBackward(const Call& call, int64_t tile, const Parallel& parallel,
                                           T* psi, T* lambda, bool want_per_example,
                                           std::vector<std::vector<double>>* sequence_sums,
                                           double* shared_gradients,
                                           double* per_example_gradients) {
  const KernelPlan& plan = *call.plan;
  const Program& program = *program_;
  const int32_t samples = call.layout.samples;
  std::vector<BlockKernel> block_kernels;
  std::unique_ptr<Buffer> matrices = TileBlockKernels(call, tile, true, &block_kernels);
  for (size_t left = plan.windows.size(); left > 0; --left) {
    const Window& window = plan.windows[left - 1];
    if (window.first < program.prefix) break;
    const int64_t chunks = plan.chunks[left - 1];
    const int64_t width = static_cast<int64_t>(window.count) * kBlockSumReals * samples;
    const int64_t cost = window.count * (int64_t{16} << window.chunk_bits);
    std::vector<double> sums(width * std::min(chunks, kMaxRanges));
    ForEachRange(parallel, chunks, cost, [&](int64_t range, int64_t from, int64_t to) {
      T* buffer = window.in_place ? nullptr : ChunkBuffer<T>();
      for (int64_t chunk = from; chunk < to; ++chunk)
        kernels_.backward(window, block_kernels.data(), psi, lambda, chunk, buffer,
                          &sums[range * width], samples);
    });
    for (size_t at = width; at < sums.size(); ++at) sums[at % width] += sums[at];
    std::vector<double> total;
    for (int32_t b = window.first; b < window.first + window.count; ++b) {
      const Block& block = program.blocks[b];
      if (!block_kernels[b].needs_gradient) continue;
      const double* from = &sums[(b - window.first) * kBlockSumReals * samples];
      if (block.per_example) {
        BlockGradients(program, block, *call.shared_matrices, call.batch->shared,
                       call.per_example(tile, program.per_example), call.present(tile), samples,
                       want_per_example, from, sequence_sums, shared_gradients,
                       want_per_example
                           ? per_example_gradients + tile * samples * program.per_example
                           : nullptr);
        continue;
      }
      total.assign(2 * block.size() * block.size(), 0.0);
      for (size_t i = 0; i < total.size(); ++i)
        for (int32_t s = 0; s < samples; ++s) total[i] += from[i * samples + s];
      BlockGradients(program, block, *call.shared_matrices, call.batch->shared, nullptr, 0, 1,
                     want_per_example, total.data(), sequence_sums, shared_gradients, nullptr);
    }
  }
  ReleaseBuffer(std::move(matrices));
}

// Evolves one tile through what comes before the first exponent, where several tiles can share it.
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
}

template <class T>
void StateVectorEngine<T>::Expectation(const Batch& batch, T* values, T* cached,
                                       int64_t cached_reals) {
  if (batch.size == 0) return;
  Call call(batch, TileLayoutFor(batch));
  call.plan = &PlanFor(call.layout);
  BeginCall(&call);
  const int64_t reals = call.layout.tile_reals;
  const int64_t first_cached = call.layout.tiles - cached_reals / reals;
  ForEachTile(call, [&](int64_t tile, const Parallel& parallel) {
    std::unique_ptr<Buffer> own;
    if (tile < first_cached) own = AcquireBuffer(reals);
    T* psi = own ? own->data : cached + (tile - first_cached) * reals;
    Evolve(call, tile, parallel, psi);
    Measure(call, tile, parallel, psi, values);
    if (own) ReleaseBuffer(std::move(own));
  });
  EndCall(&call);
}

template <class T>
void StateVectorEngine<T>::Gradient(const Batch& batch, const T* upstream, T* cached,
                                    int64_t cached_reals, bool cached_is_mutable,
                                    bool want_per_example, double* shared_gradients,
                                    double* per_example_gradients) {
  AdjointOverTiles(
      batch, TileLayoutFor(batch), want_per_example, shared_gradients, per_example_gradients,
      [&](const Call& call, int64_t tile, const Parallel& parallel, const auto& acquire) {
        T* lambda = acquire();
        const int64_t reals = call.layout.tile_reals;
        const int64_t first_cached = call.layout.tiles - cached_reals / reals;
        T* psi = nullptr;
        if (tile >= first_cached) psi = cached + (tile - first_cached) * reals;
        if (!psi) {
          psi = acquire();
          Evolve(call, tile, parallel, psi);
        } else if (!cached_is_mutable) {
          psi = static_cast<T*>(std::memcpy(acquire(), psi, reals * sizeof(T)));
        }
        ApplyObservables(call, tile, parallel, psi, upstream, lambda);
        return std::make_pair(psi, lambda);
      });
}

// Calls at(index of a real part in the tile, index of an amplitude in [B][2**N]) for all that the
// tile holds of examples that are present.
template <class At>
void ForEachAmplitude(const TileLayout& layout, int32_t lanes, int64_t tile, int64_t present,
                      const BitPermutation& permutation, const Parallel& parallel, const At& at) {
  const int64_t amplitudes = lanes / layout.samples, size = layout.groups * amplitudes;
  ForEachRange(parallel, layout.groups, lanes, [&](int64_t, int64_t from, int64_t to) {
    for (int64_t group = from; group < to; ++group)
      for (int64_t a = 0; a < amplitudes; ++a) {
        const int64_t y = permutation(group * amplitudes + a);
        for (int64_t s = 0; s < present; ++s)
          at(2 * lanes * group + a * layout.samples + s, (tile * layout.samples + s) * size + y);
      }
  });
}

template <class T>
void StateVectorEngine<T>::State(const Batch& batch, const int64_t* order, T* states) {
  if (batch.size == 0) return;
  Call call(batch, TileLayoutFor(batch));
  call.plan = &PlanFor(call.layout);
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
  const BitPermutation permutation(order, program_->qubits);
  const int32_t lanes = kernels_.lanes;
  AdjointOverTiles(
      batch, TileLayoutFor(batch), want_per_example, shared_gradients, per_example_gradients,
      [&](const Call& call, int64_t tile, const Parallel& parallel, const auto& acquire) {
        T *psi = acquire(), *lambda = acquire();
        std::memset(psi, 0, call.layout.tile_reals * sizeof(T));
        std::memset(lambda, 0, call.layout.tile_reals * sizeof(T));
        // dL = Re <upstream|d psi>, where the adjoint method has 2 Re <lambda|d psi>.
        ForEachAmplitude(call.layout, lanes, tile, call.present(tile), permutation, parallel,
                         [&](int64_t real, int64_t amplitude) {
                           psi[real] = states[2 * amplitude];
                           psi[real + lanes] = states[2 * amplitude + 1];
                           lambda[real] = upstream[2 * amplitude] / 2;
                           lambda[real + lanes] = upstream[2 * amplitude + 1] / 2;
                         });
        return std::make_pair(psi, lambda);
      });
}

// Of the states of a span each is a tile, so that their scalar products are sums over groups.
template <class T>
TileLayout StateVectorEngine<T>::SubspaceTileLayout(const Subspace& subspace) const {
  TileLayout layout;
  layout.lane_qubits = Log2(kernels_.lanes);
  layout.samples = 1;
  layout.tiles = subspace.states;
  layout.groups = int64_t{1} << (program_->qubits - layout.lane_qubits);
  layout.tile_reals = layout.groups * 2 * kernels_.lanes;
  layout.shared_tile = layout.tile_reals * static_cast<int64_t>(sizeof(T)) > kMinSharedTileBytes;
  return layout;
}

template <class T>
int64_t StateVectorEngine<T>::SubspaceReals(const Subspace& subspace) const {
  return subspace.states * (int64_t{2} << program_->qubits);
}

template <class T>
Subspace StateVectorEngine<T>::SubspaceFor(const Batch& batch, int64_t memory_limit_bytes) const {
  const Program& program = *program_;
  const int64_t bytes = static_cast<int64_t>(sizeof(T)) * (int64_t{2} << program.qubits);
  if (program.per_example == 0 || (int64_t{1} << program.qubits) < kernels_.lanes)
    return Subspace();
  // In nanoseconds, roughly: to evolve an example, a product of two states, and what finding the
  // span and adding up its products takes, by the angles that each example turns.
  const double pass =
      static_cast<double>(int64_t{1} << program.qubits) / kMultiplyAddsPerNanosecond;
  const double readouts = static_cast<double>(std::max<int64_t>(program.readouts, 1));
  const double example = program.cost * pass, product = 4 * readouts * pass;
  double left = static_cast<double>(batch.size) * example;
  for (int64_t b = 0; b < batch.size; ++b) {
    int64_t active = 0;
    for (int64_t e = 0; e < program.per_example; ++e)
      active += batch.per_example[b * program.per_example + e] != 0;
    if (active > kMaxActiveExponents) return Subspace();
    left -= 300.0 * (1 << active) + 5 * readouts * (1 << 2 * active);
  }
  // states * (example + product * states) < left
  const double root = std::sqrt(std::max(0.0, example * example + 4 * product * left));
  const int64_t most = static_cast<int64_t>((root - example) / (2 * product));
  if (left <= 0 || most < 1) return Subspace();
  Subspace subspace =
      FindSubspace(program, batch.per_example, batch.size,
                   std::min({batch.size - 1, memory_limit_bytes / bytes - 2, most}));
  return subspace;
}

template <class T>
void StateVectorEngine<T>::SubspaceExpectation(const Batch& batch, const Subspace& subspace,
                                               T* values, T* states) {
  const Program& program = *program_;
  Batch subbatch = batch;
  subbatch.per_example = subspace.per_example.data();
  subbatch.size = subspace.states;
  Call call(subbatch, SubspaceTileLayout(subspace));
  call.plan = &PlanFor(call.layout);
  BeginCall(&call);
  const int64_t reals = call.layout.tile_reals, count = subspace.states;
  ForEachTile(call, [&](int64_t tile, const Parallel& parallel) {
    Evolve(call, tile, parallel, states + tile * reals);
  });
  EndCall(&call);

  // gram[k][i][j] = <i| O_k |j> for i <= j, strip by strip, so that a strip of all states is near.
  const int32_t lanes = kernels_.lanes;
  const int64_t unit = std::min<int64_t>(int64_t{1} << kMaxTransformBits, call.layout.groups);
  const int64_t units = call.layout.groups / unit, width = 2 * program.readouts * count * count;
  std::vector<double> sums(std::min(units, kMaxRanges) * width);
  ForEachRange(batch.parallel, units, width * unit, [&](int64_t range, int64_t from, int64_t to) {
    std::unique_ptr<Buffer> image = AcquireBuffer(call.layout.tile_reals / units);
    for (int64_t strip = from * unit; strip < to * unit; strip += unit)
      for (int64_t k = 0; k < program.readouts; ++k)
        for (int64_t j = 0; j < count; ++j) {
          ApplyObservable(call, k, states + j * reals, image->data, strip, unit, false);
          for (int64_t i = 0; i <= j; ++i)
            kernels_.dot(states + i * reals + strip * 2 * lanes, image->data, unit,
                         &sums[range * width + 2 * ((k * count + i) * count + j)]);
        }
    ReleaseBuffer(std::move(image));
  });
  for (size_t at = width; at < sums.size(); ++at) sums[at % width] += sums[at];
  for (int64_t b = 0; b < batch.size; ++b)
    for (int64_t k = 0; k < program.readouts; ++k) {
      double value = program.offsets[k];
      for (int64_t x = subspace.first[b]; x < subspace.first[b + 1]; ++x)
        for (int64_t y = subspace.first[b]; y < subspace.first[b + 1]; ++y) {
          const int64_t i = std::min(subspace.state[x], subspace.state[y]);
          const int64_t j = std::max(subspace.state[x], subspace.state[y]);
          const double* entry = &sums[2 * ((k * count + i) * count + j)];
          const Complex product(entry[0],
                                subspace.state[x] <= subspace.state[y] ? entry[1] : -entry[1]);
          value += (std::conj(subspace.weight[x]) * subspace.weight[y] * product).real();
        }
      values[b * program.readouts + k] = static_cast<T>(value);
    }
}

// out = (or +=) O_k state for groups first to first + count of a tile of one example.
template <class T>
void StateVectorEngine<T>::ApplyObservable(const Call& call, int64_t k, const T* state, T* out,
                                           int64_t first, int64_t count, bool add) {
  const Program& program = *program_;
  const int32_t lanes = kernels_.lanes;
  for (size_t g = 0; g < program.pauli_groups.size(); ++g) {
    const PauliGroup& group = program.pauli_groups[g];
    std::unique_ptr<Buffer> weights =
        AcquireBuffer((call.plan->strings[g].count * lanes + 15) / 16 * 16);
    for (size_t t = 0; t < group.z.size(); ++t) {
      const double weight = program.weights[(group.first + t) * program.readouts + k];
      for (int32_t lane = 0; lane < lanes; ++lane)
        weights->data[t * lanes + lane] =
            static_cast<T>(__builtin_parityll(group.z[t] & lane) ? -weight : weight);
    }
    kernels_.apply_strings(call.plan->strings[g], state, out, first, count, weights->data,
                           add || g > 0);
    ReleaseBuffer(std::move(weights));
  }
  if (program.pauli_groups.empty() && !add) std::memset(out, 0, count * 2 * lanes * sizeof(T));
}

template <class T>
void StateVectorEngine<T>::SubspaceGradient(const Batch& batch, const Subspace& subspace,
                                            const T* upstream, const T* states,
                                            double* shared_gradients) {
  const Program& program = *program_;
  const int64_t count = subspace.states;
  // With psi_b = sum_i c_bi |i>: lambda_i = sum_k O_k sum_j R^k_ij |j>, R^k_ij = sum_b u_bk
  // conj(c_bi) c_bj.
  std::vector<double> weights(2 * program.readouts * count * count);
  for (int64_t b = 0; b < batch.size; ++b)
    for (int64_t k = 0; k < program.readouts; ++k)
      for (int64_t x = subspace.first[b]; x < subspace.first[b + 1]; ++x)
        for (int64_t y = subspace.first[b]; y < subspace.first[b + 1]; ++y) {
          const Complex product = static_cast<double>(upstream[b * program.readouts + k]) *
                                  std::conj(subspace.weight[x]) * subspace.weight[y];
          double* entry =
              &weights[2 * ((k * count + subspace.state[x]) * count + subspace.state[y])];
          entry[0] += product.real();
          entry[1] += product.imag();
        }
  Batch subbatch = batch;
  subbatch.per_example = subspace.per_example.data();
  subbatch.size = count;
  AdjointOverTiles(
      subbatch, SubspaceTileLayout(subspace), false, shared_gradients, nullptr,
      [&](const Call& call, int64_t tile, const Parallel& parallel, const auto& acquire) {
        T* lambda = acquire();
        const int64_t reals = call.layout.tile_reals;
        std::vector<const T*> all;
        for (int64_t j = 0; j < count; ++j) all.push_back(states + j * reals);
        T* psi = acquire();
        const int64_t unit = std::min<int64_t>(int64_t{1} << kMaxTransformBits, call.layout.groups);
        for (int64_t k = 0; k < program.readouts; ++k) {
          const double* row = &weights[2 * (k * count + tile) * count];
          ForEachRange(parallel, call.layout.groups / unit, unit * count * 4,
                       [&](int64_t, int64_t from, int64_t to) {
                         kernels_.combine(all.data(), row, count, psi, from * unit,
                                          (to - from) * unit);
                       });
          ForEachRange(parallel, call.layout.groups / unit, unit * 8,
                       [&](int64_t, int64_t from, int64_t to) {
                         ApplyObservable(call, k, psi, lambda + from * unit * 2 * kernels_.lanes,
                                         from * unit, (to - from) * unit, k > 0);
                       });
        }
        std::memcpy(psi, states + tile * reals, reals * sizeof(T));
        return std::make_pair(psi, lambda);
      });
}

template class StateVectorEngine<float>;
template class StateVectorEngine<double>;

}  // namespace qfleet
