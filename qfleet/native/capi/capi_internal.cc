#include "capi/capi_internal.h"

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <vector>

#include "capi/evaluation.h"
#include "cpu/thread_pool.h"

namespace qfleet {
namespace {

constexpr int64_t kMaxBatchSize = int64_t{1} << 40;

thread_local char last_error[512] = "";

// Passes exceptions of one parallel loop to the caller's thread, since no executor expects any.
struct GuardedLoop {
  const Work* work;
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::exception_ptr error;

  static void RunIndex(void* argument, int64_t index) noexcept {
    GuardedLoop& loop = *static_cast<GuardedLoop*>(argument);
    if (loop.failed.load(std::memory_order_relaxed)) return;
    try {
      (*loop.work)(index);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(loop.mutex);
      if (!loop.error) loop.error = std::current_exception();
      loop.failed = true;
    }
  }
};

void RequireFinite(const char* name, const double* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(values[i]))
      throw std::invalid_argument(std::string(name) + " must be finite, but number " +
                                  std::to_string(i) + " is " + std::to_string(values[i]));
}

constexpr double kMaxNormError = 1e-4;  // of an initial state, which may be in single precision

// Four sums, which the compiler computes side by side.
template <class T>
double NormOf(const T* state, int64_t reals) {
  double sums[4] = {};
  for (int64_t i = 0; i < reals; i += 4)
    for (int64_t j = 0; j < 4 && i + j < reals; ++j)
      sums[j] += static_cast<double>(state[i + j]) * static_cast<double>(state[i + j]);
  return std::sqrt(sums[0] + sums[1] + sums[2] + sums[3]);
}

// Checks that density matrices are Hermitian and have a trace of 1; a NaN fails, too.
template <class T>
void CheckMatrix(const T* matrix, int64_t number, int64_t size) {
  double trace = 0, error = 0;
  for (int64_t x = 0; x < size; ++x) {
    trace += static_cast<double>(matrix[2 * (x * size + x)]);
    for (int64_t y = 0; y <= x; ++y) {
      const T *one = matrix + 2 * (x * size + y), *other = matrix + 2 * (y * size + x);
      const double difference = std::abs(static_cast<double>(one[0] - other[0])) +
                                std::abs(static_cast<double>(one[1] + other[1]));
      if (!(difference <= error)) error = difference;
    }
  }
  if (!(error < kMaxNormError))
    throw std::invalid_argument("batch.initial_states: matrix " + std::to_string(number) +
                                " differs from its adjoint by " + std::to_string(error));
  if (!(std::abs(trace - 1) < kMaxNormError))
    throw std::invalid_argument("batch.initial_states: matrix " + std::to_string(number) +
                                " has the trace " + std::to_string(trace) +
                                ", which must be 1, to 0.0001");
}

template <class T>
void SetInitialStates(const ProgramSizes& program, const qfleet_batch& batch, Batch* made) {
  if (!program.takes_states) {
    if (batch.initial_states || batch.initial_state_count || batch.initial_gradients ||
        batch.initial_gradient_count)
      throw std::invalid_argument(
          "batch.initial_states must be null: the program has an initial state of its own");
    return;
  }
  int64_t reals = StateReals(program, batch.size);
  // A density matrix has 2**N times the reals of a state vector.
  made->initial_matrices = program.takes_matrices && batch.initial_state_count > reals;
  if (made->initial_matrices) reals = Product(reals, int64_t{1} << program.qubits);
  const T* states =
      Checked<T>("batch.initial_states", batch.initial_states, batch.initial_state_count, reals);
  CheckOptional("batch.initial_gradients", batch.initial_gradients, batch.initial_gradient_count,
                reals, sizeof(T));
  made->initial_states = states;
  made->initial_gradients = batch.initial_gradients;
  made->initial_order =
      CheckedOrder("batch.initial_order", program, batch.initial_order, batch.initial_order_count);
  made->allow_subspace = false;
  if (!batch.check_finite) return;
  const int64_t width = int64_t{2} << program.qubits;
  if (made->initial_matrices) {
    const int64_t size = width / 2, cost = size * width;
    made->parallel(batch.size, cost, [&](int64_t b) { CheckMatrix(states + b * cost, b, size); });
    return;
  }
  made->parallel(batch.size, width, [&](int64_t b) {
    const double norm = NormOf(states + b * width, width);
    if (!(std::abs(norm - 1) < kMaxNormError))
      throw std::invalid_argument("batch.initial_states: state " + std::to_string(b) +
                                  " has the norm " + std::to_string(norm) +
                                  ", which must be 1, to 0.0001");
  });
}

}  // namespace

