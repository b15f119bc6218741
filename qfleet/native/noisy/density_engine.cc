#include "noisy/density_engine.h"

#include <algorithm>
#include <cmath>

#include "noisy/finite_shots.h"
#include "noisy/pauli_words.h"
#include "state/amplitude_order.h"
#include "state/engine_internal.h"

namespace qfleet {
namespace {

constexpr int64_t kTileBytes = int64_t{1} << 20;  // of the states of one tile in a core's L2
constexpr int64_t kMaxGradientBytes = int64_t{4} << 30;
// Threads share a state from this size on, if there are fewer tiles than kFewTiles.
constexpr int64_t kSharedBytes = int64_t{64} << 10;
constexpr int64_t kFewTiles = 4;

// Columns that a thread works on at a time, at least.
constexpr int64_t kRangeColumns = 64;

// As ForEachRange, for ranges of columns.
int64_t ColumnRanges(int64_t columns) {
  return std::clamp<int64_t>(columns / kRangeColumns, 1, kMaxRanges);
}
template <class RangeWork>
void ForEachColumnRange(const Parallel& parallel, int64_t columns, int64_t cost,
                        const RangeWork& work) {
  const int64_t ranges = ColumnRanges(columns);
  parallel(ranges, cost * (columns / ranges), [&](int64_t range) {
    work(range, range * columns / ranges, (range + 1) * columns / ranges);
  });
}

// The entries of all samples as reals of the kernels: [size * size] [samples].
template <class T>
AlignedArray<T> Pack(const std::vector<BlockProducts>& products, int32_t size, int64_t samples,
                     bool transpose) {
  AlignedArray<T> packed(size * size * samples);
  for (int64_t s = 0; s < samples; ++s) {
    const std::vector<double>& matrix = products[s].products.back();
    for (int32_t i = 0; i < size; ++i)
      for (int32_t j = 0; j < size; ++j)
        packed.data()[(i * size + j) * samples + s] =
            static_cast<T>(transpose ? matrix[j * size + i] : matrix[i * size + j]);
  }
  return packed;
}

}  // namespace

// One call's matrices of shared blocks.
template <class T>
struct DensityEngine<T>::Call {
  Call(const DensityProgram& program, const Batch& batch_, const Layout& layout_)
      : batch(&batch_), layout(layout_), shared{batch_.shared}, matrices(program, shared) {
    for (const DensityBlock& block : program.blocks)
      products.push_back(block.per_example ? std::vector<BlockProducts>()
                                           : ProductsOf(program, block, matrices, shared, 1));
  }
  const Batch* batch;
  Layout layout;
  Exponents shared;
  SharedMatrices matrices;
  std::vector<std::vector<BlockProducts>> products;  // empty for per-example blocks
};

// Some examples of a call, and the matrices of all their blocks.
template <class T>
struct DensityEngine<T>::Tile {
  Tile(const DensityProgram& program, const Call& call_, int64_t number_, const Parallel& parallel_,
       bool reverse)
      : call(&call_), number(number_), parallel(&parallel_), exponents(call_.shared) {
    const int64_t samples = call->layout.samples;
    exponents.per_example = call->batch->per_example + number * samples * program.per_example;
    exponents.present = present();
    for (size_t b = 0; b < program.blocks.size(); ++b) {
      const DensityBlock& block = program.blocks[b];
      if (block.per_example)
        own.push_back(ProductsOf(program, block, call->matrices, exponents, samples));
      else
        own.emplace_back();
      const int64_t count = products(b).size();
      forward.push_back(Pack<T>(products(b), block.size(), count, false));
      if (reverse) backward.push_back(Pack<T>(products(b), block.size(), count, true));
    }
  }
  int64_t present() const {
    return std::min(call->layout.samples, call->batch->size - number * call->layout.samples);
  }
  const std::vector<BlockProducts>& products(size_t b) const {
    return own[b].empty() ? call->products[b] : own[b];
  }

