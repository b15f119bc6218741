// The peak rates of this machine that bound the engine's speed; benchmarks/machine_peaks.py builds
// it with the vectors of the engine's instruction set, of QFLEET_BYTES bytes.
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace {

typedef float V __attribute__((vector_size(QFLEET_BYTES)));
constexpr int kLanes = QFLEET_BYTES / sizeof(float);
constexpr int kChains = QFLEET_BYTES == 64 ? 16 : 8;  // more than latency times units; in registers
constexpr int64_t kStepsPerCheck = 20000;

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Runs work() in `threads` threads until `seconds` have passed; returns the sum of its results per
// second.
double Rate(int threads, double seconds, const std::function<double(int)>& work) {
  std::vector<double> done(threads);
  std::vector<std::thread> running;
  const double start = Seconds();
  for (int thread = 0; thread < threads; ++thread)
    running.emplace_back([&, thread] {
      while (Seconds() - start < seconds) done[thread] += work(thread);
    });
  for (std::thread& thread : running) thread.join();
  double sum = 0;
  for (double each : done) sum += each;
  return sum / (Seconds() - start);
}

// Operations of independent chains of multiply-adds on registers.
double MultiplyAdds() {
  V sums[kChains];
  for (int chain = 0; chain < kChains; ++chain) sums[chain] = V{} + static_cast<float>(chain);
  const V factor = V{} + 0.5f, term = V{} + 1.0f;
  for (int64_t step = 0; step < kStepsPerCheck; ++step)
    for (int chain = 0; chain < kChains; ++chain) sums[chain] = sums[chain] * factor + term;
  V total = {};
  for (int chain = 0; chain < kChains; ++chain) total += sums[chain];
  volatile float kept = total[0];
  (void)kept;
  return 2.0 * kChains * kLanes * kStepsPerCheck;
}

}  // namespace

// Floating-point operations per second of all threads; a multiply-add is two.
extern "C" double multiply_add_rate(int threads, double seconds) {
  return Rate(threads, seconds, [](int) { return MultiplyAdds(); });
}

// Bytes per second that are read and written by all threads, each of which changes its part of the
// data in place.
extern "C" double update_rate(int threads, double seconds, float* data, int64_t count) {
  const int64_t vectors = count / kLanes / threads;
  return Rate(threads, seconds, [&](int thread) {
    V* part = reinterpret_cast<V*>(data) + thread * vectors;
    for (int64_t at = 0; at < vectors; ++at) part[at] += 1.0f;
    return 2.0 * sizeof(V) * static_cast<double>(vectors);
  });
}
