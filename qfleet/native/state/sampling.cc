#include "state/sampling.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace qfleet {
namespace {

constexpr int64_t kSegmentAmplitudes = 256;  // a shot finds its segment, then adds up one segment
constexpr int64_t kShotsPerPart = 256;
constexpr int64_t kShotNanoseconds = 200;

template <class T>
double Probability(const T* amplitude) {
  const double re = static_cast<double>(amplitude[0]), im = static_cast<double>(amplitude[1]);
  return re * re + im * im;
}

// The first index whose sum of probabilities, including its own, is larger than `target`; the last
// index with a probability if rounding leaves none.
template <class T>
int64_t FindInSegment(const T* state, int64_t from, int64_t to, double sum, double target) {
  int64_t last = from;
  for (int64_t index = from; index < to; ++index) {
    const double probability = Probability(state + 2 * index);
    if (probability <= 0) continue;
    sum += probability;
    last = index;
    if (sum > target) break;
  }
  return last;
}

}  // namespace

double UniformReal(uint64_t seed, uint64_t counter_low, uint64_t counter_high) {
  uint32_t word[4] = {static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                      static_cast<uint32_t>(counter_high),
                      static_cast<uint32_t>(counter_high >> 32)};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * word[0], second = uint64_t{0xCD9E8D57} * word[2];
    const uint32_t next[4] = {
        static_cast<uint32_t>(second >> 32) ^ word[1] ^ key[0], static_cast<uint32_t>(second),
        static_cast<uint32_t>(first >> 32) ^ word[3] ^ key[1], static_cast<uint32_t>(first)};
    std::copy_n(next, 4, word);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  const uint64_t bits = uint64_t{word[1]} << 32 | word[0];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

template <class T>
void SampleState(const T* state, int64_t amplitudes, uint64_t seed, int64_t example, int64_t shots,
                 const Parallel& parallel, int64_t* samples) {
  const int64_t segments = (amplitudes + kSegmentAmplitudes - 1) / kSegmentAmplitudes;
  std::vector<double> sums(segments);  // of all probabilities up to the end of each segment
  parallel(segments, kSegmentAmplitudes, [&](int64_t segment) {
    const int64_t from = segment * kSegmentAmplitudes;
    double sum = 0;
    for (int64_t i = from; i < std::min(from + kSegmentAmplitudes, amplitudes); ++i)
      sum += Probability(state + 2 * i);
    sums[segment] = sum;
  });
  for (int64_t segment = 1; segment < segments; ++segment) sums[segment] += sums[segment - 1];
  const double total = sums.back();
  if (!(total > 0) || std::isinf(total))
    throw std::invalid_argument("a state has no finite norm: the exponents must be finite");
  // The last segment with a probability.
  const int64_t last = std::lower_bound(sums.begin(), sums.end(), total) - sums.begin();
  const int64_t parts = (shots + kShotsPerPart - 1) / kShotsPerPart;
  parallel(parts, kShotsPerPart * kShotNanoseconds, [&](int64_t part) {
    const int64_t from = part * kShotsPerPart;
    for (int64_t shot = from; shot < std::min(from + kShotsPerPart, shots); ++shot) {
      const double target = total * UniformReal(seed, shot, example);
      const int64_t found = std::upper_bound(sums.begin(), sums.end(), target) - sums.begin();
      const int64_t segment = std::min(found, last), start = segment * kSegmentAmplitudes;
      samples[shot] = FindInSegment(state, start, std::min(start + kSegmentAmplitudes, amplitudes),
                                    segment ? sums[segment - 1] : 0.0, target);
    }
  });
}

template void SampleState(const float*, int64_t, uint64_t, int64_t, int64_t, const Parallel&,
                          int64_t*);
template void SampleState(const double*, int64_t, uint64_t, int64_t, int64_t, const Parallel&,
                          int64_t*);

}  // namespace qfleet
