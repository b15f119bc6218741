// The states of some trajectories of one example, and the kernels on them. Included by
// trajectory_engine.cc only.
#ifndef QFLEET_TRAJECTORY_STATES_H_
#define QFLEET_TRAJECTORY_STATES_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "noisy/trajectory_engine.h"
#include "state/amplitude_order.h"

namespace qfleet {

template <class T>
class TrajectoryEngine<T>::States {
 public:
  using State = std::unique_ptr<AlignedArray<T>>;

  explicit States(const TrajectoryEngine& engine)
      : engine_(engine),
        layout_(engine.layout_),
        packed_(2 * 16 * engine.kernels_.lanes),
        packed_inverse_(packed_.size()) {}

  // A state of any content.
  State Acquire() {
    if (pool_.empty()) return std::make_unique<AlignedArray<T>>(layout_.tile_reals);
    State state = std::move(pool_.back());
    pool_.pop_back();
    return state;
  }
  void Release(State state) { pool_.push_back(std::move(state)); }
  State CopyOf(const T* from) {
    State state = Acquire();
    std::copy_n(from, layout_.tile_reals, state->data());
    return state;
  }
  // The state of an example before the first block.
  State Initial(const Batch& batch, int64_t example) {
    State state = Acquire();
    if (!batch.initial_states) {
      engine_.kernels_.initialize(state->data(), 0, layout_.groups, layout_.samples, nullptr);
      return state;
    }
    std::fill_n(state->data(), layout_.tile_reals, T{0});
    const T* from = static_cast<const T*>(batch.initial_states) + example * ExampleReals();
    ForEachOwn(InitialOrder(batch), [&](int64_t real, int64_t amplitude) {
      state->data()[real] = from[2 * amplitude];
      state->data()[real + engine_.kernels_.lanes] = from[2 * amplitude + 1];
    });
    return state;
  }
  // Adds the gradient by that state: dL = 2 Re <lambda|d psi>.
  void AddStateGradient(const Batch& batch, const T* lambda, T* gradient) {
    ForEachOwn(InitialOrder(batch), [&](int64_t real, int64_t amplitude) {
      gradient[2 * amplitude] += 2 * lambda[real];
      gradient[2 * amplitude + 1] += 2 * lambda[real + engine_.kernels_.lanes];
    });
  }
  // Writes a state in the caller's order.
  void Write(const T* psi, const BitPermutation& permutation, T* to) const {
    ForEachOwn(permutation, [&](int64_t real, int64_t amplitude) {
      to[2 * amplitude] = psi[real];
      to[2 * amplitude + 1] = psi[real + engine_.kernels_.lanes];
    });
  }
  int64_t ExampleReals() const { return int64_t{2} << engine_.program_->qubits; }

  // state = matrix, or its adjoint, times state.
  void Apply(size_t b, const SmallMatrix& matrix, bool adjoint, T* state) {
    BlockKernel kernel = engine_.plan_.block_kernels[b];
    kernel.matrix = Pack(kernel, matrix, adjoint, packed_.data());
    engine_.kernels_.forward(WholeState(), &kernel, state, 0, nullptr);
  }

  // Returns psi lambda^dagger [col * D + row] of a block's qubits. Then uncomputes both states by
  // the adjoint of `matrix`, unless it is null.
  SmallMatrix Correlate(size_t b, const SmallMatrix* matrix, T* psi, T* lambda) {
    BlockKernel kernel = engine_.plan_.block_kernels[b];
    kernel.needs_gradient = kernel.per_example = true;  // of the first sample
    kernel.sums = 0;
    kernel.needs_uncompute = matrix != nullptr;
    if (matrix) kernel.inverse = Pack(kernel, *matrix, true, packed_inverse_.data());
    std::vector<double> sums(kBlockSumReals * layout_.samples);
    engine_.kernels_.backward(WholeState(), &kernel, psi, lambda, 0, nullptr, sums.data(),
                              layout_.samples);
    SmallMatrix correlation = {};
    const int32_t size = engine_.program_->blocks[b].size();
    for (int32_t i = 0; i < 2 * size * size; ++i) correlation[i] = sums[i * layout_.samples];
    return correlation;
  }