  const Call* call;
  int64_t number;
  const Parallel* parallel;
  Exponents exponents;
  std::vector<std::vector<BlockProducts>> own;
  std::vector<AlignedArray<T>> forward, backward;
};

// What the reverse passes of some tiles add up.
template <class T>
struct DensityEngine<T>::Sums : GradientSums {
  Sums(const DensityProgram& program, bool want_per_example_)
      : GradientSums(program), want_per_example(want_per_example_) {
    for (const DensityBlock& block : program.blocks)
      derivatives.emplace_back(block.per_example ? 0 : block.size() * block.size());
  }
  void Add(const Sums& other) {
    GradientSums::Add(other);
    for (size_t b = 0; b < derivatives.size(); ++b)
      for (size_t i = 0; i < derivatives[b].size(); ++i)
        derivatives[b][i] += other.derivatives[b][i];
  }

  bool want_per_example;
  std::vector<std::vector<double>> derivatives;  // dL/dmatrix of each shared block
};

template <class T>
DensityEngine<T>::DensityEngine(std::shared_ptr<const DensityProgram> program,
                                const Kernels<T>& kernels)
    : program_(std::move(program)), kernels_(kernels) {}

template <class T>
typename DensityEngine<T>::Layout DensityEngine<T>::LayoutFor(const Batch& batch) const {
  const int64_t lanes = kernels_.lanes;
  const int64_t bytes = (lanes << 2 * program_->qubits) * static_cast<int64_t>(sizeof(T));
  Layout layout;
  layout.samples = bytes <= kTileBytes && 2 * batch.size > lanes ? lanes : 1;
  layout.tiles = (batch.size + layout.samples - 1) / layout.samples;
  // Which sums are added first must not depend on the number of threads.
  layout.shared_tile =
      layout.samples == 1 && bytes / lanes > (layout.tiles < kFewTiles ? kSharedBytes : kTileBytes);
  return layout;
}

template <class T>
int64_t DensityEngine<T>::SegmentBlocks(const Batch& batch, const Layout& layout) const {
  const int64_t blocks = program_->blocks.size();
  const int64_t at_once = layout.shared_tile ? 1 : std::min(layout.tiles, batch.threads);
  const int64_t bytes = Reals(layout, program_->qubits) * static_cast<int64_t>(sizeof(T));
  const int64_t most = std::min(batch.memory_limit, kMaxGradientBytes) / at_once;
  if (blocks < 2 || bytes <= most / blocks) return std::max<int64_t>(blocks, 1);
  return static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(blocks))));
}

template <class T>
int64_t DensityEngine<T>::WorkspaceBytes(const Batch& batch) const {
  if (batch.size == 0) return 0;
  const Layout layout = LayoutFor(batch);
  const int64_t segment = SegmentBlocks(batch, layout);
  const int64_t segments = (static_cast<int64_t>(program_->blocks.size()) + segment - 1) / segment;
  const int64_t at_once = layout.shared_tile ? 1 : std::min(layout.tiles, batch.threads);
  int64_t entries = 0;  // of the matrices of items and their products, which are doubles
  for (const DensityBlock& block : program_->blocks)
    entries += 2 * static_cast<int64_t>(block.items.size()) * block.size() * block.size() *
               (block.per_example ? at_once * layout.samples : 1);
  return at_once * (segment + segments + 1) * Reals(layout, program_->qubits) *
             static_cast<int64_t>(sizeof(T)) +
         entries * static_cast<int64_t>(sizeof(double));
}

template <class T>
template <class Job>
void DensityEngine<T>::ForEachTile(const Call& call, const Job& job) const {
  const Parallel& parallel = call.batch->parallel;
  if (call.layout.shared_tile) {
    for (int64_t tile = 0; tile < call.layout.tiles; ++tile) job(0, tile, parallel);
    return;
  }
  const int64_t cost = (Reals(call.layout, program_->qubits) / kernels_.lanes + 1) * 16 *
                       static_cast<int64_t>(program_->blocks.size() + 1);
  ForEachRange(parallel, call.layout.tiles, cost, [&](int64_t range, int64_t first, int64_t end) {
    for (int64_t tile = first; tile < end; ++tile) job(range, tile, RunSerially);
  });
}

