// Distributed states: the stages of a shard, the amplitudes that workers exchange between stages,
// and observables that need another worker's amplitudes.
#include "state/stages.h"

#include <cstring>

#include "state/engine_internal.h"

namespace qfleet {

template <class T>
void StateVectorEngine<T>::ScatterSeed(const Call& call, int64_t tile, T* psi) {
  const Batch& batch = *call.batch;
  const int32_t lanes = kernels_.lanes, samples = call.layout.samples;
  const int64_t amplitudes = lanes / samples;
  const std::vector<int32_t> bits(batch.seed_bits->begin(), batch.seed_bits->end());
  const int64_t width = int64_t{1} << bits.size();
  std::memset(psi, 0, call.layout.tile_reals * sizeof(T));
  for (int64_t v = 0; v < width; ++v) {
    const int64_t x = ScatterBits(v, bits);
    T* to = psi + 2 * lanes * (x / amplitudes) + x % amplitudes * samples;
    for (int64_t s = 0; s < call.present(tile); ++s) {
      const double* from = batch.seeds + 2 * ((tile * samples + s) * width + v);
      to[s] = static_cast<T>(from[0]);
      to[s + lanes] = static_cast<T>(from[1]);
    }
  }
}

// dL = 2 Re <lambda|d psi>, so the gradient of a seed is 2 lambda at its amplitudes.
template <class T>
void StateVectorEngine<T>::GatherSeedGradient(const Call& call, int64_t tile, const T* lambda) {
  const Batch& batch = *call.batch;
  const int32_t lanes = kernels_.lanes, samples = call.layout.samples;
  const int64_t amplitudes = lanes / samples;
  const std::vector<int32_t> bits(batch.seed_bits->begin(), batch.seed_bits->end());
  const int64_t width = int64_t{1} << bits.size();
  for (int64_t v = 0; v < width; ++v) {
    const int64_t x = ScatterBits(v, bits);
    const T* from = lambda + 2 * lanes * (x / amplitudes) + x % amplitudes * samples;
    for (int64_t s = 0; s < call.present(tile); ++s) {
      double* to = batch.seed_gradients + 2 * ((tile * samples + s) * width + v);
      to[0] = 2 * static_cast<double>(from[s]);
      to[1] = 2 * static_cast<double>(from[s + lanes]);
    }
  }
}

template <class T>
void StateVectorEngine<T>::StageForward(const Batch& batch, T* states) {
  if (batch.size == 0) return;
  Call call(batch, TileLayoutFor(batch));
  call.plan = &PlanFor(call, Region::kAll);
  BeginCall(&call);
  ForEachTile(call, [&](int64_t tile, const Parallel& parallel) {
    T* psi = states + tile * call.layout.tile_reals;
    if (batch.seeds) ScatterSeed(call, tile, psi);
    Forward(call, tile, parallel, psi);
  });
  EndCall(&call);
}

template <class T>
void StateVectorEngine<T>::StageExpectation(const Batch& batch, const T* states, T* values) {
  if (batch.size == 0) return;
  Call call(batch, TileLayoutFor(batch));
  call.plan = &PlanFor(call, Region::kAll);
  ForEachTile(call, [&](int64_t tile, const Parallel& parallel) {
    Measure(call, tile, parallel, states + tile * call.layout.tile_reals, nullptr, values);
  });
}

template <class T>
void StateVectorEngine<T>::StageApplyObservables(const Batch& batch, const T* states,
                                                 const T* upstream, T* lambdas) {
  if (batch.size == 0) return;
  Call call(batch, TileLayoutFor(batch));
  call.plan = &PlanFor(call, Region::kAll);
  ForEachTile(call, [&](int64_t tile, const Parallel& parallel) {
    const int64_t at = tile * call.layout.tile_reals;
    ApplyObservables(call, tile, parallel, states + at, upstream, lambdas + at);
  });
}

template <class T>
void StateVectorEngine<T>::StageAdjoint(const Batch& batch, T* states, T* lambdas,
                                        bool want_per_example, double* shared_gradients,
                                        double* per_example_gradients) {
  const TileLayout layout = TileLayoutFor(batch);
  Batch stage = batch;
  stage.is_stage = true;
  AdjointOverTiles(stage, layout, want_per_example, shared_gradients, per_example_gradients,
                   [&](const Call&, int64_t tile, int64_t, const Parallel&, const auto&) {
                     const int64_t at = tile * layout.tile_reals;
                     return AdjointStates{states + at, lambdas + at};
                   });
}

namespace {

// Pauli strings that flip rank bits. The own groups and the peer's groups are concatenated, so that
// a flip of the rank bits becomes a flip of the bit just above the `count` local groups. `signs`
// holds the sign from the Z bits above them, which are fixed by the own groups' position `base`.
struct CrossShardStrings {
  CrossShardStrings(const PauliStrings& source, int64_t base, int64_t count) : strings(source) {
    strings.flip = (source.flip & (count - 1)) | count;
    for (int32_t t = 0; t < source.count; ++t) {
      z.push_back(source.z[t] & (count - 1));
      signs.push_back(__builtin_parityll(source.z[t] & base) ? -1 : 1);
    }
    strings.z = z.data();
  }
  PauliStrings strings;
  std::vector<int64_t> z;
  std::vector<int> signs;
};

}  // namespace

template <class T>
void StateVectorEngine<T>::CrossShardExpectation(const Batch& batch, const T* states,
                                                 const T* peer_groups, int64_t first, int64_t count,
                                                 T* values) {
  const Program& program = *program_;
  Call call(batch, TileLayoutFor(batch));
  const TileLayout& layout = call.layout;
  call.plan = &PlanFor(call, Region::kAll);
  const int32_t lanes = kernels_.lanes, samples = layout.samples;
  const int64_t tile = first / layout.groups, reals = 2 * lanes * count;
  std::unique_ptr<Buffer> paired = AcquireBuffer(2 * reals);
  std::memcpy(paired->data + reals, peer_groups, reals * sizeof(T));
  for (size_t g = 0; g < program.pauli_groups.size(); ++g) {
    const PauliGroup& group = program.pauli_groups[g];
    // The own groups that the strings map to the peer's groups.
    const int64_t base = (first % layout.groups) ^ (call.plan->strings[g].flip & ~(count - 1));
    CrossShardStrings cross(call.plan->strings[g], base, count);
    std::memcpy(paired->data, states + tile * layout.tile_reals + 2 * lanes * base,
                reals * sizeof(T));
    std::vector<double> sums(cross.strings.count * lanes);
    kernels_.measure(cross.strings, paired->data, paired->data, 0, count, sums.data());
    for (int32_t t = 0; t < cross.strings.count; ++t)
      for (int32_t lane = 0; lane < lanes; ++lane) {
        const int64_t sample = lane & (samples - 1);
        if (sample >= call.present(tile)) continue;
        double sum = cross.signs[t] * sums[t * lanes + lane];
        if (__builtin_parityll(group.z[t] & (lane / samples))) sum = -sum;
        for (int64_t k = 0; k < program.readouts; ++k)
          values[(tile * samples + sample) * program.readouts + k] +=
              static_cast<T>(sum * program.weights[(group.first + t) * program.readouts + k]);
      }
  }
  ReleaseBuffer(std::move(paired));
}

template <class T>
void StateVectorEngine<T>::CrossShardApplyObservables(const Batch& batch, const T* peer_groups,
                                                      int64_t first, int64_t count,
                                                      const T* upstream, T* lambdas) {
  const Program& program = *program_;
  Call call(batch, TileLayoutFor(batch));
  const TileLayout& layout = call.layout;
  call.plan = &PlanFor(call, Region::kAll);
  const int32_t lanes = kernels_.lanes, samples = layout.samples;
  const int64_t tile = first / layout.groups, reals = 2 * lanes * count;
  std::unique_ptr<Buffer> paired = AcquireBuffer(2 * reals);
  std::memset(paired->data, 0, reals * sizeof(T));
  std::memcpy(paired->data + reals, peer_groups, reals * sizeof(T));
  for (size_t g = 0; g < program.pauli_groups.size(); ++g) {
    const PauliGroup& group = program.pauli_groups[g];
    const int64_t base = (first % layout.groups) ^ (call.plan->strings[g].flip & ~(count - 1));
    CrossShardStrings cross(call.plan->strings[g], base, count);
    std::unique_ptr<Buffer> weights = AcquireBuffer((cross.strings.count * lanes + 15) / 16 * 16);
    for (int32_t t = 0; t < cross.strings.count; ++t)
      for (int32_t lane = 0; lane < lanes; ++lane) {
        const int64_t sample = lane & (samples - 1);
        double weight = 0;
        for (int64_t k = 0; sample < call.present(tile) && k < program.readouts; ++k)
          weight += program.weights[(group.first + t) * program.readouts + k] *
                    static_cast<double>(upstream[(tile * samples + sample) * program.readouts + k]);
        if (__builtin_parityll(group.z[t] & (lane / samples))) weight = -weight;
        weights->data[t * lanes + lane] = static_cast<T>(cross.signs[t] * weight);
      }
    kernels_.apply_strings(cross.strings, paired->data,
                           lambdas + tile * layout.tile_reals + 2 * lanes * base, 0, count,
                           weights->data, true);
    ReleaseBuffer(std::move(weights));
  }
  ReleaseBuffer(std::move(paired));
}

template <class T>
void CopyRegion(const QubitRegion& region, T* states, T* packed, int64_t first, int64_t count,
                bool pack) {
  const int64_t contiguous = int64_t{1} << region.sorted_bits.front();
  for (int64_t peer = 0; peer < int64_t{1} << region.sorted_bits.size(); ++peer) {
    int64_t rank_mask = 0;
    for (size_t i = 0; i < region.rank_bits.size(); ++i)
      rank_mask |= (peer >> i & 1) << region.rank_bits[i];
    for (int64_t at = first; at < first + count;) {
      const int64_t length = std::min(contiguous - at % contiguous, first + count - at);
      int64_t group = at;  // with zeros inserted at the swapped bits
      for (int32_t bit : region.sorted_bits)
        group = (group >> bit) << (bit + 1) | (group & ((int64_t{1} << bit) - 1));
      T* state = states + region.group_reals * (group | rank_mask);
      T* block = packed + region.group_reals * (peer * count + at - first);
      std::memcpy(pack ? block : state, pack ? state : block,
                  length * region.group_reals * sizeof(T));
      at += length;
    }
  }
}

#define QFLEET_INSTANTIATE(T)                                                                      \
  template void StateVectorEngine<T>::ScatterSeed(const Call&, int64_t, T*);                       \
  template void StateVectorEngine<T>::GatherSeedGradient(const Call&, int64_t, const T*);          \
  template void StateVectorEngine<T>::StageForward(const Batch&, T*);                              \
  template void StateVectorEngine<T>::StageExpectation(const Batch&, const T*, T*);                \
  template void StateVectorEngine<T>::StageApplyObservables(const Batch&, const T*, const T*, T*); \
  template void StateVectorEngine<T>::StageAdjoint(const Batch&, T*, T*, bool, double*, double*);  \
  template void StateVectorEngine<T>::CrossShardExpectation(const Batch&, const T*, const T*,      \
                                                            int64_t, int64_t, T*);                 \
  template void StateVectorEngine<T>::CrossShardApplyObservables(const Batch&, const T*, int64_t,  \
                                                                 int64_t, const T*, T*);           \
  template void CopyRegion<T>(const QubitRegion&, T*, T*, int64_t, int64_t, bool);
QFLEET_INSTANTIATE(float)
QFLEET_INSTANTIATE(double)

}  // namespace qfleet
