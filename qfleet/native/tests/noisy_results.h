// Values and gradients of programs with noise whose results are known.
#ifndef QFLEET_TESTS_NOISY_RESULTS_H_
#define QFLEET_TESTS_NOISY_RESULTS_H_

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "program_words.h"
#include "testing.h"

namespace qfleet {
namespace tests {

// Checks the readout amplitude * cos(pi (x + p)) + 0.5 for rows x and a shared p.
template <template <class> class Engine, class Program, class T>
void CheckNoisyResults(const Kernels<T>& kernels, const Words& words, double amplitude,
                       int64_t size, int64_t threads) {
  const std::string context = std::to_string(words.ints[1]) + " qubits, " + std::to_string(size) +
                              " examples, " + std::to_string(threads) + " threads, " +
                              std::to_string(kernels.lanes) + " lanes";
  const double tolerance = sizeof(T) == 4 ? 2e-5 : 1e-12;
  const Engine<T> engine(std::make_shared<Program>(words.Bytes()), kernels);
  const double pi = std::acos(-1.0);
  const double shared = 0.3;
  std::vector<double> rows(size), values(size), slopes(size);
  ExactBuffer<T> upstream(size), found(size);
  double shared_slope = 0;
  for (int64_t i = 0; i < size; ++i) {
    rows[i] = 0.1 * static_cast<double>(i % 7) - 0.2;
    upstream[i] = static_cast<T>(0.3 - 0.05 * static_cast<double>(i % 5));
    const double angle = pi * (rows[i] + shared);
    values[i] = amplitude * std::cos(angle) + 0.5;
    slopes[i] = -amplitude * pi * std::sin(angle) * static_cast<double>(upstream[i]);
    shared_slope += slopes[i];
  }
  Batch batch = {&shared, rows.data(), size, threads, RunOnThreads(threads)};
  engine.Expectation(batch, found.data());
  CheckClose(found, values, tolerance, context + ", values");
  for (int64_t memory : {int64_t{0}, int64_t{1} << 30}) {
    std::vector<double> by_shared(1), by_rows(size);
    batch.memory_limit = memory;
    engine.Gradient(batch, upstream.data(), by_shared.data(), by_rows.data());
    CheckClose(by_shared, std::vector<double>{shared_slope}, size * tolerance,
               context + ", shared");
    CheckClose(by_rows, slopes, 4 * tolerance, context + ", per example");
    by_shared = {0};
    engine.Gradient(batch, upstream.data(), by_shared.data(), nullptr);
    CheckClose(by_shared, std::vector<double>{shared_slope}, size * tolerance, context + ", alone");
  }
}

// Checks a program on any pair of qubits, for any batch, number of threads and instruction set.
//
// pair: (qubits, a, b) -> the program that reads qubits a and b.
template <template <class> class Engine, class Program>
void NoisyResults(double amplitude, Words (*pair)(int64_t, int64_t, int64_t), bool light) {
  const auto check = [&](const auto& kernels, const Words& words, int64_t size) {
    CheckNoisyResults<Engine, Program>(kernels, words, amplitude, size, size == 19 ? 3 : size);
  };
  for (int64_t qubits = 2; qubits <= (light ? 4 : 8); ++qubits)
    for (int64_t a = 0; a < qubits; ++a)
      for (int64_t b = 0; b < qubits; ++b) {
        if (a == b || (qubits > 5 && (a + b) % 3)) continue;
        const Words words = pair(qubits, a, b);
        for (int64_t size : {1, 3, 19}) {
          if (qubits > 6 && size > 3) continue;
          check(BestKernels<float>(), words, size);
          check(baseline::kDouble, words, size);
          if (light || qubits > 5) continue;
          check(baseline::kFloat, words, size);
          check(BestKernels<double>(), words, size);
        }
      }
}

}  // namespace tests
}  // namespace qfleet

#endif  // QFLEET_TESTS_NOISY_RESULTS_H_