OutOfMemory::OutOfMemory(int32_t qubits) noexcept {
  std::snprintf(sentence_, sizeof(sentence_), "there is not enough memory for states of %d qubits",
                qubits);
}

qfleet_status Fail(qfleet_status status, const char* function, const char* message) noexcept {
  std::snprintf(last_error, sizeof(last_error), "%s: %s", function, message);
  return status;
}

int64_t Product(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product))
    throw std::invalid_argument("an array has more than 2**63 elements");
  return product;
}

void CheckBuffer(const char* name, const void* data, int64_t count, int64_t expected,
                 int64_t type_bytes) {
  if (count < 0 || count != expected)
    throw std::invalid_argument(std::string(name) + " must have " + std::to_string(expected) +
                                " elements, not " + std::to_string(count));
  if (count && !data) throw std::invalid_argument(std::string(name) + " must not be null");
  if (count && reinterpret_cast<uintptr_t>(data) % type_bytes)
    throw std::invalid_argument(std::string(name) + " must be aligned to " +
                                std::to_string(type_bytes) + " bytes");
}

void CheckOptional(const char* name, const void* data, int64_t count, int64_t expected,
                   int64_t type_bytes) {
  CheckBuffer(name, data, count, data ? expected : 0, type_bytes);
}

const int64_t* CheckedOrder(const char* name, const ProgramSizes& program, const int64_t* order,
                            int64_t count) {
  CheckBuffer(name, order, count, program.qubits, sizeof(int64_t));
  std::vector<bool> seen(program.qubits);
  for (int64_t i = 0; i < count; ++i) {
    if (order[i] < 0 || order[i] >= program.qubits || seen[order[i]])
      throw std::invalid_argument(std::string(name) + " must be a permutation of 0 to " +
                                  std::to_string(program.qubits - 1));
    seen[order[i]] = true;
  }
  return order;
}

int64_t StateReals(const ProgramSizes& program, int64_t size) {
  return Product(size, int64_t{2} << program.qubits);
}

Parallel ParallelOver(const qfleet_executor* executor) {
  return [executor](int64_t count, int64_t cost, const Work& work) {
    GuardedLoop loop;
    loop.work = &work;
    if (executor)
      executor->run(executor->context, count, cost, GuardedLoop::RunIndex, &loop);
    else
      ThreadPool::Get().Run(count, cost, GuardedLoop::RunIndex, &loop);
    if (loop.error) std::rethrow_exception(loop.error);
  };
}

template <class T>
Batch MakeBatch(const ProgramSizes& program, const qfleet_batch* batch) {
  if (!batch) throw std::invalid_argument("batch must not be null");
  if (batch->size < 0 || batch->size > kMaxBatchSize)
    throw std::invalid_argument("batch.size must be a number of examples, not " +
                                std::to_string(batch->size));
  if (batch->memory_limit < 0)
    throw std::invalid_argument("batch.memory_limit must be a number of bytes, not " +
                                std::to_string(batch->memory_limit));
  Batch made = {};
  made.shared = Checked<double>("batch.shared", batch->shared, batch->shared_count, program.shared);
  made.per_example =
      Checked<double>("batch.per_example", batch->per_example, batch->per_example_count,
                      Product(batch->size, program.per_example));
  if (batch->check_finite) {
    RequireFinite("batch.shared", made.shared, batch->shared_count);
    RequireFinite("batch.per_example", made.per_example, batch->per_example_count);
  }
  made.size = batch->size;
  made.memory_limit = batch->memory_limit;
  made.allow_subspace = batch->allow_subspace != 0;
  made.zeros_are_absent = batch->zeros_are_absent != 0;
  if (batch->fixed_layout) made.max_lane_qubits = Log2(kMaxLanes);
  const qfleet_executor* executor = batch->executor;
  if (executor && (!executor->run || executor->threads < 1 || executor->threads > kMaxBatchThreads))
    throw std::invalid_argument("batch.executor must have a function and 1 to " +
                                std::to_string(kMaxBatchThreads) + " threads");
  made.threads = executor ? executor->threads : ThreadPool::Get().ThreadCount();
  made.parallel = ParallelOver(executor);
  SetInitialStates<T>(program, *batch, &made);
  return made;
}

template Batch MakeBatch<float>(const ProgramSizes& program, const qfleet_batch* batch);
template Batch MakeBatch<double>(const ProgramSizes& program, const qfleet_batch* batch);

void RequireMemory(int64_t bytes, int32_t qubits) {
  static const int64_t physical =
      static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  if (physical > 0 && bytes > physical) throw OutOfMemory(qubits);
}

}  // namespace qfleet

const char* qfleet_last_error() { return qfleet::last_error; }