template <class T>
DensityView DensityEngine<T>::ViewOf(const DensityBlock& block, const Layout& layout,
                                     int64_t* columns) const {
  DensityView view = {};
  view.size = block.size();
  view.samples = static_cast<int32_t>(layout.samples);
  view.groups = int64_t{1} << 2 * (block.live - block.qubits);
  const int64_t upper = block.digits[0], lower = block.qubits == 2 ? block.digits[1] : upper;
  view.low_bits = static_cast<int32_t>(2 * std::min(upper, lower));
  view.middle_bits = block.qubits == 2 ? static_cast<int32_t>(2 * std::abs(upper - lower) - 2) : 0;
  for (int64_t row = 0; row < view.size; ++row)
    view.rows[row] =
        block.qubits == 2 ? (row >> 2) << 2 * upper | (row & 3) << 2 * lower : row << 2 * upper;
  *columns = layout.samples > 1 ? view.groups : (view.groups + kernels_.lanes - 1) / kernels_.lanes;
  return view;
}

template <class T>
void DensityEngine<T>::Apply(const Tile& tile, int64_t b, bool transpose, const T* from,
                             T* to) const {
  const DensityBlock& block = program_->blocks[b];
  int64_t columns;
  const DensityView view = ViewOf(block, tile.call->layout, &columns);
  const AlignedArray<T>& matrix = (transpose ? tile.backward : tile.forward)[b];
  const bool per_sample = matrix.size() > view.size * view.size;
  const int64_t cost = view.size * view.size / 2;
  ForEachColumnRange(*tile.parallel, columns, cost, [&](int64_t, int64_t first, int64_t end) {
    kernels_.density_apply(view, matrix.data(), per_sample, from, to, first, end);
  });
}

template <class T>
void DensityEngine<T>::AddGradients(const Tile& tile, int64_t b, const T* lambda, const T* before,
                                    Sums* sums, double* per_example_gradients) const {
  const DensityBlock& block = program_->blocks[b];
  int64_t columns;
  const DensityView view = ViewOf(block, tile.call->layout, &columns);
  const int64_t entries = view.size * view.size, width = entries * view.samples;
  std::vector<double> found(width * ColumnRanges(columns));
  ForEachColumnRange(
      *tile.parallel, columns, entries, [&](int64_t range, int64_t first, int64_t end) {
        kernels_.density_correlate(view, lambda, before, first, end, &found[range * width]);
      });
  AddRanges(width, &found);
  if (!block.per_example) {
    for (int64_t at = 0; at < width; ++at) sums->derivatives[b][at / view.samples] += found[at];
    return;
  }
  std::vector<std::vector<double>> derivatives(view.samples, std::vector<double>(entries));
  for (int64_t at = 0; at < width; ++at)
    derivatives[at % view.samples][at / view.samples] = found[at];
  const int64_t first_example = tile.number * tile.call->layout.samples;
  DensityBlockGradients(*program_, block, tile.call->matrices, tile.exponents, tile.products(b),
                        sums->want_per_example, &derivatives, &sums->sequences, sums->shared.data(),
                        sums->want_per_example
                            ? per_example_gradients + first_example * program_->per_example
                            : nullptr);
}

