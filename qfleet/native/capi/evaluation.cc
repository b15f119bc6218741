#include "capi/evaluation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "cpu/aligned_array.h"
#include "device/device_engine.h"
#include "program/fingerprint.h"
#include "state/heisenberg_engine.h"

namespace qfleet {
namespace {

// The method, two numbers for program and exponents, and the reals before the first state.
constexpr int64_t kTrailerReals = 4;
constexpr int kMarkBits = 23;  // of each of the two numbers, which a float holds exactly

template <class T>
constexpr int64_t kAlignmentReals = kAlignmentBytes / sizeof(T);

template <class T>
int64_t AlignmentOffset(const T* data) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(data);
  return static_cast<int64_t>(-address % kAlignmentBytes / sizeof(T));
}

std::invalid_argument WrongKept() {
  return std::invalid_argument(
      "kept does not hold the states of this program and batch, or residuals were overwritten by an"
      " earlier call: pass those of a new forward pass");
}

// Marks kept states as those of a program and the exponents of a batch.
template <class T>
struct Mark {
  Mark(const Program& program, const Batch& batch) {
    if (batch.is_stage || batch.seeds) return;  // of a part of a sharded state
    uint64_t value = program.fingerprint ^ static_cast<uint64_t>(batch.size);
    value = Fingerprint(batch.shared, program.shared * sizeof(double), value);
    value =
        Fingerprint(batch.per_example, batch.size * program.per_example * sizeof(double), value);
    if (batch.initial_states)
      value =
          Fingerprint(batch.initial_states,
                      (batch.size * static_cast<int64_t>(2 * sizeof(T))) << program.qubits, value);
    constexpr uint64_t mask = (uint64_t{1} << kMarkBits) - 1;
    first = static_cast<T>(value & mask);
    second = static_cast<T>(value >> kMarkBits & mask);
  }

  T first = 0, second = 0;
};

}  // namespace

template <class T>
Evaluation<T>::Evaluation(StateVectorEngine<T>* engine, const Program& program, const Batch& batch)
    : engine_(engine), program_(program), batch_(batch) {
  if (batch_.allow_subspace && !engine_->device())
    subspace_ = engine_->SubspaceFor(batch_, batch_.memory_limit);
  if (!subspace_.states) heisenberg_ = engine_->HeisenbergFor(batch_);
}

template <class T>
int64_t Evaluation<T>::StateReals() const {
  if (subspace_.states) return engine_->SubspaceReals(subspace_);
  if (batch_.size == 0) return 0;
  const int64_t most = std::min(kMaxKeptBytes, batch_.memory_limit);
  if (heisenberg_) return heisenberg_->CachedReals(batch_, most);
  return engine_->CachedReals(engine_->TileLayoutFor(batch_), most);
}

template <class T>
int64_t Evaluation<T>::KeptReals() const {
  const int64_t reals = StateReals();
  return reals ? reals + kAlignmentReals<T> + kTrailerReals : 0;
}

template <class T>
int64_t Evaluation<T>::WorkspaceBytes() const {
  if (batch_.size == 0 || engine_->device()) return 0;
  const TileLayout layout = engine_->TileLayoutFor(batch_);
  const int64_t tiles = subspace_.states ? subspace_.states : layout.tiles;
  // Each thread evolves a tile, unless all work on the same. An adjoint pass has two states, and
  // there may be one more, after the prefix.
  const int64_t at_once = layout.shared_tile ? 1 : std::min(tiles, batch_.threads);
  const int64_t states = 2 * at_once + (program_.prefix ? 1 : 0);
  return states * layout.tile_reals * static_cast<int64_t>(sizeof(T));
}

template <class T>
void Evaluation<T>::Expectation(T* values, T* kept, int64_t kept_reals) {
  if (kept_reals != 0 && kept_reals != KeptReals()) throw WrongKept();
  T* states = nullptr;
  if (kept_reals) {
    states = kept + AlignmentOffset(kept);
    T* trailer = kept + kept_reals - kTrailerReals;
    trailer[0] = static_cast<T>(subspace_.states ? -subspace_.states : batch_.threads);
    const Mark<T> mark(program_, batch_);
    trailer[1] = mark.first;
    trailer[2] = mark.second;
    trailer[3] = static_cast<T>(AlignmentOffset(kept));
  }
  if (program_.readouts == 0) return;  // then no buffer bounds the number of examples
  if (!subspace_.states) {
    const int64_t reals = kept_reals ? StateReals() : 0;
    if (heisenberg_)
      heisenberg_->Expectation(batch_, values, states, reals);
    else
      engine_->Expectation(batch_, values, states, reals);
    return;
  }
  std::unique_ptr<AlignedArray<T>> own;
  if (!states) {
    own = std::make_unique<AlignedArray<T>>(StateReals());
    states = own->data();
  }
  engine_->SubspaceExpectation(batch_, subspace_, values, states);
}

