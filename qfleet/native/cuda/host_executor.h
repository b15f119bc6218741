// Runs CUDA kernels on the processor, for tests: each thread of a block is a fiber. Between two
// barriers the threads run one after the other in a random order, so that a missing barrier gives
// a wrong result. The order depends only on the launch, so that a run can be repeated.
#ifndef QFLEET_CUDA_HOST_EXECUTOR_H_
#define QFLEET_CUDA_HOST_EXECUTOR_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
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

// Runs the blocks of a launch one after the other on the calling thread.
class HostExecutor {
 public:
  using Body = void (*)(void* call);  // calls the kernel with its arguments

  // Facts that a kernel reads.
  dim3 grid_size, block_index, block_size, thread_index;
  char* shared = nullptr;

  void Run(dim3 grid, int32_t thread_count, int64_t shared_bytes, Body body, void* call) {
    const int64_t block_count = int64_t{grid.x} * grid.y * grid.z;
    if (block_count < 1 || thread_count < 1 || thread_count > kMaximalThreads || shared_bytes < 0) {
      throw std::logic_error("a launch needs blocks of 1 to 1024 threads");
    }
    body_ = body;
    call_ = call;
    random_ = kSeed;
    grid_size = grid;
    block_size = dim3(thread_count);
    thread_count_ = thread_count;
    for (int32_t i = static_cast<int32_t>(threads_.size()); i < thread_count; ++i) {
      threads_.push_back(std::make_unique<Thread>(i));
    }
    // What is read outside is NaN.
    const int64_t end = kZoneBytes + shared_bytes;
    const std::unique_ptr<char[]> memory(new char[end + kZoneBytes]);
    std::memset(memory.get(), 0xff, end + kZoneBytes);
    shared = memory.get() + kZoneBytes;
    std::vector<int64_t> blocks(block_count);
    std::iota(blocks.begin(), blocks.end(), 0);
    Shuffle(&blocks);
    for (const int64_t block : blocks) {
      block_index = dim3(static_cast<unsigned>(block % grid.x),
                         static_cast<unsigned>(block / grid.x % grid.y),
                         static_cast<unsigned>(block / grid.x / grid.y));
      std::memset(shared, 0xff, shared_bytes);
      RunBlock();
    }
    for (const char* zone : {memory.get(), memory.get() + end})
      if (std::any_of(zone, zone + kZoneBytes, [](char byte) { return byte != '\xff'; }))
        Fail("a kernel writes outside of its shared memory");
    for (int32_t i = 0; i < thread_count_; ++i) {
      if (threads_[i]->fiber.Overflowed()) Fail("a thread of a block needs too large a stack");
    }
  }

  void WaitForBlock() {
    if (++arrived_ == thread_count_) ReleaseBlock();
    thread_->fiber.Yield();
  }

  void WaitForWarp() {
    const int32_t warp = thread_->number / kLanes;
    if (++arrived_at_warp_[warp] == WarpEnd(warp) - warp * kLanes) ReleaseWarp(warp);
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
    if (other < WarpEnd(warp)) std::memcpy(&value, &threads_[other]->slots[slot], sizeof(T));
    return value;
  }

  int32_t lane() const { return thread_->number % kLanes; }

  // The executor that runs the current kernel, for the functions of CUDA.
  inline static thread_local HostExecutor* current = nullptr;

  static constexpr int32_t kLanes = 32;

 private:
  struct Thread {
    explicit Thread(int32_t number) : number(number), fiber(&HostExecutor::RunThread, number) {}
    const int32_t number;
    uint32_t exchanges = 0;
    uint64_t slots[2];
    Fiber fiber;
  };
  using Threads = std::vector<Thread*>;

  static constexpr int32_t kMaximalThreads = 1024, kMaximalWarps = kMaximalThreads / kLanes;
#ifdef __SANITIZE_ADDRESS__
  static constexpr int64_t kZoneBytes = 0;  // the sanitizer sees each wrong index
#else
  static constexpr int64_t kZoneBytes = 64 << 10;  // around shared memory: as far as a place goes
#endif
  static constexpr uint64_t kSeed = 0x9e3779b97f4a7c15;

  static void RunThread() {
    current->body_(current->call_);
    ++current->ended_;
  }