template <class T>
void DensityEngine<T>::Initialize(const Tile& tile, T* state) const {
  const int64_t samples = tile.call->layout.samples;
  if (!tile.call->batch->initial_states) {
    // |0><0| is (I + Z) / 2: the words of I and Z have coefficients of 1.
    const int64_t coefficients = int64_t{1} << 2 * program_->qubits;
    for (int64_t i = 0; i < coefficients; ++i) {
      const int64_t low = i & 0x5555555555555555, high = i >> 1 & 0x5555555555555555;
      std::fill_n(state + i * samples, samples, static_cast<T>(low == high));
    }
    return;
  }
  std::fill_n(state, Reals(tile.call->layout, program_->qubits), T{0});
  const int32_t live = LiveAtStart();
  for (int64_t s = 0; s < tile.present(); ++s) {
    const std::function<std::vector<double>(int64_t)> words_of = Words(tile, s, live);
    ForEachRange(*tile.parallel, int64_t{1} << live, (int64_t{1} << program_->qubits) * live,
                 [&](int64_t, int64_t first, int64_t end) {
                   for (int64_t flip = first; flip < end; ++flip) {
                     const std::vector<double> words = words_of(flip);
                     for (int64_t z = 0; z < int64_t{1} << live; ++z)
                       state[WordIndex(flip, z) * samples + s] = static_cast<T>(words[z]);
                   }
                 });
  }
}

template <class T>
std::function<std::vector<double>(int64_t)> DensityEngine<T>::Words(const Tile& tile,
                                                                    int64_t sample,
                                                                    int32_t live) const {
  const Batch& batch = *tile.call->batch;
  if (!batch.initial_matrices)
    return [psi = InitialState(tile, sample), live](int64_t flip) {
      return WordsOfFlip(psi, flip, live);
    };
  const int64_t size = int64_t{1} << program_->qubits;
  const T* matrix = InitialMatrix(tile, sample);
  const BitPermutation permutation(batch.initial_order, program_->qubits);
  return [=](int64_t flip) {
    std::vector<Complex> entries(size);
    for (int64_t x = 0; x < size; ++x) {
      const T* entry = matrix + 2 * (permutation(x) * size + permutation(x ^ flip));
      entries[x] = {static_cast<double>(entry[0]), static_cast<double>(entry[1])};
    }
    return WordsOfEntries(entries, flip, live);
  };
}

template <class T>
const T* DensityEngine<T>::InitialMatrix(const Tile& tile, int64_t sample) const {
  const int64_t example = tile.number * tile.call->layout.samples + sample;
  return static_cast<const T*>(tile.call->batch->initial_states) + example * MatrixReals();
}

template <class T>
std::vector<Complex> DensityEngine<T>::InitialState(const Tile& tile, int64_t sample) const {
  const Batch& batch = *tile.call->batch;
  const int64_t amplitudes = int64_t{1} << program_->qubits;
  const int64_t example = tile.number * tile.call->layout.samples + sample;
  const T* from = static_cast<const T*>(batch.initial_states) + 2 * example * amplitudes;
  const BitPermutation permutation(batch.initial_order, program_->qubits);
  std::vector<Complex> psi(amplitudes);
  for (int64_t x = 0; x < amplitudes; ++x) {
    const int64_t y = permutation(x);
    psi[x] = {static_cast<double>(from[2 * y]), static_cast<double>(from[2 * y + 1])};
  }
  return psi;
}

// With L = sum_P lambda_P tr(P rho), dL/dRe + i dL/dIm by an entry of rho is that of the Hermitian
// sum_P lambda_P P: entry [x ^ flip][x] of its words with a flip.
template <class T>
void DensityEngine<T>::StoreMatrixGradients(const Tile& tile, const T* lambda) const {
  const Batch& batch = *tile.call->batch;
  const int64_t samples = tile.call->layout.samples, size = int64_t{1} << program_->qubits;
  const int32_t live = LiveAtStart();
  const int64_t flips = int64_t{1} << live;
  const BitPermutation permutation(batch.initial_order, program_->qubits);
  for (int64_t s = 0; s < tile.present(); ++s) {
    T* to = static_cast<T*>(batch.initial_gradients) + (tile.number * samples + s) * MatrixReals();
    std::fill_n(to, MatrixReals(), T{0});
    ForEachRange(*tile.parallel, flips, size * live, [&](int64_t, int64_t first, int64_t end) {
      std::vector<double> weights(flips);
      for (int64_t flip = first; flip < end; ++flip) {
        for (int64_t z = 0; z < flips; ++z) weights[z] = lambda[WordIndex(flip, z) * samples + s];
        const std::vector<Complex> entries = EntriesOfWords(flip, live, weights);
        for (int64_t x = 0; x < size; ++x) {
          T* entry = to + 2 * (permutation(x ^ flip) * size + permutation(x));
          entry[0] = static_cast<T>(entries[x & (flips - 1)].real());
          entry[1] = static_cast<T>(entries[x & (flips - 1)].imag());
        }
      }
    });
  }
}

