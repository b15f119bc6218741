// Trajectory programs: values and gradients with a known result, for any width, pair of qubits,
// batch and instruction set, and corrupt programs.
#include <cmath>

#include "../finite_shots.h"
#include "../trajectory_engine.h"
#include "program_words.h"
#include "testing.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

constexpr double kPi = 3.14159265358979323846;

// On a pair in |00>: I or Z of qubit b, which trajectories draw before any exponent; on qubit a
// X**x with x of the example, X as a channel, X**p; then a reset of qubit b, whose probabilities
// depend on the state. The readout is 2 Z_a Z_b + 0.5 = -2 cos(pi (x + p)) + 0.5.
Words FlippedPair(int64_t qubits, int64_t a, int64_t b) {
  Words words;
  // Exponents, readouts, trajectories, shots, seed, fresh, keys.
  words.ints = {4, qubits, 1, 1, 1, 20, 0, 7, 0, 1, 0};
  words.ints.push_back(2);
  for (int64_t exponent : {-1, 0}) words.AddPowerOfX(exponent);
  words.ints.insert(words.ints.end(), {1, 2, 1, 1});  // a sequence: X**p
  // Channels: qubits, operators, is a mixture.
  words.ints.insert(words.ints.end(), {3, 1, 1, 1, 1, 2, 0, 1, 2, 1});
  words.reals.insert(words.reals.end(), {1, 0, 0, 1, 0, 1, 0, 0, 0});
  words.reals.insert(words.reals.end(), {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0});
  words.reals.insert(words.reals.end(),
                     {0.5, 0.5, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, -1, 0});
  // Blocks: qubits, bits, items; items: channel, qubits, place, parts.
  words.ints.insert(words.ints.end(), {3, 1, b, 1, 2, 1, 0});
  words.ints.insert(words.ints.end(), {2, a, b, 3, -1, 1, 0, 1, ~0, 0, 1, 0, -1, 1, 0, 1, 0});
  words.ints.insert(words.ints.end(), {1, b, 1, 1, 1, 0});
  words.ints.insert(words.ints.end(), {1, 0, 1, int64_t{1} << a | int64_t{1} << b, 0});
  words.reals.insert(words.reals.end(), {2, 0.5});
  return words;
}

template <class T>
void CheckResults(const Kernels<T>& kernels, const Words& words, int64_t size, int64_t threads) {
  const std::string context = std::to_string(words.ints[1]) + " qubits, " + std::to_string(size) +
                              " examples, " + std::to_string(threads) + " threads, " +
                              std::to_string(kernels.lanes) + " lanes";
  const double tolerance = sizeof(T) == 4 ? 2e-5 : 1e-12;
  const TrajectoryEngine<T> engine(std::make_shared<TrajectoryProgram>(words.Bytes()), kernels);
  const double shared = 0.3;
  std::vector<double> rows(size), values(size), slopes(size);
  ExactBuffer<T> upstream(size), found(size);
  double shared_slope = 0;
  for (int64_t i = 0; i < size; ++i) {
    rows[i] = 0.1 * static_cast<double>(i % 7) - 0.2;
    upstream[i] = static_cast<T>(0.3 - 0.05 * static_cast<double>(i % 5));
    const double angle = kPi * (rows[i] + shared);
    values[i] = -2 * std::cos(angle) + 0.5;
    slopes[i] = 2 * kPi * std::sin(angle) * static_cast<double>(upstream[i]);
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

void TrajectoryResults(bool light) {
  for (int64_t qubits = 2; qubits <= (light ? 4 : 8); ++qubits)
    for (int64_t a = 0; a < qubits; ++a)
      for (int64_t b = 0; b < qubits; ++b) {
        if (a == b || (qubits > 5 && (a + b) % 3)) continue;
        const Words words = FlippedPair(qubits, a, b);
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

void BinomialMoments(bool light) {
  const int64_t count = light ? 2000 : 20000;
  for (int64_t trials : {1, 7, 100, 5000, 1000000})
    for (double p : {0.0, 1e-4, 0.03, 0.3, 0.5, 0.9, 1.0}) {
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t k = BinomialSample(trials, p, 3, 5, i);
        CHECK(k >= 0 && k <= trials, "a number of successes");
        const double difference = static_cast<double>(k) - static_cast<double>(trials) * p;
        sum += difference;
        squares += difference * difference;
      }
      const double variance = static_cast<double>(trials) * p * (1 - p);
      const std::string context = std::to_string(trials) + " trials of " + std::to_string(p);
      CHECK(std::abs(sum / count) <= 5 * std::sqrt(variance / count), context + ", mean");
      if (variance > 1)
        CHECK(std::abs(squares / count / variance - 1) < 8 / std::sqrt(count),
              context + ", variance");
    }
}

void CorruptTrajectories(bool light) {
  const Words valid = FlippedPair(3, 0, 2);
  TryCorrupted(valid, light);
  Words other = valid;
  other.reals[other.reals.size() - 10] = std::nan("");
  CHECK(IsRejected(other), "an operator that is not finite");
  other = valid;
  other.ints[5] = 0;
  CHECK(IsRejected(other), "no trajectories");
}

}  // namespace tests
}  // namespace qfleet
