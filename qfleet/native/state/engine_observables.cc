// Expectation values of Pauli sums, and Pauli sums applied to states.
#include <algorithm>
#include <cstring>

#include "state/engine_internal.h"

namespace qfleet {

template <class T>
void StateVectorEngine<T>::Measure(const Call& call, int64_t tile, const Parallel& parallel,
                                   const T* psi, const T* dpsi, T* values) {
  const Program& program = *program_;
  const int32_t lanes = kernels_.lanes, samples = call.layout.samples;
  const int64_t unit = std::min<int64_t>(int64_t{1} << kMaxTransformBits, call.layout.groups);
  const int64_t units = call.layout.groups / unit, present = call.present(tile);
  std::vector<double> totals(present * program.readouts);
  for (int64_t b = 0; b < present && !dpsi; ++b)
    std::copy(program.offsets.begin(), program.offsets.end(),
              totals.begin() + b * program.readouts);
  for (size_t g = 0; g < program.pauli_groups.size(); ++g) {
    const PauliStrings& strings = call.plan->strings[g];
    const PauliGroup& group = program.pauli_groups[g];
    const int64_t width = strings.count * lanes;
    std::vector<double> sums(std::min(units, kMaxRanges) * width);
    ForEachRange(parallel, units, unit * 8, [&](int64_t range, int64_t from, int64_t to) {
      kernels_.measure(strings, psi, dpsi ? dpsi : psi, from * unit, (to - from) * unit,
                       &sums[range * width]);
    });
    AddRanges(width, &sums);
    for (int32_t t = 0; t < strings.count; ++t)
      for (int64_t k = 0; k < program.readouts; ++k) {
        double weight = program.weights[(group.first + t) * program.readouts + k];
        if (weight == 0) continue;
        if (dpsi) weight *= 2;  // d <psi|P|psi> = 2 Re <psi|P|dpsi>
        for (int32_t lane = 0; lane < lanes; ++lane) {
          const int64_t sample = lane & (samples - 1);
          if (sample >= present) continue;
          const bool minus = __builtin_parityll(group.z[t] & (lane / samples));
          totals[sample * program.readouts + k] +=
              (minus ? -weight : weight) * sums[t * lanes + lane];
        }
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
    for (int32_t t = 0; t < strings.count; ++t) {
      double weight[kMaxLanes] = {};
      for (int64_t k = 0; k < program.readouts; ++k) {
        const double of_readout = program.weights[(group.first + t) * program.readouts + k];
        if (of_readout == 0) continue;
        for (int64_t s = 0; s < present; ++s)
          weight[s] += of_readout *
                       static_cast<double>(upstream[(tile * samples + s) * program.readouts + k]);
      }
      for (int32_t lane = 0; lane < lanes; ++lane) {
        const double of_lane = weight[lane & (samples - 1)];
        const bool minus = __builtin_parityll(group.z[t] & (lane / samples));
        weights->data[t * lanes + lane] = static_cast<T>(minus ? -of_lane : of_lane);
      }
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

#define QFLEET_INSTANTIATE(T)                                                                      \
  template void StateVectorEngine<T>::Measure(const Call&, int64_t, const Parallel&, const T*,     \
                                              const T*, T*);                                       \
  template void StateVectorEngine<T>::ApplyObservables(const Call&, int64_t, const Parallel&,      \
                                                       const T*, const T*, T*);                    \
  template void StateVectorEngine<T>::ApplyObservable(const Call&, int64_t, const T*, T*, int64_t, \
                                                      int64_t, bool);
QFLEET_INSTANTIATE(float)
QFLEET_INSTANTIATE(double)

}  // namespace qfleet
