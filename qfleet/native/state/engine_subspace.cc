// Expectation values and gradients in the subspace that a batch spans; see subspace.h.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "state/engine_internal.h"

namespace qfleet {
namespace {

// More angles than this per example span too many states.
constexpr int64_t kMaxActiveExponents = 6;
constexpr double kMultiplyAddsPerNanosecond = 50;  // of one core

// R[k][i][j] (re, im) = sum_b u_bk conj(c_bi) c_bj, for psi_b = sum_i c_bi |i>. Then
// lambda_i = sum_k O_k sum_j R[k][i][j] |j>.
template <class T>
std::vector<double> GradientWeights(const Program& program, const Batch& batch,
                                    const Subspace& subspace, const T* upstream) {
  const int64_t count = subspace.states;
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
  return weights;
}

}  // namespace

// Each basis state is a tile, so that inner products are sums over groups.
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
  // Approximate costs in nanoseconds: evolving an example, an inner product, and per example
  // finding its basis states and adding up their products.
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
std::vector<double> StateVectorEngine<T>::GramMatrices(const Call& call, int64_t count,
                                                       const T* states) {
  const int32_t lanes = kernels_.lanes;
  const int64_t readouts = program_->readouts, reals = call.layout.tile_reals;
  const int64_t unit = std::min<int64_t>(int64_t{1} << kMaxTransformBits, call.layout.groups);
  const int64_t units = call.layout.groups / unit, width = 2 * readouts * count * count;
  std::vector<double> sums(std::min(units, kMaxRanges) * width);
  ForEachRange(
      call.batch->parallel, units, width * unit, [&](int64_t range, int64_t from, int64_t to) {
        std::unique_ptr<Buffer> image = AcquireBuffer(reals / units);
        // Strip by strip, so that a strip of all states stays in the cache.
        for (int64_t strip = from * unit; strip < to * unit; strip += unit)
          for (int64_t k = 0; k < readouts; ++k)
            for (int64_t j = 0; j < count; ++j) {
              ApplyObservable(call, k, states + j * reals, image->data, strip, unit, false);
              for (int64_t i = 0; i <= j; ++i)
                kernels_.dot(states + i * reals + strip * 2 * lanes, image->data, unit,
                             &sums[range * width + 2 * ((k * count + i) * count + j)]);
            }
        ReleaseBuffer(std::move(image));
      });
  AddRanges(width, &sums);
  sums.resize(width);
  return sums;
}

template <class T>
void StateVectorEngine<T>::SubspaceExpectation(const Batch& batch, const Subspace& subspace,
                                               T* values, T* states) {
  const Program& program = *program_;
  Batch subbatch = batch;
  subbatch.per_example = subspace.per_example.data();
  subbatch.size = subspace.states;
  Call call(subbatch, SubspaceTileLayout(subspace));
  call.plan = &PlanFor(call, Region::kForward);
  BeginCall(&call);
  const int64_t reals = call.layout.tile_reals, count = subspace.states;
  ForEachTile(call, [&](int64_t tile, const Parallel& parallel) {
    Evolve(call, tile, parallel, states + tile * reals);
  });
  EndCall(&call);

  const std::vector<double> gram = GramMatrices(call, count, states);
  for (int64_t b = 0; b < batch.size; ++b)
    for (int64_t k = 0; k < program.readouts; ++k) {
      double value = program.offsets[k];
      for (int64_t x = subspace.first[b]; x < subspace.first[b + 1]; ++x)
        for (int64_t y = subspace.first[b]; y < subspace.first[b + 1]; ++y) {
          const int64_t i = std::min(subspace.state[x], subspace.state[y]);
          const int64_t j = std::max(subspace.state[x], subspace.state[y]);
          const double* entry = &gram[2 * ((k * count + i) * count + j)];
          const Complex product(entry[0],
                                subspace.state[x] <= subspace.state[y] ? entry[1] : -entry[1]);
          value += (std::conj(subspace.weight[x]) * subspace.weight[y] * product).real();
        }
      values[b * program.readouts + k] = static_cast<T>(value);
    }
}

template <class T>
void StateVectorEngine<T>::SubspaceGradient(const Batch& batch, const Subspace& subspace,
                                            const T* upstream, const T* states,
                                            double* shared_gradients) {
  const Program& program = *program_;
  const int64_t count = subspace.states;
  const std::vector<double> weights = GradientWeights(program, batch, subspace, upstream);
  Batch subbatch = batch;
  subbatch.per_example = subspace.per_example.data();
  subbatch.size = count;
  AdjointOverTiles(
      subbatch, SubspaceTileLayout(subspace), false, shared_gradients, nullptr,
      [&](const Call& call, int64_t tile, int64_t, const Parallel& parallel, const auto& acquire) {
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
        return AdjointStates{psi, lambda};
      });
}

#define QFLEET_INSTANTIATE(T)                                                                      \
  template TileLayout StateVectorEngine<T>::SubspaceTileLayout(const Subspace&) const;             \
  template std::vector<double> StateVectorEngine<T>::GramMatrices(const Call&, int64_t, const T*); \
  template int64_t StateVectorEngine<T>::SubspaceReals(const Subspace&) const;                     \
  template Subspace StateVectorEngine<T>::SubspaceFor(const Batch&, int64_t) const;                \
  template void StateVectorEngine<T>::SubspaceExpectation(const Batch&, const Subspace&, T*, T*);  \
  template void StateVectorEngine<T>::SubspaceGradient(const Batch&, const Subspace&, const T*,    \
                                                       const T*, double*);
QFLEET_INSTANTIATE(float)
QFLEET_INSTANTIATE(double)

}  // namespace qfleet