// With L = sum_P lambda_P <psi|P|psi>, dL/dRe + i dL/dIm = 2 sum_P lambda_P P psi.
template <class T>
void DensityEngine<T>::StoreStateGradients(const Tile& tile, const T* lambda) const {
  const Batch& batch = *tile.call->batch;
  const int64_t samples = tile.call->layout.samples, amplitudes = int64_t{1} << program_->qubits;
  const int32_t live = LiveAtStart();
  const BitPermutation permutation(batch.initial_order, program_->qubits);
  for (int64_t s = 0; s < tile.present(); ++s) {
    const std::vector<Complex> psi = InitialState(tile, s);
    const int64_t flips = int64_t{1} << live;
    std::vector<std::vector<Complex>> sums(std::min(flips, kMaxRanges),
                                           std::vector<Complex>(amplitudes));
    ForEachRange(*tile.parallel, flips, amplitudes * live,
                 [&](int64_t range, int64_t first, int64_t end) {
                   std::vector<double> weights(flips);
                   for (int64_t flip = first; flip < end; ++flip) {
                     for (int64_t z = 0; z < flips; ++z)
                       weights[z] = lambda[WordIndex(flip, z) * samples + s];
                     AddWords(psi, flip, live, weights, &sums[range]);
                   }
                 });
    T* to = static_cast<T*>(batch.initial_gradients) + 2 * (tile.number * samples + s) * amplitudes;
    for (int64_t x = 0; x < amplitudes; ++x) {
      Complex sum = 0;
      for (const std::vector<Complex>& one : sums) sum += one[x];
      const int64_t y = permutation(x);
      to[2 * y] = static_cast<T>(2 * sum.real());
      to[2 * y + 1] = static_cast<T>(2 * sum.imag());
    }
  }
}

template <class T>
void DensityEngine<T>::Expectation(const Batch& batch, T* values) const {
  if (batch.size == 0) return;
  const DensityProgram& program = *program_;
  const Call call(program, batch, LayoutFor(batch));
  const int64_t samples = call.layout.samples;
  ForEachTile(call, [&](int64_t, int64_t number, const Parallel& parallel) {
    const Tile tile(program, call, number, parallel, false);
    AlignedArray<T> state(Reals(call.layout, program.qubits));
    Initialize(tile, state.data());
    for (size_t b = 0; b < program.blocks.size(); ++b)
      Apply(tile, b, false, state.data(), state.data());
    for (int64_t s = 0; s < tile.present(); ++s) {
      Exponents exponents = call.shared;
      exponents.per_example = tile.exponents.per_example + s * program.per_example;
      std::vector<double> means;
      for (int64_t string : program.strings) means.push_back(state.data()[string * samples + s]);
      const std::vector<double> readouts = Readouts(program, exponents, means);
      std::copy(readouts.begin(), readouts.end(),
                values + (number * samples + s) * program.readouts);
    }
  });
}

