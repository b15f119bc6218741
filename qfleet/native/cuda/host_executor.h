// Runs CUDA kernels on the processor, for tests: each thread of a cluster of blocks is a fiber.
// Between two barriers the threads run one after the other in a random order, so that a missing
// barrier gives a wrong result. The order depends only on the launch, so that a run can be
// repeated.
#ifndef QFLEET_CUDA_HOST_EXECUTOR_H_
#define QFLEET_CUDA_HOST_EXECUTOR_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "host_fiber.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  unsigned x, y, z;
};

namespace qfleet {
namespace device {

// While it exists, the steps of its thread are kept instead of run.
struct HostRecorder {
  using Steps = std::vector<std::function<void()>>;

  explicit HostRecorder(Steps* steps) { current = steps; }
  ~HostRecorder() { current = nullptr; }

  template <class Step>
  static void RunOrKeep(Step step) {
    if (current)
      current->push_back(step);
    else
      step();
  }

  inline static thread_local Steps* current = nullptr;
};

// Runs the clusters of a launch one after the other on the calling thread.
class HostExecutor {
 public:
  using Body = void (*)(void* call);  // calls the kernel with its arguments

  // Facts that a kernel reads.
  dim3 grid_size, block_index, block_size, thread_index;
  char* shared = nullptr;

  // `cluster` blocks run at once, and read the shared memory of all of them.
  void Run(dim3 grid, int32_t cluster, int32_t thread_count, int64_t shared_bytes, Body body,
           void* call) {
    const int64_t block_count = int64_t{grid.x} * grid.y * grid.z;
    if (block_count < 1 || thread_count < 1 || thread_count > kMaximalThreads || shared_bytes < 0)
      throw std::logic_error("a launch needs blocks of 1 to 1024 threads");
    if (cluster < 1 || cluster > kMaximalCluster || grid.x % cluster)
      throw std::logic_error("a launch needs clusters of 1 to 16 blocks that divide its grid");
    body_ = body;
    call_ = call;
    random_ = kSeed;
    grid_size = grid;
    block_size = dim3(thread_count);
    thread_count_ = thread_count;
    cluster_ = cluster;
    for (int32_t i = static_cast<int32_t>(threads_.size()); i < cluster * thread_count; ++i)
      threads_.push_back(std::make_unique<Thread>(i));
    for (int32_t i = 0; i < cluster * thread_count; ++i) {
      threads_[i]->block = i / thread_count;
      threads_[i]->number = i % thread_count;
    }
    // What is read outside is NaN.
    const int64_t end = kZoneBytes + shared_bytes;
    std::vector<std::unique_ptr<char[]>> memories;
    for (int32_t block = 0; block < cluster; ++block) {
      memories.emplace_back(new char[end + kZoneBytes]);
      std::memset(memories.back().get(), 0xff, end + kZoneBytes);
      shared_of_[block] = memories.back().get() + kZoneBytes;
    }
    shared_bytes_ = shared_bytes;
    std::vector<int64_t> clusters(block_count / cluster);
    std::iota(clusters.begin(), clusters.end(), 0);
    Shuffle(&clusters);
    for (const int64_t first : clusters) RunCluster(first * cluster);
    for (const auto& memory : memories)
      for (const char* zone : {memory.get(), memory.get() + end})
        if (std::any_of(zone, zone + kZoneBytes, [](char byte) { return byte != '\xff'; }))
          Fail("a kernel writes outside of its shared memory");
    for (int32_t i = 0; i < cluster * thread_count; ++i)
      if (threads_[i]->fiber.Overflowed()) Fail("a thread of a block needs too large a stack");
  }

  void WaitForBlock() {
    const int32_t block = thread_->block;
    if (++arrived_[block] == thread_count_) ReleaseBlock(block);
    thread_->fiber.Yield();
  }

  void WaitForCluster() {
    if (++arrived_at_cluster_ == cluster_ * thread_count_) ReleaseCluster();
    thread_->fiber.Yield();
  }

  // The address in another block's shared memory that corresponds to `own` in this block's.
  template <class T>
  T* AddressIn(uint32_t block, T* own) {
    if (static_cast<int32_t>(block) >= cluster_) Fail("a cluster has no such block");
    return reinterpret_cast<T*>(shared_of_[block] + (reinterpret_cast<char*>(own) - shared));
  }

