// Observables that are matrices on few qubits: values need reduced density matrices only.
#include <algorithm>
#include <cstring>

#include "state/engine_internal.h"

namespace qfleet {
namespace {

// Tuples whose products are added up in T, before the sums are added in double.
constexpr int64_t kUnitTuples = 256;

}  // namespace

// What the tiles of a call share.
template <class T>
struct StateVectorEngine<T>::ReducedCall {
  ReducedCall(const Call& call_, const ReducedObservables& observables_, int32_t lanes_)
      : call(call_), observables(observables_), lanes(lanes_) {
    view.qubits = static_cast<int32_t>(observables.bits.size());
    std::vector<int32_t> bits;
    for (int64_t bit : observables.bits)
      bits.push_back(static_cast<int32_t>(bit) - call.layout.lane_qubits);
    std::copy(bits.begin(), bits.end(), view.bits);
    size = int64_t{1} << view.qubits;
    for (int64_t row = 0; row < size; ++row) view.rows[row] = ScatterBits(row, bits);
    tuples = call.layout.groups / size;
    density_reals = 2 * size * size * lanes;
  }
  // weights[k][lane] = upstream[sample][k] of the lane's sample; 0 where there is no example.
  void GetWeights(int64_t tile, const T* upstream, int64_t readouts, T* weights) const {
    const int64_t samples = call.layout.samples;
    for (int64_t k = 0; k < readouts; ++k)
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const int64_t sample = lane & (samples - 1);
        weights[k * lanes + lane] =
            sample < call.present(tile) ? upstream[(tile * samples + sample) * readouts + k] : T{0};
      }
  }

  const Call& call;
  const ReducedObservables& observables;
  ReducedView view;
  int64_t lanes, size, tuples, density_reals;
};

template <class T>
void StateVectorEngine<T>::Reduce(const ReducedCall& reduced, const Parallel& parallel,
                                  const T* psi, T* density) {
  std::fill_n(density, reduced.density_reals, T{0});
  if (reduced.tuples <= kUnitTuples) {
    kernels_.reduce(reduced.view, psi, 0, reduced.tuples, density);
    return;
  }
  const int64_t units = reduced.tuples / kUnitTuples, samples = reduced.call.layout.samples;
  const int64_t width = 2 * reduced.size * reduced.size * samples;
  std::vector<double> sums(std::min(units, kMaxRanges) * width);
  const auto add_range = [&](int64_t range, int64_t from, int64_t to) {
    std::unique_ptr<Buffer> unit = AcquireBuffer(reduced.density_reals);
    for (int64_t at = from; at < to; ++at) {
      std::fill_n(unit->data, reduced.density_reals, T{0});
      kernels_.reduce(reduced.view, psi, at * kUnitTuples, (at + 1) * kUnitTuples, unit->data);
      double* sum = &sums[range * width];
      for (int64_t real = 0; real < reduced.density_reals; ++real)
        sum[real / reduced.lanes * samples + (real & (samples - 1))] +=
            static_cast<double>(unit->data[real]);
    }
    ReleaseBuffer(std::move(unit));
  };
  ForEachRange(parallel, units, kUnitTuples * reduced.size * reduced.size, add_range);
  AddRanges(width, &sums);
  for (int64_t i = 0; i < width; ++i)  // the other lanes stay 0
    density[i / samples * reduced.lanes + i % samples] = static_cast<T>(sums[i]);
}

template <class T>
void StateVectorEngine<T>::ReducedValues(const ReducedCall& reduced, int64_t tile, const T* density,
                                         T* values) {
  const Program& program = *program_;
  const int64_t samples = reduced.call.layout.samples, lanes = reduced.lanes;
  std::vector<double> totals(program.readouts * lanes);
  kernels_.readout_values(reduced.view, program.readouts, reduced.observables.matrices.data(),
                          density, totals.data());
  for (int64_t s = 0; s < reduced.call.present(tile); ++s)
    for (int64_t k = 0; k < program.readouts; ++k) {
      double total = program.offsets[k];
      for (int64_t lane = s; lane < lanes; lane += samples) total += totals[k * lanes + lane];
      values[(tile * samples + s) * program.readouts + k] = static_cast<T>(total);
    }
}

template <class T>
void StateVectorEngine<T>::ApplyReduced(const ReducedCall& reduced, const Parallel& parallel,
                                        const T* psi, const T* weights, T* lambda) {
  const int64_t size = reduced.size;
  std::unique_ptr<Buffer> matrix = AcquireBuffer(reduced.density_reals);
  kernels_.readout_sum(reduced.view, program_->readouts, reduced.observables.matrices.data(),
                       weights, matrix->data);
  ForEachRange(parallel, reduced.tuples, size * size * 2, [&](int64_t, int64_t from, int64_t to) {
    kernels_.apply_reduced(reduced.view, matrix->data, psi, lambda, from, to);
  });
  ReleaseBuffer(std::move(matrix));
}