template <class T>
void DensityEngine<T>::ReverseTile(const Tile& tile, const T* upstream, int64_t segment, Sums* sums,
                                   double* per_example_gradients) const {
  const DensityProgram& program = *program_;
  const Layout& layout = tile.call->layout;
  const int64_t blocks = program.blocks.size(), samples = layout.samples;
  const int64_t most = Reals(layout, program.qubits);
  const auto live_before = [&](int64_t b) { return Reals(layout, program.blocks[b].live); };
  const auto has_gradient = [&](int64_t b) {
    return program.blocks[b].needs_gradient[sums->want_per_example];
  };
  const bool by_states = tile.call->batch->initial_gradients != nullptr;
  const int64_t first_needed = by_states ? 0 : program.first_needed[sums->want_per_example];
  if (first_needed == blocks && !by_states) return;

  // The states before the first block of each segment.
  std::vector<AlignedArray<T>> starts;
  AlignedArray<T> state(most);
  Initialize(tile, state.data());
  for (int64_t b = 0; b < blocks; ++b) {
    if (b % segment == 0) {
      starts.emplace_back(live_before(b));
      std::copy_n(state.data(), live_before(b), starts.back().data());
      if (b + segment >= blocks) break;
    }
    Apply(tile, b, false, state.data(), state.data());
  }

  AlignedArray<T>& lambda = state;  // its state is in `starts` now
  std::fill_n(lambda.data(), most, T{0});
  for (int64_t s = 0; s < tile.present(); ++s) {
    const T* row = upstream + (tile.number * samples + s) * program.readouts;
    const std::vector<double> weights = StringWeights(program, {row, row + program.readouts});
    for (size_t i = 0; i < weights.size(); ++i)
      lambda.data()[program.strings[i] * samples + s] += static_cast<T>(weights[i]);
  }
  std::vector<AlignedArray<T>> before;
  for (int64_t last = blocks; last > first_needed; last = (last - 1) / segment * segment) {
    const int64_t first = (last - 1) / segment * segment;
    before.clear();
    before.push_back(std::move(starts.back()));
    starts.pop_back();
    for (int64_t b = first; b + 1 < last; ++b) {
      // Highest digits that end here have the entries of I in front.
      before.emplace_back(live_before(b));
      Apply(tile, b, false, before[b - first].data(), before.back().data());
    }
    for (int64_t b = last; b-- > std::max(first, first_needed);) {
      if (has_gradient(b))
        AddGradients(tile, b, lambda.data(), before[b - first].data(), sums, per_example_gradients);
      if (b > first_needed || by_states) Apply(tile, b, true, lambda.data(), lambda.data());
    }
  }
  if (!by_states) return;
  if (tile.call->batch->initial_matrices)
    StoreMatrixGradients(tile, lambda.data());
  else
    StoreStateGradients(tile, lambda.data());
}

template <class T>
void DensityEngine<T>::Gradient(const Batch& batch, const T* upstream, double* shared_gradients,
                                double* per_example_gradients) const {
  if (batch.size == 0) return;
  const DensityProgram& program = *program_;
  const Call call(program, batch, LayoutFor(batch));
  const int64_t segment = SegmentBlocks(batch, call.layout);
  const bool want_per_example = per_example_gradients != nullptr;
  // Each range of tiles has its own sums, which are added in order, so that the result does not
  // depend on the timing of threads.
  std::vector<Sums> sums(std::min(call.layout.tiles, kMaxRanges), Sums(program, want_per_example));
  ForEachTile(call, [&](int64_t range, int64_t number, const Parallel& parallel) {
    const Tile tile(program, call, number, parallel, true);
    ReverseTile(tile, upstream, segment, &sums[range], per_example_gradients);
  });
  Sums& total = sums.front();
  for (size_t range = 1; range < sums.size(); ++range) total.Add(sums[range]);
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    const DensityBlock& block = program.blocks[b];
    if (block.per_example || !block.needs_gradient[want_per_example]) continue;
    std::vector<std::vector<double>> derivatives = {std::move(total.derivatives[b])};
    DensityBlockGradients(program, block, call.matrices, call.shared, call.products[b],
                          want_per_example, &derivatives, &total.sequences, total.shared.data(),
                          nullptr);
  }
  for (int64_t e = 0; e < program.shared; ++e) shared_gradients[e] += total.shared[e];
  ParameterGradients(program, call.matrices, total.sequences, false, shared_gradients);
}

template class DensityEngine<float>;
template class DensityEngine<double>;

}  // namespace qfleet