  void WaitForWarp() {
    const int32_t block = thread_->block, warp = thread_->number / kLanes;
    if (++arrived_at_warp_[block][warp] == WarpEnd(warp) - warp * kLanes) ReleaseWarp(block, warp);
    thread_->fiber.Yield();
  }

  // The value of another lane of the warp, or the own value where the warp has no such lane.
  template <class T>
  T Exchange(T value, int32_t other_lane) {
    static_assert(sizeof(T) <= sizeof(uint64_t) && std::is_trivially_copyable<T>::value,
                  "a lane sends at most 8 bytes");
    Thread* const own = thread_;
    // Two slots in turn save a second barrier: a lane is at most one exchange ahead of another.
    const int32_t slot = own->exchanges++ % 2;
    std::memcpy(&own->slots[slot], &value, sizeof(T));
    WaitForWarp();
    const int32_t warp = own->number / kLanes;
    const int32_t other = warp * kLanes + other_lane;
    if (other < WarpEnd(warp))
      std::memcpy(&value, &ThreadOf(own->block, other)->slots[slot], sizeof(T));
    return value;
  }

  int32_t lane() const { return thread_->number % kLanes; }

  // The executor that runs the current kernel, for the functions of CUDA.
  inline static thread_local HostExecutor* current = nullptr;

  static constexpr int32_t kLanes = 32;

 private:
  struct Thread {
    explicit Thread(int32_t at) : fiber(&HostExecutor::RunThread, at) {}
    int32_t block = 0, number = 0;  // of the block in its cluster, and of the thread in its block
    uint32_t exchanges = 0;
    uint64_t slots[2];
    Fiber fiber;
  };
  using Threads = std::vector<Thread*>;

  static constexpr int32_t kMaximalThreads = 1024, kMaximalWarps = kMaximalThreads / kLanes;
  static constexpr int32_t kMaximalCluster = 16;
#ifdef __SANITIZE_ADDRESS__
  static constexpr int64_t kZoneBytes = 0;  // the sanitizer sees each wrong index
#else
  static constexpr int64_t kZoneBytes = 64 << 10;  // around shared memory: as far as a place goes
#endif
  static constexpr uint64_t kSeed = 0x9e3779b97f4a7c15;

  static void RunThread() {
    current->body_(current->call_);
    current->EndThread();
  }

  // The shared memory of a block that has ended must not be read any more.
  void EndThread() {
    const int32_t block = thread_->block;
    if (++ended_[block] == thread_count_) std::memset(shared_of_[block], 0xff, shared_bytes_);
  }

  // Runs a cluster; `first` is the number of its first block in the grid.
  void RunCluster(int64_t first) {
    for (int32_t block = 0; block < cluster_; ++block) {
      std::memset(shared_of_[block], 0xff, shared_bytes_);
      ended_[block] = 0;
    }
    for (int32_t i = 0; i < cluster_ * thread_count_; ++i) threads_[i]->exchanges = 0;
    ReleaseCluster();
    while (!next_.empty() || !delayed_.empty()) {
      round_.clear();
      std::swap(round_, next_.empty() ? delayed_ : next_);
      Shuffle(&round_);
      for (Thread* thread : round_) {
        thread_ = thread;
        thread_index.x = static_cast<unsigned>(thread->number);
        const int64_t block = first + thread->block;
        block_index = dim3(static_cast<unsigned>(block % grid_size.x),
                           static_cast<unsigned>(block / grid_size.x % grid_size.y),
                           static_cast<unsigned>(block / grid_size.x / grid_size.y));
        shared = shared_of_[thread->block];
        thread->fiber.Resume();
      }
    }
    for (int32_t block = 0; block < cluster_; ++block)
      if (ended_[block] < thread_count_) Fail("a barrier is not reached by all threads of a block");
  }

  [[noreturn]] void Fail(const char* message) {
    threads_.clear();  // their fibers may be in the middle of the kernel
    throw std::logic_error(message);
  }

  void ReleaseCluster() {
    arrived_at_cluster_ = 0;
    for (int32_t block = 0; block < cluster_; ++block) ReleaseBlock(block);
  }

