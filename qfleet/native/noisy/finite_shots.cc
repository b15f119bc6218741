#include "noisy/finite_shots.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "state/sampling.h"

namespace qfleet {
namespace {

constexpr uint64_t kStringKey = uint64_t{1} << 63;  // trajectories have lower counters
constexpr int64_t kDrawBits = 8;                    // draws of one sample, 256 are never reached
constexpr double kFewSuccesses = 10;

// One round of SplitMix64 (Steele et al., "Fast splittable pseudorandom number generators", 2014).
uint64_t Mixed(uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9;
  value = (value ^ value >> 27) * 0x94D049BB133111EB;
  return value ^ value >> 31;
}

uint64_t Mixed(uint64_t key, double value) {
  value += 0.0;  // -0 becomes 0
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return Mixed(key ^ bits);
}

// log(k!) up to a constant, by Stirling's series.
double LogFactorial(double k) {
  const double n = k + 1;
  return (n - 0.5) * std::log(n) - n + 1 / (12 * n) - 1 / (360 * n * n * n);
}

// The uniform numbers of one sample.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t key, uint64_t example_key)
      : seed_(seed), key_(key << kDrawBits), example_key_(example_key) {}
  double operator()() { return UniformReal(seed_, key_++, example_key_); }

 private:
  uint64_t seed_, key_, example_key_;
};

// The mean of a Pauli string over `settings.shots` measurements, given its expectation value: a
// binomial sample. Without shots, the expectation value itself.
double SampledMean(const ShotSettings& settings, double expectation, int64_t string,
                   uint64_t example_key) {
  if (settings.shots == 0 || !std::isfinite(expectation)) return expectation;
  const double probability = std::clamp((1 + expectation) / 2, 0.0, 1.0);
  const int64_t found = BinomialSample(settings.shots, probability, settings.seed,
                                       kStringKey >> kDrawBits | string, example_key);
  return 2 * static_cast<double>(found) / static_cast<double>(settings.shots) - 1;
}

}  // namespace

uint64_t ExampleKey(const NoisyProgram& program, const Exponents& exponents) {
  uint64_t key = 0;
  for (int64_t exponent : program.shots.keys) key = Mixed(key, exponents.per_example[exponent]);
  if (!program.shots.fresh) return key;
  for (int64_t e = 0; e < program.per_example; ++e) key = Mixed(key, exponents.per_example[e]);
  for (int64_t e = 0; e < program.shared; ++e) key = Mixed(key, exponents.shared[e]);
  return key;
}

std::vector<double> Readouts(const NoisyProgram& program, const Exponents& exponents,
                             const std::vector<double>& strings) {
  const uint64_t key = ExampleKey(program, exponents);
  std::vector<double> values = program.offsets;
  for (size_t i = 0; i < strings.size(); ++i) {
    const double mean = SampledMean(program.shots, strings[i], i, key);
    for (size_t k = 0; k < values.size(); ++k)
      values[k] += mean * program.weights[i * values.size() + k];
  }
  return values;
}

std::vector<double> StringWeights(const NoisyProgram& program,
                                  const std::vector<double>& upstream) {
  std::vector<double> sums(program.string_count);
  for (size_t i = 0; i < sums.size(); ++i)
    for (size_t k = 0; k < upstream.size(); ++k)
      sums[i] += program.weights[i * upstream.size() + k] * upstream[k];
  return sums;
}

int64_t BinomialSample(int64_t trials, double probability, uint64_t seed, uint64_t key,
                       uint64_t example_key) {
  if (probability > 0.5)
    return trials - BinomialSample(trials, 1 - probability, seed, key, example_key);
  if (trials == 0 || probability <= 0) return 0;
  Draws draw(seed, key, example_key);
  const double n = static_cast<double>(trials), p = probability, odds = p / (1 - p);
  if (n * p < kFewSuccesses) {  // by inversion of the distribution
    double mass = std::exp(n * std::log1p(-p)), target = draw();
    int64_t k = 0;
    while (target > mass && k < trials) {
      target -= mass;
      ++k;
      mass *= odds * (n - static_cast<double>(k) + 1) / static_cast<double>(k);
      if (static_cast<double>(k) > n * p && mass < 1e-300) break;
    }
    return k;
  }
  // Transformed rejection, BTRS (Hoermann, "The generation of binomial random variates", 1993).
  const double spread = std::sqrt(n * p * (1 - p));
  const double b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double center = n * p + 0.5, v_r = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * spread;
  const double mode = std::floor((n + 1) * p);
  const double log_mode = LogFactorial(mode) + LogFactorial(n - mode);
  for (int attempt = 0; attempt < 1 << (kDrawBits - 1); ++attempt) {
    const double u = draw() - 0.5, v = draw(), us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + center);
    if (k < 0 || k > n) continue;
    if (us >= 0.07 && v <= v_r) return static_cast<int64_t>(k);
    const double bound = log_mode - LogFactorial(k) - LogFactorial(n - k);
    if (std::log(v * alpha / (a / (us * us) + b)) <= bound + (k - mode) * std::log(odds))
      return static_cast<int64_t>(k);
  }
  return static_cast<int64_t>(std::min(mode, n));
}

}  // namespace qfleet
