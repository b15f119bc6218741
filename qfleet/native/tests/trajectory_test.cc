// Trajectory programs: values and gradients with a known result, for any width, pair of qubits,
// batch and instruction set, and corrupt programs.
#include <cmath>
#include <numeric>

#include "noisy/finite_shots.h"
#include "noisy/trajectory_engine.h"
#include "noisy_results.h"
#include "program_words.h"
#include "testing.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

// On a pair in |00>: I or Z of qubit b, which trajectories draw before any exponent; on qubit a
// X**x with x of the example, X as a channel, X**p; then a reset of qubit b, whose probabilities
// depend on the state. The readout is 2 Z_a Z_b + 0.5 = -2 cos(pi (x + p)) + 0.5.
Words FlippedPair(int64_t qubits, int64_t a, int64_t b) {
  Words words;
  // Exponents, readouts, initial states, shots, seed, fresh, keys.
  words.ints = {6, qubits, 1, 1, 1, 0, 0, 7, 0, 1, 0};
  words.ints.push_back(2);
  for (int64_t exponent : {-1, 0}) words.AddPowerOfX(exponent);
  words.ints.insert(words.ints.end(), {1, 2, 1, 1});  // a sequence: X**p
  // Channels: qubits, operators, is a mixture.
  words.ints.insert(words.ints.end(), {3, 1, 1, 1, 1, 2, 0, 1, 2, 1});
  words.reals.insert(words.reals.end(), {1, 0, 0, 1, 0, 1, 0, 0, 0});
  words.reals.insert(words.reals.end(), {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0});
  words.reals.insert(words.reals.end(),
                     {0.5, 0.5, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, -1, 0});
  // Blocks: qubits, bits, items; items: channel, qubits, place, and parts or
  // record and condition.
  words.ints.insert(words.ints.end(), {3, 1, b, 1, 2, 1, 0, -1, 0});
  words.ints.insert(words.ints.end(),
                    {2, a, b, 3, -1, 1, 0, 1, ~0, 0, 1, 0, -1, 0, -1, 1, 0, 1, 0});
  words.ints.insert(words.ints.end(), {1, b, 1, 1, 1, 0, -1, 0});
  // Trajectories and strings.
  words.ints.insert(words.ints.end(), {20, 1, 0, 1, int64_t{1} << a | int64_t{1} << b, 0});
  words.reals.insert(words.reals.end(), {2, 0.5});
  return words;
}

// X**p of a qubit a in |0>, its measurement, and X of qubit b if the outcome is 1.
Words MeasuredPair(int64_t qubits, int64_t a, int64_t b) {
  Words words;
  // Exponents, readouts, initial states, shots, seed, fresh, keys; factors.
  words.ints = {6, qubits, 1, 0, 0, 0, 0, 0, 0, 0, 1};
  words.AddPowerOfX(0);
  words.ints.push_back(0);  // sequences
  words.ints.insert(words.ints.end(), {2, 1, 2, 0, 1, 1, 1});
  words.reals.insert(words.reals.end(), {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0});
  words.reals.insert(words.reals.end(), {1, 0, 0, 1, 0, 1, 0, 0, 0});
  words.ints.insert(words.ints.end(), {2, 1, a, 2, -1, 1, 0, 1, ~0, 0, 1, 0, 0, 0});
  words.ints.insert(words.ints.end(), {1, b, 1, 1, 1, 0, -1, 1, 0, 0, 1});
  words.ints.insert(words.ints.end(), {20, 0});  // trajectories and strings
  return words;
}

template <class T>
void CheckMeasurements(const Kernels<T>& kernels, int64_t qubits, int64_t a, int64_t b) {
  const std::string context =
      std::to_string(qubits) + " qubits, " + std::to_string(kernels.lanes) + " lanes";
  const TrajectoryEngine<T> engine(
      std::make_shared<TrajectoryProgram>(MeasuredPair(qubits, a, b).Bytes()), kernels);
  const double exponent = 0.3;
  const int64_t count = 2000;
  std::vector<int64_t> order(qubits);
  std::iota(order.begin(), order.end(), 0);
  std::vector<uint8_t> first;
  for (int64_t threads : {1, 3}) {
    Batch batch = {&exponent, nullptr, 1, threads, RunOnThreads(threads)};
    std::vector<uint8_t> records(count);
    std::vector<int64_t> samples(count);
    ExactBuffer<T> states(count * 2 << qubits);
    engine.Measure(batch, order.data(), count, 7, {records.data(), samples.data(), states.data()});
    if (threads == 1) first = records;
    CHECK(records == first, context + ", another number of threads");
    int64_t ones = 0;
    for (int64_t i = 0; i < count; ++i) {
      ones += records[i];
      const int64_t expected = records[i] ? int64_t{1} << a | int64_t{1} << b : 0;
      CHECK(samples[i] == expected, context + ", the end of a run");
      const T* amplitude = states.data() + 2 * ((i << qubits) + expected);
      CHECK(std::abs(std::hypot(amplitude[0], amplitude[1]) - 1) < 1e-5,
            context + ", the state at the end of a run");
    }
    const double probability = std::pow(std::sin(std::acos(-1.0) * exponent / 2), 2);
    const double deviation = std::sqrt(count * probability * (1 - probability));
    CHECK(std::abs(static_cast<double>(ones) - count * probability) < 5 * deviation,
          context + ", outcomes");
  }
}

}  // namespace

void Measurements(bool light) {
  for (int64_t qubits : light ? std::vector<int64_t>{2, 6} : std::vector<int64_t>{2, 3, 6, 9}) {
    CheckMeasurements(BestKernels<float>(), qubits, 0, qubits - 1);
    CheckMeasurements(BestKernels<double>(), qubits, qubits - 1, 0);
  }
  TryCorrupted(MeasuredPair(3, 0, 2), light);
}

void TrajectoryResults(bool light) {
  NoisyResults<TrajectoryEngine, TrajectoryProgram>(-2, FlippedPair, light);
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
  other.ints[other.ints.size() - 6] = 0;
  CHECK(IsRejected(other), "no trajectories");
}

}  // namespace tests
}  // namespace qfleet