template <class T>
void StateVectorEngine<T>::ReducedExpectation(const Batch& batch,
                                              const ReducedObservables& observables, T* values,
                                              T* cached, int64_t cached_reals) {
  if (batch.size == 0) return;
  Call call(batch, TileLayoutFor(batch));
  call.plan = &PlanFor(call, Region::kForward);
  const ReducedCall reduced(call, observables, kernels_.lanes);
  BeginCall(&call);
  const int64_t reals = call.layout.tile_reals;
  const int64_t cached_tiles = cached_reals / (reals + reduced.density_reals);
  const int64_t first_cached = call.layout.tiles - cached_tiles;
  ForEachTile(call, [&](int64_t tile, const Parallel& parallel) {
    const int64_t at = tile - first_cached;
    std::unique_ptr<Buffer> own_psi, own_density;
    if (at < 0) {
      own_psi = AcquireBuffer(reals);
      own_density = AcquireBuffer(reduced.density_reals);
    }
    T* psi = own_psi ? own_psi->data : cached + at * reals;
    T* density = own_density ? own_density->data
                             : cached + cached_tiles * reals + at * reduced.density_reals;
    Evolve(call, tile, parallel, psi);
    Reduce(reduced, parallel, psi, density);
    ReducedValues(reduced, tile, density, values);
    if (own_psi) ReleaseBuffer(std::move(own_psi));
    if (own_density) ReleaseBuffer(std::move(own_density));
  });
  EndCall(&call);
}

template <class T>
void StateVectorEngine<T>::ReducedGradient(const Batch& batch,
                                           const ReducedObservables& observables, const T* upstream,
                                           T* cached, int64_t cached_reals, bool cached_is_mutable,
                                           bool want_per_example, T* values,
                                           double* shared_gradients, double* per_example_gradients,
                                           double* matrix_gradients) {
  const TileLayout layout = TileLayoutFor(batch);
  // As the other sums, each range of tiles has its own.
  std::vector<std::vector<double>> sums(SumRanges(layout, batch.threads, batch.max_lane_qubits));
  const auto states_of_tile = [&](const Call& call, int64_t tile, int64_t range,
                                  const Parallel& parallel, const auto& acquire) {
    const ReducedCall reduced(call, observables, kernels_.lanes);
    const int64_t reals = layout.tile_reals;
    const int64_t cached_tiles = cached_reals / (reals + reduced.density_reals);
    const int64_t at = tile - (layout.tiles - cached_tiles);
    T* lambda = acquire();
    T *psi = nullptr, *density = nullptr;
    std::unique_ptr<Buffer> own_density;
    if (at < 0) {
      psi = acquire();
      own_density = AcquireBuffer(reduced.density_reals);
      density = own_density->data;
      Evolve(call, tile, parallel, psi);
      Reduce(reduced, parallel, psi, density);
      if (values) ReducedValues(reduced, tile, density, values);
    } else {
      psi = cached + at * reals;
      density = cached + cached_tiles * reals + at * reduced.density_reals;
      if (!cached_is_mutable) psi = static_cast<T*>(std::memcpy(acquire(), psi, reals * sizeof(T)));
    }
    const int64_t readouts = program_->readouts;
    std::unique_ptr<Buffer> weights = AcquireBuffer(readouts * kernels_.lanes);
    reduced.GetWeights(tile, upstream, readouts, weights->data);
    ApplyReduced(reduced, parallel, psi, weights->data, lambda);
    sums[range].resize(observables.matrices.size());
    kernels_.readout_gradients(reduced.view, readouts, weights->data, density, sums[range].data());
    ReleaseBuffer(std::move(weights));
    if (own_density) ReleaseBuffer(std::move(own_density));
    return AdjointStates{psi, lambda};
  };
  AdjointOverTiles(batch, layout, want_per_example, shared_gradients, per_example_gradients,
                   states_of_tile);
  const int64_t size = int64_t{1} << observables.bits.size();
  std::vector<double> total(observables.matrices.size());
  for (const std::vector<double>& of_range : sums)
    for (size_t i = 0; i < of_range.size(); ++i) total[i] += of_range[i];
  for (size_t k = 0; k < total.size(); k += 2 * size * size)
    for (int64_t row = 0; row < size; ++row) {
      matrix_gradients[k + 2 * row * (size + 1)] += total[k + 2 * row * (size + 1)];
      for (int64_t col = row + 1; col < size; ++col) {
        const size_t upper = k + 2 * (row * size + col), lower = k + 2 * (col * size + row);
        matrix_gradients[upper] += total[upper];
        matrix_gradients[upper + 1] += total[upper + 1];
        matrix_gradients[lower] += total[upper];
        matrix_gradients[lower + 1] -= total[upper + 1];
      }
    }
}

#define QFLEET_INSTANTIATE(T)                                                                     \
  template void StateVectorEngine<T>::ReducedExpectation(const Batch&, const ReducedObservables&, \
                                                         T*, T*, int64_t);                        \
  template void StateVectorEngine<T>::ReducedGradient(const Batch&, const ReducedObservables&,    \
                                                      const T*, T*, int64_t, bool, bool, T*,      \
                                                      double*, double*, double*);
QFLEET_INSTANTIATE(float)
QFLEET_INSTANTIATE(double)

}  // namespace qfleet
