// The examples of one call, and the threads that it uses.
#ifndef QFLEET_BATCH_H_
#define QFLEET_BATCH_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "cpu/tile_layout.h"

namespace qfleet {

// A reference to a function of an index. It allocates nothing, unlike std::function.
class Work {
 public:
  template <class Function>
  Work(const Function& function)  // NOLINT(google-explicit-constructor)
      : function_(&function), call_([](const void* called, int64_t index) {
          (*static_cast<const Function*>(called))(index);
        }) {}
  void operator()(int64_t index) const { call_(function_, index); }

 private:
  const void* function_;
  void (*call_)(const void* function, int64_t index);
};

// Calls work(0) ... work(count - 1), in any order and on any threads. `cost` is the approximate
// cost of one call in nanoseconds.
using Parallel = std::function<void(int64_t count, int64_t cost, const Work& work)>;

// The examples and threads of one call.
struct Batch {
  const double* shared;       // [E] exponents
  const double* per_example;  // [size][F] exponents
  int64_t size;
  int64_t threads;
  Parallel parallel;
  // For a state shard (engine_stages.cc), whose program has no prefix: the initial amplitudes
  // [size][2**bits] (re, im). Bit i of the index is bit (*seed_bits)[i] of the state's index; all
  // other amplitudes are 0. Without seeds a state starts at |0...0>.
  const double* seeds = nullptr;
  const std::vector<int64_t>* seed_bits = nullptr;
  double* seed_gradients = nullptr;  // output like `seeds`: dL/dRe and dL/dIm
  // For a program that takes states: the initial amplitudes [size][2**N] (re, im), reals of the
  // engine. Bit i of the program's index is bit initial_order[i] of theirs.
  const void* initial_states = nullptr;
  const int64_t* initial_order = nullptr;
  // They are density matrices [size][2**N][2**N], whose row and column are such indices.
  bool initial_matrices = false;
  void* initial_gradients = nullptr;  // output like `initial_states`: dL/dRe and dL/dIm
  int32_t max_lane_qubits = kAnyLaneQubits;
  int64_t memory_limit = 0;     // most bytes of states kept for a later pass
  bool allow_subspace = false;  // examples may share work: no gradients of per-example exponents
  bool is_stage = false;        // the states start at any amplitudes
  // For Hessian-vector products: the direction, like `shared` and `per_example`. Null is 0.
  const double* shared_tangents = nullptr;
  const double* per_example_tangents = nullptr;
  bool zeros_are_absent = false;  // see qfleet.h
};

}  // namespace qfleet

#endif  // QFLEET_BATCH_H_