  void ReleaseBlock(int32_t block) {
    arrived_[block] = 0;
    // Warps that fall far behind show a warp barrier where a block barrier is needed, and blocks
    // that do show a block barrier where a barrier of the cluster is needed.
    const bool all = cluster_ > 1 && Random(4) == 0;
    delayed_warps_[block] = all ? ~0u : static_cast<uint32_t>(Random(uint64_t{1} << 32));
    for (int32_t warp = 0; warp * kLanes < thread_count_; ++warp) ReleaseWarp(block, warp);
  }

  void ReleaseWarp(int32_t block, int32_t warp) {
    arrived_at_warp_[block][warp] = 0;
    Threads& threads = delayed_warps_[block] >> warp & 1 ? delayed_ : next_;
    for (int32_t i = warp * kLanes; i < WarpEnd(warp); ++i) threads.push_back(ThreadOf(block, i));
  }

  Thread* ThreadOf(int32_t block, int32_t number) {
    return threads_[block * thread_count_ + number].get();
  }

  int32_t WarpEnd(int32_t warp) const {
    const int32_t end = (warp + 1) * kLanes;
    return end < thread_count_ ? end : thread_count_;
  }

  uint64_t Random(uint64_t limit) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return (random_ >> 32) * limit >> 32;
  }

  template <class T>
  void Shuffle(std::vector<T>* values) {
    for (size_t i = values->size(); i > 1; --i) std::swap((*values)[i - 1], (*values)[Random(i)]);
  }

  Body body_ = nullptr;
  void* call_ = nullptr;
  uint64_t random_ = kSeed;
  int32_t thread_count_ = 0, cluster_ = 1, arrived_at_cluster_ = 0;
  int64_t shared_bytes_ = 0;
  char* shared_of_[kMaximalCluster] = {};
  int32_t arrived_[kMaximalCluster] = {}, ended_[kMaximalCluster] = {};
  int32_t arrived_at_warp_[kMaximalCluster][kMaximalWarps] = {};
  uint32_t delayed_warps_[kMaximalCluster] = {};  // a bit per warp; they run when no other can
  Thread* thread_ = nullptr;
  Threads round_, next_, delayed_;
  std::vector<std::unique_ptr<Thread>> threads_;
};

using Stream = int;

// The executor of the calling thread, which keeps its fibers for the next launch of any kernel.
inline HostExecutor& ExecutorOfThread() {
  static thread_local HostExecutor executor;
  return executor;
}

template <class Kernel, class... Arguments>
void LaunchClusters(Kernel* kernel, dim3 grid, int32_t cluster, int32_t threads,
                    int64_t shared_bytes, Stream, Arguments... arguments) {
  HostRecorder::RunOrKeep([=] {
    HostExecutor& executor = ExecutorOfThread();
    HostExecutor::current = &executor;
    auto call = [&] { kernel(arguments...); };
    using Call = decltype(call);
    const auto body = [](void* address) { (*static_cast<Call*>(address))(); };
    executor.Run(grid, cluster, threads, shared_bytes, body, &call);
  });
}

template <class Kernel, class... Arguments>
void Launch(Kernel* kernel, dim3 grid, int32_t threads, int64_t shared_bytes, Stream stream,
            Arguments... arguments) {
  LaunchClusters(kernel, grid, 1, threads, shared_bytes, stream, arguments...);
}

template <class Kernel>
void AllowShared(Kernel*, int64_t) {}

template <class Kernel>
int32_t BlocksPerMultiprocessor(Kernel*, int32_t, int64_t) {
  return 2;
}

// Clusters of a kernel that run at once: 0 if there are none of this size. The environment variable
// HOST_EXECUTOR_CLUSTER is the largest size, 4 unless set; 1 stands for a device without clusters.
template <class Kernel>
int32_t ActiveClusters(Kernel*, int32_t cluster, int32_t, int64_t) {
  const char* const text = std::getenv("HOST_EXECUTOR_CLUSTER");
  return cluster <= (text ? std::atoi(text) : 4) ? 2 : 0;
}

#define QFLEET_SHARED_MEMORY(name) \
  char* const name = ::qfleet::device::HostExecutor::current->shared

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_HOST_EXECUTOR_H_
