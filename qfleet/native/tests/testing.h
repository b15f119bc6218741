// Shared by the tests: checks, exactly sized buffers, threads and instruction sets.
#ifndef QFLEET_TESTS_TESTING_H_
#define QFLEET_TESTS_TESTING_H_

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cpu/split_kernels.h"
#include "state/engine.h"

namespace qfleet {

#define QFLEET_DECLARE(set)             \
  namespace set {                       \
  extern const Kernels<float> kFloat;   \
  extern const Kernels<double> kDouble; \
  extern const MatrixKernels kMatrix;   \
  extern const PulseKernels kPulse;     \
  extern const SplitKernels kSplit;     \
  extern const WordKernels kWord;       \
  }
QFLEET_DECLARE(baseline)
QFLEET_DECLARE(avx2)
QFLEET_DECLARE(avx512)
#undef QFLEET_DECLARE

namespace tests {

struct CheckFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Fails the test unless `condition` is true; `context` names the circuit, batch and threads.
#define CHECK(condition, context)                                                                 \
  do {                                                                                            \
    if (!(condition))                                                                             \
      throw ::qfleet::tests::CheckFailed(std::string(__FILE__) + ":" + std::to_string(__LINE__) + \
                                         ": not " #condition ", " + (context));                   \
  } while (false)

// Checks that all numbers are within `tolerance`; NaN is not.
template <class A, class B>
void CheckClose(const A& found, const B& expected, double tolerance, const std::string& context) {
  CHECK(found.size() == expected.size(), context);
  for (size_t i = 0; i < found.size(); ++i) {
    const double error = std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
    CHECK(error <= tolerance, context + ": number " + std::to_string(i) + " is off by " +
                                  std::to_string(error / tolerance) + " tolerances");
  }
}

// [size] numbers, aligned as TensorFlow's, in an allocation of exactly this size, so that the
// sanitizer detects accesses beyond the end.
template <class T>
class ExactBuffer {
 public:
  explicit ExactBuffer(int64_t size, T value = T{}) : size_(size) {
    if (posix_memalign(&memory_, 64, std::max<size_t>(size * sizeof(T), 1))) throw std::bad_alloc();
    std::fill_n(data(), size, value);
  }
  explicit ExactBuffer(const std::vector<double>& values) : ExactBuffer(values.size()) {
    std::copy(values.begin(), values.end(), data());
  }
  ExactBuffer(const ExactBuffer& other) : ExactBuffer(other.size_) {
    std::copy_n(other.data(), size_, data());
  }
  ExactBuffer& operator=(const ExactBuffer&) = delete;
  ~ExactBuffer() { std::free(memory_); }

  T* data() { return static_cast<T*>(memory_); }
  const T* data() const { return static_cast<const T*>(memory_); }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  // Bit-identical; NaN equals NaN.
  bool operator==(const ExactBuffer& other) const {
    return size_ == other.size_ && !std::memcmp(memory_, other.memory_, size_ * sizeof(T));
  }

 private:
  void* memory_ = nullptr;
  size_t size_;
};

// The largest allocation of operator new, in bytes, since the last reset.
void ResetLargestAllocation();
size_t LargestAllocation();

// Runs the work of one call on `threads` threads, in any order.
inline Parallel RunOnThreads(int64_t threads) {
  return [threads](int64_t count, int64_t, const Work& work) {
    std::atomic<int64_t> next{0};
    const auto run = [&] {
      for (int64_t i = next++; i < count; i = next++) work(i);
    };
    std::vector<std::thread> others;
    for (int64_t t = 1; t < std::min(threads, count); ++t) others.emplace_back(run);
    run();
    for (std::thread& other : others) other.join();
  };
}

// The kernels of an instruction set.
struct SetKernels {
  const char* name;
  const Kernels<float>* of_floats;
  const Kernels<double>* of_doubles;
  const MatrixKernels* matrix;
  const PulseKernels* pulse;
  const SplitKernels* split;
  const WordKernels* word;
};

// The instruction sets that this machine supports, narrowest first.
inline std::vector<SetKernels> SupportedSets() {
#define QFLEET_SET(set) \
  {#set, &set::kFloat, &set::kDouble, &set::kMatrix, &set::kPulse, &set::kSplit, &set::kWord}
  std::vector<SetKernels> sets = {QFLEET_SET(baseline)};
  [[maybe_unused]] const std::string best = InstructionSetName();
#ifdef QFLEET_AVX2
  if (best != "baseline") sets.push_back(QFLEET_SET(avx2));
#endif
#ifdef QFLEET_AVX512
  if (best == "avx512") sets.push_back(QFLEET_SET(avx512));
#endif
#undef QFLEET_SET
  return sets;
}

template <class T>
struct InstructionSet {
  const char* name;
  const Kernels<T>* kernels;
};

// As SupportedSets, for one type of reals.
template <class T>
std::vector<InstructionSet<T>> InstructionSets() {
  std::vector<InstructionSet<T>> instruction_sets;
  for (const SetKernels& set : SupportedSets()) {
    if constexpr (sizeof(T) == sizeof(float))
      instruction_sets.push_back({set.name, set.of_floats});
    else
      instruction_sets.push_back({set.name, set.of_doubles});
  }
  return instruction_sets;
}

}  // namespace tests
}  // namespace qfleet

#endif  // QFLEET_TESTS_TESTING_H_