template <class T>
void Evaluation<T>::ValuesAndGradient(const T* upstream, T* values, double* shared_gradients,
                                      double* per_example_gradients) {
  if (engine_->device())
    engine_->device()->ValuesAndGradient(batch_, upstream, values, shared_gradients,
                                         per_example_gradients);
  else
    GradientFrom(upstream, nullptr, false, values, shared_gradients, per_example_gradients);
}

template <class T>
void Evaluation<T>::Gradient(const T* upstream, T* kept, int64_t kept_reals, bool kept_is_mutable,
                             double* shared_gradients, double* per_example_gradients) {
  std::unique_ptr<AlignedArray<T>> copy;
  T* states = nullptr;
  if (kept_reals) {
    if (kept_reals < kAlignmentReals<T> + kTrailerReals) throw WrongKept();
    T* trailer = kept + kept_reals - kTrailerReals;
    const T method = trailer[0], offset = trailer[3];
    const Mark<T> mark(program_, batch_);
    if (trailer[1] != mark.first || trailer[2] != mark.second) throw WrongKept();
    if (!(offset >= 0 && offset < kAlignmentReals<T>)) throw WrongKept();
    if (subspace_.states) {
      if (method != static_cast<T>(-subspace_.states)) throw WrongKept();
    } else {
      if (!(method >= 1 && method <= kMaxBatchThreads)) throw WrongKept();
      batch_.threads = static_cast<int64_t>(method);
      heisenberg_ = engine_->HeisenbergFor(batch_);
    }
    if (kept_reals != KeptReals()) throw WrongKept();
    states = kept + static_cast<int64_t>(offset);
    if (kept_is_mutable) trailer[0] = 0;  // no method: they are not used again
    if (AlignmentOffset(states) != 0) {   // the buffer was copied to another address
      copy = std::make_unique<AlignedArray<T>>(StateReals());
      states = static_cast<T*>(std::memcpy(copy->data(), states, StateReals() * sizeof(T)));
      kept_is_mutable = true;
    }
  }
  GradientFrom(upstream, states, kept_is_mutable, nullptr, shared_gradients, per_example_gradients);
}

template <class T>
void Evaluation<T>::GradientFrom(const T* upstream, T* states, bool states_are_mutable, T* values,
                                 double* shared_gradients, double* per_example_gradients) {
  std::fill_n(shared_gradients, program_.shared, 0.0);
  if (subspace_.states) {
    SubspaceGradient(upstream, states, values, shared_gradients);
    return;
  }
  const bool want_per_example = per_example_gradients != nullptr;
  if (want_per_example) std::fill_n(per_example_gradients, batch_.size * program_.per_example, 0.0);
  const int64_t reals = states ? StateReals() : 0;
  if (heisenberg_)
    heisenberg_->Gradient(batch_, upstream, states, reals, states_are_mutable, want_per_example,
                          values, shared_gradients, per_example_gradients);
  else
    engine_->Gradient(batch_, upstream, states, reals, states_are_mutable, want_per_example, values,
                      shared_gradients, per_example_gradients);
}

template <class T>
void Evaluation<T>::SubspaceGradient(const T* upstream, const T* states, T* values,
                                     double* shared_gradients) {
  std::unique_ptr<AlignedArray<T>> own;
  std::vector<T> unwanted;
  if (!states) {
    own = std::make_unique<AlignedArray<T>>(StateReals());
    if (!values) {
      unwanted.resize(batch_.size * program_.readouts);
      values = unwanted.data();
    }
    engine_->SubspaceExpectation(batch_, subspace_, values, own->data());
    states = own->data();
  }
  engine_->SubspaceGradient(batch_, subspace_, upstream, states, shared_gradients);
}

template class Evaluation<float>;
template class Evaluation<double>;

}  // namespace qfleet
