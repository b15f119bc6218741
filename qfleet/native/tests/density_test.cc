// Density programs: values and gradients of noise with a known result, for any width, pair of
// qubits, batch and instruction set, and corrupt programs.
#include <cmath>

#include "../density_engine.h"
#include "program_words.h"
#include "testing.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kShrink = 0.8;

// On qubit a of a pair in |00>: X**x with x of the example, depolarizing noise, X**p. Then the same
// noise on a alone. The readout is 2 Z_a Z_b + 0.5 = 2 kShrink**2 cos(pi (x + p)) + 0.5.
Words NoisyPair(int64_t qubits, int64_t a, int64_t b) {
  Words words;
  words.ints = {3, qubits, 1, 1, 1, 0, 0, 0, 0};  // exact
  words.ints.push_back(2);
  for (int64_t exponent : {-1, 0}) words.AddPowerOfX(exponent);
  words.ints.insert(words.ints.end(), {1, 2, 1, 1});  // a sequence: X**p
  words.ints.insert(words.ints.end(), {2, 1, 2});     // channels on one and two qubits
  for (int64_t size : {4, 16})
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j)
        words.reals.push_back(i == j ? (i >= size / 4 ? kShrink : 1) : 0);
  words.ints.insert(words.ints.end(), {2,  // blocks
                                       qubits,
                                       2,
                                       a,
                                       b,
                                       3,  // live, qubits, digits, items
                                       -1,
                                       1,
                                       0,
                                       1,
                                       ~0,  // X**x
                                       1,
                                       2,
                                       0,  // noise
                                       -1,
                                       1,
                                       0,
                                       1,
                                       0,  // X**p
                                       std::max(a, b) + 1,
                                       1,
                                       a,
                                       1,  // a block of one qubit
                                       0,
                                       1,
                                       0});
  words.ints.insert(words.ints.end(),
                    {std::max(a, b) + 1, 1, int64_t{3} << 2 * a | int64_t{3} << 2 * b});
  words.reals.insert(words.reals.end(), {2, 0.5});
  return words;
}

template <class T>
void CheckResults(const Kernels<T>& kernels, const Words& words, int64_t size, int64_t threads) {
  const std::string context = std::to_string(words.ints[1]) + " qubits, " + std::to_string(size) +
                              " examples, " + std::to_string(threads) + " threads, " +
                              std::to_string(kernels.lanes) + " lanes";
  const double tolerance = sizeof(T) == 4 ? 2e-5 : 1e-12;
  const DensityEngine<T> engine(std::make_shared<DensityProgram>(words.Bytes()), kernels);
  const double shared = 0.3;
  std::vector<double> rows(size), values(size), slopes(size);
  ExactBuffer<T> upstream(size), found(size);
  double shared_slope = 0;
  for (int64_t i = 0; i < size; ++i) {
    rows[i] = 0.1 * static_cast<double>(i % 7) - 0.2;
    upstream[i] = static_cast<T>(0.3 - 0.05 * static_cast<double>(i % 5));
    const double angle = kPi * (rows[i] + shared), scale = 2 * kShrink * kShrink;
    values[i] = scale * std::cos(angle) + 0.5;
    slopes[i] = -scale * kPi * std::sin(angle) * static_cast<double>(upstream[i]);
    shared_slope += slopes[i];
  }
  Batch batch = {&shared, rows.data(), size, threads, RunOnThreads(threads)};
  engine.Expectation(batch, found.data());
  CheckClose(found, values, tolerance, context + ", values");
  for (int64_t memory : {int64_t{0}, int64_t{1} << 30}) {
    std::vector<double> by_shared(1), by_rows(size);
    engine.Gradient(batch, memory, upstream.data(), by_shared.data(), by_rows.data());
    CheckClose(by_shared, std::vector<double>{shared_slope}, size * tolerance,
               context + ", shared");
    CheckClose(by_rows, slopes, 4 * tolerance, context + ", per example");
    by_shared = {0};
    engine.Gradient(batch, memory, upstream.data(), by_shared.data(), nullptr);
    CheckClose(by_shared, std::vector<double>{shared_slope}, size * tolerance, context + ", alone");
  }
}

}  // namespace

void DensityResults(bool light) {
  for (int64_t qubits = 2; qubits <= (light ? 4 : 8); ++qubits)
    for (int64_t a = 0; a < qubits; ++a)
      for (int64_t b = 0; b < qubits; ++b) {
        if (a == b || (qubits > 5 && (a + b) % 3)) continue;
        const Words words = NoisyPair(qubits, a, b);
        for (int64_t size : {1, 3, 19}) {
          if (qubits > 6 && size > 3) continue;
          const int64_t threads = size == 19 ? 3 : size;
          CheckResults(BestKernels<float>(), words, size, threads);
          CheckResults(baseline::kDouble, words, size, threads);
          if (light || qubits > 5) continue;
          CheckResults(baseline::kFloat, words, size, threads);
          CheckResults(BestKernels<double>(), words, size, threads);
        }
      }
}

void CorruptDensity(bool light) {
  const Words valid = NoisyPair(3, 0, 2);
  TryCorrupted(valid, light);
  Words other = valid;
  other.reals[other.reals.size() - 20] = std::nan("");
  CHECK(IsRejected(other), "a channel that is not finite");
  other = valid;
  other.ints.erase(other.ints.end() - 6, other.ints.end() - 3);
  other.ints[other.ints.size() - 4] = 0;
  CHECK(IsRejected(other), "a block without items");
  other = valid;
  other.ints.back() = int64_t{1} << 6;
  CHECK(IsRejected(other), "a string of a qubit that is traced out");
}

}  // namespace tests
}  // namespace qfleet