  void RunBlock() {
    arrived_ = ended_ = 0;
    for (int32_t i = 0; i < thread_count_; ++i) threads_[i]->exchanges = 0;
    ReleaseBlock();
    while (!next_.empty() || !delayed_.empty()) {
      round_.clear();
      std::swap(round_, next_.empty() ? delayed_ : next_);
      Shuffle(&round_);
      for (Thread* thread : round_) {
        thread_ = thread;
        thread_index.x = static_cast<unsigned>(thread->number);
        thread->fiber.Resume();
      }
    }
    if (ended_ < thread_count_) Fail("a barrier is not reached by all threads of a block");
  }

  [[noreturn]] void Fail(const char* message) {
    threads_.clear();  // their fibers may be in the middle of the kernel
    throw std::logic_error(message);
  }

  void ReleaseBlock() {
    arrived_ = 0;
    // Warps that fall far behind show a warp barrier where a block barrier is needed.
    delayed_warps_ = static_cast<uint32_t>(Random(uint64_t{1} << 32));
    for (int32_t warp = 0; warp * kLanes < thread_count_; ++warp) ReleaseWarp(warp);
  }

  void ReleaseWarp(int32_t warp) {
    arrived_at_warp_[warp] = 0;
    Threads& threads = delayed_warps_ >> warp & 1 ? delayed_ : next_;
    for (int32_t i = warp * kLanes; i < WarpEnd(warp); ++i) threads.push_back(threads_[i].get());
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
  int32_t thread_count_ = 0, arrived_ = 0, ended_ = 0;
  int32_t arrived_at_warp_[kMaximalWarps] = {};
  uint32_t delayed_warps_ = 0;  // a bit per warp; they run when no other warp can
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
void Launch(Kernel* kernel, dim3 grid, int32_t threads, int64_t shared_bytes, Stream,
            Arguments... arguments) {
  HostExecutor& executor = ExecutorOfThread();
  HostExecutor::current = &executor;
  auto call = [&] { kernel(arguments...); };
  using Call = decltype(call);
  const auto body = [](void* address) { (*static_cast<Call*>(address))(); };
  executor.Run(grid, threads, shared_bytes, body, &call);
}

template <class Kernel>
void AllowShared(Kernel*, int64_t) {}

template <class Kernel>
int32_t BlocksPerMultiprocessor(Kernel*, int32_t, int64_t) {
  return 2;
}

#define QFLEET_SHARED_MEMORY(name) \
  char* const name = ::qfleet::device::HostExecutor::current->shared

}  // namespace device
}  // namespace qfleet

#define threadIdx (::qfleet::device::HostExecutor::current->thread_index)
#define blockIdx (::qfleet::device::HostExecutor::current->block_index)
#define blockDim (::qfleet::device::HostExecutor::current->block_size)
#define gridDim (::qfleet::device::HostExecutor::current->grid_size)

inline void __syncthreads() { qfleet::device::HostExecutor::current->WaitForBlock(); }

inline void __syncwarp(unsigned = 0xffffffff) {
  qfleet::device::HostExecutor::current->WaitForWarp();
}

template <class T>
T __shfl_xor_sync(unsigned, T value, int lane_mask) {
  auto* const executor = qfleet::device::HostExecutor::current;
  return executor->Exchange(value, executor->lane() ^ lane_mask);
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(static_cast<unsigned>(bits)) : 32; }
inline int __ffs(int bits) { return __builtin_ffs(bits); }

// Fibers of one host thread run one at a time.
template <class T>
T atomicAdd(T* address, T value) {
  const T old = *address;
  *address = old + value;
  return old;
}

// Reduces the angle to a quarter turn first, so that multiples of 1/2 are exact.
inline void sincospi(double x, double* sine, double* cosine) {
  const double reduced = x - 2 * std::rint(x / 2);
  const double quadrant = std::rint(2 * reduced);
  const double angle = M_PI * (reduced - quadrant / 2);
  const double s = std::sin(angle), c = std::cos(angle);
  const int quarter = static_cast<int>(quadrant) & 3;
  *sine = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
  *cosine = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
}

inline void sincospif(float x, float* sine, float* cosine) {
  double s, c;
  sincospi(x, &s, &c);
  *sine = static_cast<float>(s);
  *cosine = static_cast<float>(c);
}

#endif  // QFLEET_CUDA_HOST_EXECUTOR_H_
