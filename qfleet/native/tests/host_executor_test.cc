// The host executor finds the faults of kernels that a GPU may hide.
#include <string>
#include <vector>

#include "cuda/cluster.h"
#include "cuda/memory.h"
#include "testing.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

using namespace device;  // NOLINT: the functions of a kernel

constexpr int32_t kThreads = 64;  // two warps
constexpr int32_t kCluster = 4;   // blocks

// The message of the failure of a launch, or "" if it succeeds.
template <class Kernel, class... Arguments>
std::string FailureOf(Kernel* kernel, Arguments... arguments) {
  try {
    Launch(kernel, dim3(2), kThreads, kThreads * static_cast<int64_t>(sizeof(float)), Stream(),
           arguments...);
  } catch (const std::logic_error& failure) {
    return failure.what();
  }
  return "";
}

// Each thread passes a number to the thread before it, with or without a barrier.
__global__ void Pass(bool with_barrier, float* results) {
  QFLEET_SHARED_MEMORY(memory);
  float* const numbers = reinterpret_cast<float*>(memory);
  numbers[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (with_barrier) __syncthreads();
  results[threadIdx.x] = numbers[(threadIdx.x + 1) % kThreads];
}

__global__ void WriteTo(int32_t index) {
  QFLEET_SHARED_MEMORY(memory);
  if (threadIdx.x == 0) reinterpret_cast<float*>(memory)[index] = 1;
}

// Each block of a cluster reads a number of the block before it, with or without the barriers
// before the read and before the end.
__global__ void ReadNeighbour(bool waits, bool stays, float* results) {
  QFLEET_SHARED_MEMORY(memory);
  float* const numbers = reinterpret_cast<float*>(memory);
  numbers[threadIdx.x] = static_cast<float>(blockIdx.x * kThreads + threadIdx.x);
  if (waits) Cluster().Sync();
  const uint32_t rank = (blockIdx.x + kCluster - 1) % kCluster;
  const float first = Cluster().In(rank, numbers)[threadIdx.x];
  __syncthreads();
  results[blockIdx.x * kThreads + threadIdx.x] =
      first == Cluster().In(rank, numbers)[threadIdx.x] ? first : -1;
  if (stays) Cluster().Sync();
}

__global__ void WaitUnlessFirst() {
  if (threadIdx.x != 0) __syncthreads();
}

#ifdef __SANITIZE_ADDRESS__
// The arrays of a layout may be used, and no byte between them.
void CheckFences() {
  Layout layout;
  const auto first = layout.Add<float>(3);
  const auto last = layout.Add<double>(2);
  DeviceMemory memory;
  for (int call = 0; call < 2; ++call) {
    char* const base = memory.Reserve(layout.bytes());
    CHECK(!__asan_region_is_poisoned(base, layout.bytes()), "memory for another layout");
    float* const numbers = first.in(base);
    double* const sums = last.in(base);
    CHECK(!__asan_region_is_poisoned(numbers, 12) && !__asan_region_is_poisoned(sums, 16),
          "arrays");
    CHECK(numbers[2] != numbers[2] && sums[1] != sums[1], "memory has no number before a write");
    for (char* byte = base + 12; byte < reinterpret_cast<char*>(sums); ++byte)
      CHECK(__asan_address_is_poisoned(byte), "a byte between arrays");
    CHECK(__asan_address_is_poisoned(sums + 2), "the byte after the last array");
    numbers[2] = 1;
  }
}
#endif

// The message of a function's failure, or "" if it succeeds.
template <class Body>
std::string SentenceOf(const Body& body) {
  try {
    body();
  } catch (const DeviceError& failure) {
    return failure.what();
  }
  return "";
}

bool Contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

void DeviceFailures(bool) {
  const auto version = [](int driver, int runtime) {
    return SentenceOf([&] { RequireVersion(driver, runtime); });
  };
  CHECK(Contains(version(0, 13000), "no NVIDIA driver"), "no driver");
  CHECK(Contains(version(12080, 13020), "supports CUDA 12.8, but"), "an old driver");
  CHECK(Contains(version(12080, 13020), "built with CUDA 13.2: update"), "an old driver");
  for (const int driver : {13000, 13020, 14000})
    CHECK(version(driver, 13020).empty(), "driver " + std::to_string(driver));
  const auto number = [](int32_t device, int32_t count) {
    return SentenceOf([&] { RequireNumber(device, count); });
  };
  CHECK(Contains(number(2, 2), "no GPU 2: this machine has 2, numbered from 0"), "a missing GPU");
  CHECK(!number(-1, 2).empty() && number(1, 2).empty(), "the numbers of two GPUs");
  const auto failure = [](Cause cause) { return FailureOf(cause, "a copy", "out of luck"); };
  CHECK(failure(Cause::kMemory).is_memory, "memory of another process");
  for (const Cause cause :
       {Cause::kMemory, Cause::kBusy, Cause::kNoCode, Cause::kLost, Cause::kOther})
    CHECK(failure(cause).is_lost == (cause == Cause::kLost), "a status of its own");
  CHECK(Contains(failure(Cause::kMemory).what(), "end other processes"), "memory");
  CHECK(Contains(failure(Cause::kBusy).what(), "does not share it"), "a GPU that is in use");
  CHECK(Contains(failure(Cause::kNoCode).what(), "--arch native"), "another architecture");
  CHECK(Contains(failure(Cause::kLost).what(), "a copy: out of luck: this process"), "a lost GPU");
  CHECK(failure(Cause::kOther).what() == std::string("a copy: out of luck"), "another failure");
}

void KernelFaults(bool) {
  for (const bool with_barrier : {true, false}) {
    float results[kThreads];
    CHECK(FailureOf(Pass, with_barrier, +results).empty(), "a kernel that waits for itself");
    bool is_right = true;
    for (int32_t i = 0; i < kThreads; ++i) is_right &= results[i] == (i + 1) % kThreads;
    CHECK(is_right == with_barrier, "a barrier that is missing, or not");
  }
  for (const bool waits : {true, false})
    for (const bool stays : {true, false}) {
      std::vector<float> results(kCluster * kThreads);
      const int64_t bytes = kThreads * static_cast<int64_t>(sizeof(float));
      LaunchClusters(ReadNeighbour, dim3(kCluster), kCluster, kThreads, bytes, Stream(), waits,
                     stays, results.data());
      bool is_right = true;
      for (int32_t i = 0; i < kCluster * kThreads; ++i)
        is_right &= results[(i + kThreads) % (kCluster * kThreads)] == static_cast<float>(i);
      CHECK(is_right == (waits && stays), "a barrier of a cluster that is missing, or not");
    }
  CHECK(!FailureOf(WaitUnlessFirst).empty(), "a barrier that a thread does not reach");
  CHECK(FailureOf(WriteTo, kThreads - 1).empty(), "the last number of shared memory");
#ifdef __SANITIZE_ADDRESS__  // which ends the process at a wrong index
  CheckFences();
#else
  for (const int32_t index : {-1, kThreads, kThreads + 1000})
    CHECK(!FailureOf(WriteTo, index).empty(), "number " + std::to_string(index));
#endif
}

}  // namespace tests
}  // namespace qfleet
