// The library's own threads, for callers that bring none.
#ifndef QFLEET_THREAD_POOL_H_
#define QFLEET_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace qfleet {

constexpr int32_t kMaxThreads = 1024;

// Runs loops on up to ThreadCount() threads, the caller's included. Several threads may call Run at
// once, and work may call Run again: a caller runs all iterations that no other thread has taken,
// so that no call waits for a free thread.
class ThreadPool {
 public:
  using Work = void (*)(void* argument, int64_t index);

  // The process's pool. A process that was forked has a new one.
  static ThreadPool& Get();

  int32_t ThreadCount() const { return thread_count_.load(std::memory_order_relaxed); }
  // Loops that run already keep their threads. Superfluous threads sleep.
  void SetThreadCount(int32_t count);

  // Calls work(argument, 0) ... work(argument, count - 1), which must not throw, and returns when
  // all have returned. `cost` is the approximate cost of one call in nanoseconds.
  void Run(int64_t count, int64_t cost, Work work, void* argument);

  // Ends all threads. Later loops run on their callers' threads only.
  void Shutdown();

 private:
  struct Loop;

  ThreadPool();

  void StartHelpers(int32_t count);
  void HelperMain();
  Loop* JoinLoop();
  void LeaveLoop(Loop* loop);
  void FinishLoop(Loop* loop);

  std::atomic<int32_t> thread_count_;
  std::atomic<int64_t> signal_{0};  // increases with each loop
  std::mutex mutex_;
  // Guarded by mutex_:
  std::condition_variable wake_, done_;
  std::vector<Loop*> loops_;
  std::vector<std::thread> helpers_;
  int32_t sleeping_ = 0, spinning_ = 0;  // helpers without a loop
  bool stopped_ = false;
};

}  // namespace qfleet

#endif  // QFLEET_THREAD_POOL_H_
