// How a batch is evaluated: in its subspace or example by example, with the last blocks applied to
// the states or to the observables, and with which states kept between the forward pass and its
// gradient. All adapters share these choices.
#ifndef QFLEET_EVALUATION_H_
#define QFLEET_EVALUATION_H_

#include <cstdint>

#include "state/engine.h"
#include "state/subspace.h"

namespace qfleet {

constexpr int64_t kMaxKeptBytes = int64_t{4} << 30;  // of states kept for the gradient
constexpr int64_t kMaxBatchThreads = 1 << 16;

// One batch of a program. A forward pass and its gradient are two objects with the same arguments.
//
// Kept states are in a caller's buffer, at its first address that is aligned for vectors. The last
// numbers of the buffer name the method, the program and the exponents, so that the gradient
// detects states of another call and overwritten ones, and uses the layout of the forward pass if
// the number of threads has changed since.
template <class T>
class Evaluation {
 public:
  // `engine`, `program` and what `batch` points to must outlive this object. batch.threads is at
  // most kMaxBatchThreads.
  Evaluation(StateVectorEngine<T>* engine, const Program& program, const Batch& batch);

  int64_t subspace_states() const { return subspace_.states; }  // 0: example by example
  int64_t KeptReals() const;       // of the buffer for a forward pass that keeps states
  int64_t WorkspaceBytes() const;  // of the engine's own states, approximately

  // values[b][k] = <O_k>. `kept_reals` is KeptReals(), or 0 to keep no states.
  void Expectation(T* values, T* kept, int64_t kept_reals);

  // Writes the gradients, given upstream[b][k] = dL/dvalues. `kept` is the output of Expectation,
  // or empty; it is overwritten if `kept_is_mutable`. Throws std::invalid_argument if it belongs to
  // another batch. Without `per_example_gradients`, these are not computed.
  void Gradient(const T* upstream, T* kept, int64_t kept_reals, bool kept_is_mutable,
                double* shared_gradients, double* per_example_gradients);

  // Both, of each example while its state is in the caches.
  void ValuesAndGradient(const T* upstream, T* values, double* shared_gradients,
                         double* per_example_gradients);

 private:
  int64_t StateReals() const;  // of kept states, without alignment and trailer
  // As Gradient. `states` are those of Expectation; if they are null, `values` receives the values,
  // unless it is null.
  void GradientFrom(const T* upstream, T* states, bool states_are_mutable, T* values,
                    double* shared_gradients, double* per_example_gradients);
  void SubspaceGradient(const T* upstream, const T* states, T* values, double* shared_gradients);

  StateVectorEngine<T>* engine_;
  const Program& program_;
  Batch batch_;
  Subspace subspace_;
  HeisenbergEngine<T>* heisenberg_ = nullptr;  // null: all blocks are applied to the states
};

}  // namespace qfleet

#endif  // QFLEET_EVALUATION_H_
