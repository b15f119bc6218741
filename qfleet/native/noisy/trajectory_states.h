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
  static constexpr int64_t kMostChunkBytes = 1 << 14;  // of L1, which has 32 KiB or more
  static constexpr size_t kMaxQueued = 16;
  static constexpr int64_t kRangeGroups = 8;  // whose probabilities are summed before sampling

  explicit States(const TrajectoryEngine& engine)
      : engine_(engine),
        layout_(engine.layout_),
        packed_(kMaxQueued * MatrixReals()),
        packed_inverse_(MatrixReals()) {
    queued_.reserve(kMaxQueued);
    while (chunk_bits_ < Log2(layout_.groups) && 2 * ChunkBytes() <= kMostChunkBytes) ++chunk_bits_;
    for (int32_t bit = chunk_bits_; int64_t{1} << bit < layout_.groups; ++bit)
      outside_.push_back(bit);
  }

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

  // state = matrix, or its adjoint, times state. Nothing may be queued.
  void Apply(size_t b, const SmallMatrix& matrix, bool adjoint, T* state) {
    ApplyNow(Prepared(b, matrix, adjoint, packed_.data()), state);
  }

  // The same, at the latest when the state is flushed: blocks on low bits wait for each other, and
  // are applied together to each chunk of the state in L1.
  void Queue(size_t b, const SmallMatrix& matrix, T* state) {
    const Block& block = engine_.program_->states.blocks[b];
    int64_t bits = 0;
    for (int32_t q = 0; q < block.qubits; ++q) bits |= int64_t{1} << block.bits[q];
    const bool is_high = bits >> (layout_.lane_qubits + chunk_bits_);
    if (is_high ? bits & queued_bits_ : queued_.size() == kMaxQueued) Flush(state);
    // Blocks that wait are applied to what this one makes nonzero, too.
    queued_groups_ = std::max(queued_groups_, engine_.plan_.block_kernels[b].groups);
    if (is_high) {
      ApplyNow(Prepared(b, matrix, false, packed_inverse_.data()), state);
      return;
    }
    queued_.push_back(Prepared(b, matrix, false, packed_.data() + queued_.size() * MatrixReals()));
    queued_bits_ |= bits;
  }

  // Applies what is queued for the state.
  void Flush(T* state) {
    Window window = WholeState();
    window.count = static_cast<int32_t>(queued_.size());
    window.segment_bits = window.chunk_bits = chunk_bits_;
    window.outside = outside_.data();
    window.outside_bits = static_cast<int32_t>(outside_.size());
    for (BlockKernel& kernel : queued_)
      kernel.groups = std::min(queued_groups_, int64_t{1} << chunk_bits_);
    for (int64_t chunk = 0; window.count && chunk << chunk_bits_ < queued_groups_; ++chunk)
      engine_.kernels_.forward(window, queued_.data(), state, chunk, nullptr);
    queued_.clear();
    queued_bits_ = queued_groups_ = 0;
  }

  // Returns psi lambda^dagger [col * D + row] of a block's qubits. Then uncomputes both states by
  // the adjoint of `matrix`, unless it is null.
  SmallMatrix Correlate(size_t b, const SmallMatrix* matrix, T* psi, T* lambda) {
    BlockKernel kernel = engine_.plan_.block_kernels[b];
    kernel.needs_gradient = kernel.per_example = true;  // of the first sample
    kernel.sums = 0;
    kernel.needs_uncompute = matrix != nullptr;
    kernel.is_real = matrix && IsReal(*matrix);
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
    const int64_t ranges = (layout_.groups + kRangeGroups - 1) / kRangeGroups;
    const auto groups_of = [&](int64_t range) {
      return std::min(kRangeGroups, layout_.groups - range * kRangeGroups);
    };
    const int64_t range_reals = 2 * lanes * kRangeGroups;
    const auto probability = [&](const T* from, int64_t group, int32_t lane) {
      const T* re = from + 2 * lanes * group + lane;
      return static_cast<double>(re[0] * re[0] + re[lanes] * re[lanes]);
    };
    sums_.resize(ranges);  // of all probabilities up to the end of each range
    double sum[2] = {};
    for (int64_t range = 0; range < ranges; ++range) {
      const T* from = psi + range * range_reals;
      if (step == 1) engine_.kernels_.dot(from, from, groups_of(range), sum);
      for (int32_t lane = 0; step > 1 && lane < lanes; lane += step)  // a state of one group
        sum[0] += probability(from, 0, lane);
      sums_[range] = sum[0];
    }
    const double total = sums_.back();
    const int64_t last = std::lower_bound(sums_.begin(), sums_.end(), total) - sums_.begin();
    for (size_t i = 0; i < samples->size(); ++i) {
      const double target = total * uniform(i);
      const int64_t found = std::upper_bound(sums_.begin(), sums_.end(), target) - sums_.begin();
      const int64_t range = std::min(found, last);
      const T* from = psi + range * range_reals;
      double before = range ? sums_[range - 1] : 0;
      int64_t drawn = 0;
      for (int64_t group = 0; group < groups_of(range) && before <= target; ++group)
        for (int32_t lane = 0; lane < lanes && before <= target; lane += step) {
          if (probability(from, group, lane) > 0) drawn = group * lanes + lane;
          before += probability(from, group, lane);
        }
      (*samples)[i] = permutation((range * kRangeGroups * lanes + drawn) / step);
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

  size_t MatrixReals() const { return 2 * 16 * engine_.kernels_.lanes; }
  int64_t ChunkBytes() const {
    return static_cast<int64_t>(2 * engine_.kernels_.lanes * sizeof(T)) << chunk_bits_;
  }

  static bool IsReal(const SmallMatrix& matrix) {
    for (size_t i = 1; i < matrix.size(); i += 2)
      if (matrix[i] != 0) return false;
    return true;
  }

  // A block's kernel with its matrix, or the adjoint, which is packed to this place.
  BlockKernel Prepared(size_t b, const SmallMatrix& matrix, bool adjoint, T* to) const {
    BlockKernel kernel = engine_.plan_.block_kernels[b];
    kernel.matrix = Pack(kernel, matrix, adjoint, to);
    kernel.is_real = IsReal(matrix);
    return kernel;
  }

  void ApplyNow(const BlockKernel& kernel, T* state) {
    engine_.kernels_.forward(WholeState(), &kernel, state, 0, nullptr);
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
  AlignedArray<T> packed_;  // matrices of the queue
  AlignedArray<T> packed_inverse_;
  int32_t chunk_bits_ = 0;        // log2 of the groups of a chunk in L1
  std::vector<int32_t> outside_;  // the other bits of a group's number
  std::vector<BlockKernel> queued_;
  int64_t queued_bits_ = 0, queued_groups_ = 0;  // of the blocks, and groups that they change
  std::vector<double> sums_;                     // of the probabilities of a sampled state
  std::vector<State> pool_;
};

}  // namespace qfleet

#endif  // QFLEET_TRAJECTORY_STATES_H_
