// Values and gradients of a program whose last blocks are applied to the observables; see
// heisenberg_cut.h.
#ifndef QFLEET_HEISENBERG_ENGINE_H_
#define QFLEET_HEISENBERG_ENGINE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "program/heisenberg_cut.h"
#include "state/engine.h"

namespace qfleet {

template <class T>
class HeisenbergEngine {
 public:
  // `cut` must exist (head > 0).
  HeisenbergEngine(const Program& program, const HeisenbergCut& cut, const Kernels<T>& kernels);

  // True if the batch has the results of StateVectorEngine here, and none of the cut's qubits is
  // in the lanes.
  bool Supports(const Batch& batch) const;
  bool IsFasterFor(const Batch& batch) const;

  // As the functions of StateVectorEngine.
  int64_t CachedReals(const Batch& batch, int64_t most) const;
  void Expectation(const Batch& batch, T* values, T* cached, int64_t cached_reals);
  void Gradient(const Batch& batch, const T* upstream, T* cached, int64_t cached_reals,
                bool cached_is_mutable, bool want_per_example, T* values, double* shared_gradients,
                double* per_example_gradients);

 private:
  struct Tail;

  Batch TailBatch(const Batch& batch) const;
  // The observables for the batch's exponents. The last ones are kept: a gradient follows its
  // forward pass.
  std::shared_ptr<const Tail> TailFor(const Batch& batch);
  void ComputeTail(const Batch& batch, Tail* tail);

  HeisenbergCut cut_;
  const Kernels<T>& kernels_;
  std::shared_ptr<const Program> head_program_, tail_program_;
  StateVectorEngine<T> head_, tail_;
  std::vector<double> basis_;       // the tail's initial states: all basis states
  std::vector<int64_t> tail_bits_;  // 0, 1, ...
  bool tail_has_exponents_ = false;
  std::mutex mutex_;
  std::shared_ptr<const Tail> last_;
};

}  // namespace qfleet

#endif  // QFLEET_HEISENBERG_ENGINE_H_
