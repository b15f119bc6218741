#include "cpu/thread_pool.h"

#include <pthread.h>
#include <signal.h>
#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>

namespace qfleet {
namespace {

// A helper costs about this much to wake, so that each needs as much work.
constexpr int64_t kHelperNanoseconds = 15000;
// Iterations are taken in chunks of about this cost.
constexpr int64_t kChunkNanoseconds = 5000;
// Waiting threads spin for this long before they sleep. The parts of one call follow each other
// within that time.
constexpr std::chrono::microseconds kSpinTime(100);
constexpr int kChecksPerClock = 64;

inline void Pause() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns true as soon as `ready()`, and false if that takes longer than kSpinTime.
template <class Ready>
bool SpinUntil(const Ready& ready) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int check = 0; check < kChecksPerClock; ++check) {
      if (ready()) return true;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// The positive number at the start of an environment variable, or 0.
int32_t NumberFromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  const int64_t number = text ? std::strtoll(text, nullptr, 10) : 0;
  return static_cast<int32_t>(std::clamp<int64_t>(number, 0, kMaxThreads));
}

int32_t UsableCpus() {
#ifdef __linux__
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) return CPU_COUNT(&cpus);
#endif
  return static_cast<int32_t>(std::thread::hardware_concurrency());
}

int32_t DefaultThreadCount() {
  for (const char* name : {"QFLEET_NUM_THREADS", "OMP_NUM_THREADS"})
    if (const int32_t number = NumberFromEnvironment(name)) return number;
  return std::clamp(UsableCpus(), 1, kMaxThreads);
}

std::atomic<ThreadPool*> process_pool{nullptr};

}  // namespace

// A call of Run, on the caller's stack.
struct ThreadPool::Loop {
  int64_t count, chunk;
  Work work;
  void* argument;
  int32_t most_helpers;
  std::atomic<int64_t> next{0};
  std::atomic<int32_t> helpers{0};  // that run iterations now; increased under mutex_ only
  int32_t joined = 0;               // guarded by mutex_
  bool caller_sleeps = false;       // guarded by mutex_

  bool exhausted() const { return next.load(std::memory_order_relaxed) >= count; }
  void RunChunks() {
    for (;;) {
      const int64_t from = next.fetch_add(chunk, std::memory_order_relaxed);
      if (from >= count) return;
      for (int64_t i = from; i < std::min(from + chunk, count); ++i) work(argument, i);
    }
  }
};

ThreadPool& ThreadPool::Get() {
  // The pool is never destroyed, since other threads may use it until the process ends. At exit and
  // when the library is unloaded, only its threads end.
  struct Lifetime {
    Lifetime() {
      process_pool = new ThreadPool();
      // The threads of the parent do not exist in a forked child, whose locks may be taken.
      pthread_atfork(nullptr, nullptr, [] {
        const int32_t count = process_pool.load()->ThreadCount();
        process_pool = new ThreadPool();
        process_pool.load()->thread_count_ = count;
      });
    }
    ~Lifetime() { process_pool.load()->Shutdown(); }
  };
  static Lifetime lifetime;
  return *process_pool.load(std::memory_order_acquire);
}

ThreadPool::ThreadPool() : thread_count_(DefaultThreadCount()) {}

void ThreadPool::SetThreadCount(int32_t count) {
  thread_count_ = std::clamp(count, 1, kMaxThreads);
}

void ThreadPool::StartHelpers(int32_t count) {
  if (stopped_ || static_cast<int32_t>(helpers_.size()) >= count) return;
  // Helpers inherit the caller's signal mask. Signals are for the application's own threads, except
  // those that a thread raises itself.
  sigset_t blocked, before;
  sigfillset(&blocked);
  for (int raised : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&blocked, raised);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  try {
    while (static_cast<int32_t>(helpers_.size()) < count)
      helpers_.emplace_back([this] { HelperMain(); });
  } catch (const std::exception&) {
    // The system allows no more threads: run with fewer.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ThreadPool::Run(int64_t count, int64_t cost, Work work, void* argument) {
  const int32_t threads = ThreadCount();
  // In floating point, because the product may overflow.
  const double worthwhile = static_cast<double>(count) *
                            static_cast<double>(std::max<int64_t>(cost, 1)) / kHelperNanoseconds;
  const int64_t helpers = std::min<int64_t>(
      {threads - 1, count - 1, static_cast<int64_t>(std::min(worthwhile, 1.0 * kMaxThreads))});
  if (helpers < 1) {
    for (int64_t i = 0; i < count; ++i) work(argument, i);
    return;
  }
  Loop loop;
  loop.count = count;
  // Small enough to balance the load, and large enough that taking a chunk costs little.
  loop.chunk = std::clamp<int64_t>(kChunkNanoseconds / std::max<int64_t>(cost, 1), 1,
                                   std::max<int64_t>(count / (2 * (helpers + 1)), 1));
  loop.work = work;
  loop.argument = argument;
  loop.most_helpers = static_cast<int32_t>(helpers);
  int64_t waking;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    StartHelpers(threads - 1);
    loops_.push_back(&loop);
    ++signal_;
    waking = std::min<int64_t>(helpers - spinning_, sleeping_);
  }
  for (; waking > 0; --waking) wake_.notify_one();
  loop.RunChunks();
  FinishLoop(&loop);
}

void ThreadPool::FinishLoop(Loop* loop) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    loops_.erase(std::find(loops_.begin(), loops_.end(), loop));
  }
  // No helper can join any more.
  if (SpinUntil([loop] { return loop->helpers.load(std::memory_order_acquire) == 0; })) return;
  std::unique_lock<std::mutex> lock(mutex_);
  loop->caller_sleeps = true;
  done_.wait(lock, [loop] { return loop->helpers == 0; });
}

ThreadPool::Loop* ThreadPool::JoinLoop() {
  for (Loop* loop : loops_)
    if (loop->joined < loop->most_helpers && !loop->exhausted()) {
      ++loop->joined;
      ++loop->helpers;
      return loop;
    }
  return nullptr;
}

void ThreadPool::LeaveLoop(Loop* loop) {
  // The loop may be gone as soon as it has no helpers.
  const bool caller_sleeps = loop->caller_sleeps;
  loop->helpers.fetch_sub(1, std::memory_order_release);
  if (caller_sleeps) done_.notify_all();
}

void ThreadPool::HelperMain() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (stopped_) return;
    if (Loop* loop = JoinLoop()) {
      lock.unlock();
      loop->RunChunks();
      lock.lock();
      LeaveLoop(loop);
      continue;
    }
    const int64_t seen = signal_;
    ++spinning_;
    lock.unlock();
    const bool signaled =
        SpinUntil([&] { return signal_.load(std::memory_order_acquire) != seen; });
    lock.lock();
    --spinning_;
    if (signaled) continue;
    ++sleeping_;
    wake_.wait(lock, [&] { return signal_ != seen; });
    --sleeping_;
  }
}

void ThreadPool::Shutdown() {
  std::vector<std::thread> ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    ++signal_;
    ended.swap(helpers_);
  }
  wake_.notify_all();
  for (std::thread& helper : ended) helper.join();
}

}  // namespace qfleet