  // sums[string] += factor <psi|string|psi>.
  void Measure(const T* psi, double factor, double* sums) const {
    const int32_t lanes = engine_.kernels_.lanes;
    const std::vector<PauliGroup>& groups = engine_.program_->states.pauli_groups;
    for (size_t g = 0; g < groups.size(); ++g) {
      const PauliStrings& strings = engine_.plan_.strings[g];
      std::vector<double> found(strings.count * lanes);
      engine_.kernels_.measure(strings, psi, psi, 0, layout_.groups, found.data());
      for (int32_t t = 0; t < strings.count; ++t) {
        double sum = 0;
        for (int32_t lane = 0; lane < lanes; lane += layout_.samples)
          sum += Signed(groups[g].z[t], lane, found[t * lanes + lane]);
        sums[groups[g].first + t] += factor * sum;
      }
    }
  }

  // Draws basis states, numbered by the caller's order. `uniform` returns a number in [0, 1) for
  // the number of a sample.
  template <class Uniform>
  void Sample(const T* psi, const BitPermutation& permutation, const Uniform& uniform,
              std::vector<int64_t>* samples) {
    const int32_t lanes = engine_.kernels_.lanes, step = layout_.samples;
    const auto probability = [&](int64_t group, int32_t lane) {
      const T* real = psi + 2 * lanes * group + lane;
      return static_cast<double>(real[0] * real[0] + real[lanes] * real[lanes]);
    };
    sums_.resize(layout_.groups);  // of all probabilities up to the end of each group
    double sum = 0;
    for (int64_t group = 0; group < layout_.groups; ++group) {
      for (int32_t lane = 0; lane < lanes; lane += step) sum += probability(group, lane);
      sums_[group] = sum;
    }
    const int64_t last = std::lower_bound(sums_.begin(), sums_.end(), sum) - sums_.begin();
    for (size_t i = 0; i < samples->size(); ++i) {
      const double target = sum * uniform(i);
      const int64_t found = std::upper_bound(sums_.begin(), sums_.end(), target) - sums_.begin();
      const int64_t group = std::min(found, last);
      double before = group ? sums_[group - 1] : 0;
      int32_t drawn = 0;
      for (int32_t lane = 0; lane < lanes && before <= target; lane += step) {
        if (probability(group, lane) > 0) drawn = lane;
        before += probability(group, lane);
      }
      (*samples)[i] = permutation((group * lanes + drawn) / step);
    }
  }

  // lambda = factor times the weighted sum of the strings, times psi.
  void ApplyStrings(const T* psi, double factor, const std::vector<double>& string_weights,
                    T* lambda) const {
    const int32_t lanes = engine_.kernels_.lanes;
    const std::vector<PauliGroup>& groups = engine_.program_->states.pauli_groups;
    if (groups.empty()) std::fill_n(lambda, layout_.tile_reals, T{0});
    for (size_t g = 0; g < groups.size(); ++g) {
      const PauliStrings& strings = engine_.plan_.strings[g];
      AlignedArray<T> weights(strings.count * lanes);
      for (int32_t t = 0; t < strings.count; ++t)
        for (int32_t lane = 0; lane < lanes; ++lane)
          weights.data()[t * lanes + lane] = static_cast<T>(
              Signed(groups[g].z[t], lane, factor * string_weights[groups[g].first + t]));
      engine_.kernels_.apply_strings(strings, psi, lambda, 0, layout_.groups, weights.data(),
                                     g > 0);
    }
  }

 private:
  // Calls visit(real part in the state, amplitude in the caller's order).
  template <class Visit>
  void ForEachOwn(const BitPermutation& permutation, const Visit& visit) const {
    ForEachAmplitude(layout_, engine_.kernels_.lanes, 0, 1, permutation, RunSerially, visit);
  }

  BitPermutation InitialOrder(const Batch& batch) const {
    return {batch.initial_order, engine_.program_->qubits};
  }

  // The kernel of a block's only window, the whole state.
  static Window WholeState() {
    Window window = {};
    window.count = 1;
    window.in_place = true;
    return window;
  }

  T* Pack(const BlockKernel& kernel, const SmallMatrix& matrix, bool adjoint, T* to) const {
    engine_.kernels_.pack(kernel, matrix.data(), 1, layout_.samples, adjoint, to);
    return to;
  }

  // The sign of the Z of a string on the qubits of a lane, times a value.
  double Signed(int64_t z, int32_t lane, double value) const {
    return __builtin_parityll(z & (lane / layout_.samples)) ? -value : value;
  }

  const TrajectoryEngine& engine_;
  const TileLayout& layout_;
  AlignedArray<T> packed_, packed_inverse_;
  std::vector<double> sums_;  // of the probabilities of a sampled state
  std::vector<State> pool_;
};

}  // namespace qfleet

#endif  // QFLEET_TRAJECTORY_STATES_H_
